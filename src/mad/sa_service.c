/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ServiceRecords (IBA 15.2.5.14): a program registers a service of the own port, and withdraws it.
 * A record is named by service id, GID and P_Key. One with a key is changed by that key only.
 */
#include <string.h>

#include "mad/sa.h"
#include "wire/bytes.h"

/* Components, and where their fields are. */
enum {
	ID = VB_SA_SERVICE_ID,
	GID = 1 << 1,
	PKEY = 1 << 2,
	LEASE = 1 << 4,
	KEY = 1 << 5,
	ID_AT = VB_SA_SERVICE_ID_AT,
	GID_AT = VB_SA_SERVICE_GID_AT,
	PKEY_AT = VB_SA_SERVICE_PKEY_AT,
	LEASE_AT = VB_SA_LEASE_AT,
	KEY_AT = 32,
	KEY_SIZE = 16,
	RID_SIZE = 26, /* id, GID and P_Key lie side by side */
};

static bool has_pkey(const struct vb_mad_port *port, uint16_t pkey)
{
	for (unsigned i = 0; i < port->pkey_count; i++)
		if (port->pkeys[i] == pkey)
			return true;
	return false;
}

/* The record as it is registered. */
static uint16_t complete(const struct vb_sa_query *query, uint8_t record[VB_SA_SERVICE_SIZE])
{
	const struct vb_sa_view *view = query->view;

	if ((query->components & (ID | GID)) != (ID | GID))
		return VB_SA_INSUFFICIENT;
	if (query->components & ~vb_sa_service_components())
		return VB_SA_INVALID;
	if (memcmp(query->data + GID_AT, view->ports[0].gid, VB_SA_GID_SIZE))
		return VB_SA_INVALID_GID;
	memcpy(record, query->data, VB_SA_SERVICE_SIZE);
	memset(record + PKEY_AT + 2, 0, 2);
	if (!(query->components & PKEY))
		vb_put16(record + PKEY_AT, view->own.pkeys[0]);
	if (!(query->components & LEASE))
		vb_put32(record + LEASE_AT, VB_SA_LEASE_EVER);
	if (!(query->components & KEY))
		memset(record + KEY_AT, 0, KEY_SIZE);
	return has_pkey(&view->own, vb_get16(record + PKEY_AT)) && vb_get32(record + LEASE_AT)
		       ? VB_MAD_OK
		       : VB_SA_INVALID;
}

static const struct vb_sa_service *find(const struct vb_sa_view *view, const uint8_t *record)
{
	for (unsigned i = 0; i < view->service_count; i++)
		if (!memcmp(view->services[i].record, record, RID_SIZE))
			return &view->services[i];
	return NULL;
}

static unsigned count_own(const struct vb_sa_view *view)
{
	unsigned count = 0;

	for (unsigned i = 0; i < view->service_count; i++)
		count += view->services[i].is_own;
	return count;
}

/* Only the process that has registered a record knows its key, and changes it. */
static uint16_t check(const struct vb_sa_view *view, const struct vb_sa_service *before,
		      const uint8_t *record, bool adds)
{
	if (!before && !adds)
		return VB_SA_NO_RECORDS;
	if (before &&
	    (!before->is_own || memcmp(before->record + KEY_AT, record + KEY_AT, KEY_SIZE)))
		return VB_SA_DENIED;
	if (!before &&
	    (count_own(view) >= VB_SA_SERVICES_OWN || view->service_count >= VB_SA_SERVICES_MAX))
		return VB_SA_NO_RESOURCES;
	return VB_MAD_OK;
}

uint16_t vb_sa_change_service(const struct vb_sa_query *query, bool adds,
			      struct vb_sa_records *records, struct vb_sa_effect *effect)
{
	const struct vb_sa_service *before;
	uint8_t record[VB_SA_SERVICE_SIZE];
	uint16_t status = complete(query, record);

	if (status)
		return status;
	before = find(query->view, record);
	status = check(query->view, before, record, adds);
	if (status)
		return status;
	effect->act = adds ? VB_SA_REGISTER : VB_SA_WITHDRAW;
	memcpy(effect->service, adds ? record : before->record, VB_SA_SERVICE_SIZE);
	records->size = VB_SA_SERVICE_SIZE;
	records->count = 1;
	memcpy(records->at, effect->service, VB_SA_SERVICE_SIZE);
	vb_sa_service_hide(records->at);
	return VB_MAD_OK;
}

bool vb_sa_service_is(const uint8_t a[VB_SA_SERVICE_SIZE], const uint8_t b[VB_SA_SERVICE_SIZE])
{
	return !memcmp(a, b, RID_SIZE);
}

uint64_t vb_sa_service_id(const uint8_t record[VB_SA_SERVICE_SIZE])
{
	return vb_get64(record + ID_AT);
}

void vb_sa_service_hide(uint8_t record[VB_SA_SERVICE_SIZE])
{
	memset(record + KEY_AT, 0, KEY_SIZE);
}

bool vb_sa_service_is_of(const struct vb_sa_view *view, const uint8_t record[VB_SA_SERVICE_SIZE])
{
	return !memcmp(record + GID_AT, view->ports[0].gid, VB_SA_GID_SIZE) &&
	       vb_get32(record + LEASE_AT);
}

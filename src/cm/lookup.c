/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of endpoints: by local id, by the peer's host with its id or QPN, by local QPN, and of
 * listeners by service id. The hashes have a secret key, because peers choose most of the numbers.
 */
#include "cm/impl.h"

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	return (x ^ x >> 29) * 0xd6e8feb86659fd93ull;
}

static uint32_t hash64(const struct vb_cm *cm, uint64_t key)
{
	return (uint32_t)(mix(key ^ cm->secret) >> 32);
}

static uint32_t hash_of_host(const struct vb_cm *cm, const union ibv_gid *host, uint64_t number)
{
	uint64_t half[2];

	memcpy(half, host, sizeof(half));
	return hash64(cm, mix(mix(half[0] ^ cm->secret) ^ half[1]) ^ number);
}

union ibv_gid vb_cm_host(struct vb_cm *cm, const union ibv_gid *gid)
{
	return cm->ops->gid_is_local(cm->arg, gid) ? (union ibv_gid){ 0 } : *gid;
}

bool vb_cm_host_is(struct vb_cm *cm, const struct vb_cm_endpoint *endpoint,
		   const union ibv_gid *gid)
{
	union ibv_gid host = vb_cm_host(cm, gid);

	return vb_cm_gid_equal(&endpoint->host, &host);
}

/* --- ids --- */

enum { ID_BITS = VB_COMM_ID_SLOT_SHIFT, ID_MASK = (1 << ID_BITS) - 1 };

static uint32_t next_id(struct vb_cm *cm)
{
	uint32_t x = (cm->id_count++ ^ cm->id_mask[0]) * cm->id_factor[0] & ID_MASK;

	x ^= x >> ID_BITS / 2;
	x = (x * cm->id_factor[1] & ID_MASK) ^ cm->id_mask[1];
	return cm->slot << ID_BITS | x;
}

/* The loop ends: there are four times as many ids as endpoints. */
void vb_cm_file_local_id(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;

	do
		endpoint->local_id = next_id(cm);
	while (vb_cm_find_local_id(cm, endpoint->local_id));
	vb_cm_table_add(&cm->by_local_id, &endpoint->in_local_id, hash64(cm, endpoint->local_id));
}

struct vb_cm_endpoint *vb_cm_find_local_id(struct vb_cm *cm, uint32_t id)
{
	vb_list_for(endpoint, vb_cm_bucket(&cm->by_local_id, hash64(cm, id)), struct vb_cm_endpoint,
		    in_local_id.list)
		if (endpoint->local_id == id)
			return endpoint;
	return NULL;
}

/* --- ids and QPNs of the peer --- */

static bool is_sidr(const struct vb_cm_endpoint *endpoint)
{
	return endpoint->state == VB_CM_SIDR_REQ_RECEIVED || endpoint->state == VB_CM_SIDR_REP_SENT;
}

void vb_cm_file_remote_id(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;

	vb_cm_table_add(&cm->by_remote_id, &endpoint->in_remote_id,
			hash_of_host(cm, &endpoint->host, endpoint->remote_id));
}

struct vb_cm_endpoint *vb_cm_find_remote_id(struct vb_cm *cm, const union ibv_gid *host,
					    uint32_t id, bool sidr)
{
	vb_list_for(endpoint, vb_cm_bucket(&cm->by_remote_id, hash_of_host(cm, host, id)),
		    struct vb_cm_endpoint, in_remote_id.list)
		if (endpoint->remote_id == id && is_sidr(endpoint) == sidr &&
		    vb_cm_gid_equal(&endpoint->host, host))
			return endpoint;
	return NULL;
}

/* Several endpoints of programs without a QP may have QPN 0. */
void vb_cm_file_remote_qpn(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;

	if (endpoint->remote_qpn)
		vb_cm_table_add(&cm->by_remote_qpn, &endpoint->in_remote_qpn,
				hash_of_host(cm, &endpoint->host, endpoint->remote_qpn));
}

struct vb_cm_endpoint *vb_cm_find_remote_qpn(struct vb_cm *cm, const union ibv_gid *host,
					     uint32_t qpn)
{
	vb_list_for(endpoint, vb_cm_bucket(&cm->by_remote_qpn, hash_of_host(cm, host, qpn)),
		    struct vb_cm_endpoint, in_remote_qpn.list)
		if (endpoint->remote_qpn == qpn && vb_cm_gid_equal(&endpoint->host, host))
			return endpoint;
	return NULL;
}

void vb_cm_file_local_qpn(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;

	vb_cm_table_add(&cm->by_local_qpn, &endpoint->in_local_qpn,
			hash64(cm, endpoint->local_qpn));
}

struct vb_cm_endpoint *vb_cm_find_local_qpn(struct vb_cm *cm, uint32_t qpn)
{
	vb_list_for(endpoint, vb_cm_bucket(&cm->by_local_qpn, hash64(cm, qpn)),
		    struct vb_cm_endpoint, in_local_qpn.list)
		if (endpoint->local_qpn == qpn)
			return endpoint;
	return NULL;
}

/* --- listeners --- */

void vb_cm_file_service(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;

	vb_cm_table_add(&cm->by_service, &endpoint->in_service, hash64(cm, endpoint->service_id));
}

static bool is_zero(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

/* How well a listener fits: 0 not at all, 1 by a wildcard, 2 by its address. */
static int fitness(const struct vb_cm_endpoint *listener, const union ibv_gid *address,
		   uint32_t scope)
{
	if (!is_zero(&listener->address)) {
		if (!vb_cm_gid_equal(&listener->address, address))
			return 0;
		return listener->scope && scope && listener->scope != scope ? 0 : 2;
	}
	switch (listener->family) {
	case VB_CM_IPV4:
		return is_ipv4(address);
	case VB_CM_IPV6:
		return !is_ipv4(address);
	case VB_CM_DUAL:
		return 1;
	}
	return 0;
}

struct vb_cm_endpoint *vb_cm_find_service(struct vb_cm *cm, uint64_t service_id,
					  const union ibv_gid *address, uint32_t scope)
{
	struct vb_cm_endpoint *best = NULL;
	int best_fitness = 0;

	vb_list_for(listener, vb_cm_bucket(&cm->by_service, hash64(cm, service_id)),
		    struct vb_cm_endpoint, in_service.list) {
		int fits =
			listener->service_id == service_id ? fitness(listener, address, scope) : 0;

		if (fits > best_fitness) {
			best = listener;
			best_fitness = fits;
		}
	}
	return best;
}

struct vb_cm_endpoint *vb_cm_find_listener(struct vb_cm *cm,
					   const struct vb_cm_listen_params *params)
{
	vb_list_for(listener, vb_cm_bucket(&cm->by_service, hash64(cm, params->service_id)),
		    struct vb_cm_endpoint, in_service.list)
		if (listener->service_id == params->service_id &&
		    listener->family == params->family && listener->scope == params->scope &&
		    vb_cm_gid_equal(&listener->address, &params->address))
			return listener;
	return NULL;
}

/* --- leaving --- */

void vb_cm_unfile_qpns(struct vb_cm_endpoint *endpoint)
{
	vb_cm_table_remove(&endpoint->cm->by_remote_qpn, &endpoint->in_remote_qpn);
	vb_cm_table_remove(&endpoint->cm->by_local_qpn, &endpoint->in_local_qpn);
}

void vb_cm_unfile(struct vb_cm_endpoint *endpoint)
{
	struct vb_cm *cm = endpoint->cm;

	vb_cm_unfile_qpns(endpoint);
	vb_cm_table_remove(&cm->by_local_id, &endpoint->in_local_id);
	vb_cm_table_remove(&cm->by_remote_id, &endpoint->in_remote_id);
	vb_cm_table_remove(&cm->by_service, &endpoint->in_service);
}

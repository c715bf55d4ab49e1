/* SPDX-License-Identifier: BSD-2-Clause */
/* The identifiers of this process, for those that ask for its objects. */
#include "rdmacm/describe.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cma.h"

static const uint8_t states[VB_CMA_STATES] = {
	[VB_CMA_IDLE] = VB_DESCRIBE_CM_IDLE,
	[VB_CMA_ADDR_BOUND] = VB_DESCRIBE_CM_ADDR_BOUND,
	[VB_CMA_ADDR_QUERY] = VB_DESCRIBE_CM_ADDR_QUERY,
	[VB_CMA_ADDR_RESOLVED] = VB_DESCRIBE_CM_ADDR_RESOLVED,
	[VB_CMA_ROUTE_RESOLVED] = VB_DESCRIBE_CM_ROUTE_RESOLVED,
	[VB_CMA_LISTEN] = VB_DESCRIBE_CM_LISTEN,
	[VB_CMA_CONNECT] = VB_DESCRIBE_CM_CONNECT,
	[VB_CMA_DISCONNECT] = VB_DESCRIBE_CM_DISCONNECT,
	[VB_CMA_REMOVED] = VB_DESCRIBE_CM_DEVICE_REMOVAL,
};

static_assert(sizeof(struct sockaddr_in6) == sizeof(((struct vb_describe_record *)0)->src),
	      "room for an address");

static void put_address(uint8_t room[sizeof(struct sockaddr_in6)],
			const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		memcpy(room, address, sizeof(struct sockaddr_in));
	else if (address->ss_family == AF_INET6)
		memcpy(room, address, sizeof(struct sockaddr_in6));
}

/* The messages of a handshake that has begun. */
static enum vb_describe_cm_wait wait_of(const struct vb_cma_id *id)
{
	if (id->state == VB_CMA_ADDR_QUERY)
		return VB_CM_WAITS_ADDRESS;
	if (!id->has_endpoint)
		return VB_CM_WAITS_NOT;
	switch (id->endpoint.state) {
	case VB_CM_REQ_SENT:
		return VB_CM_WAITS_REP;
	case VB_CM_REQ_RECEIVED:
	case VB_CM_SIDR_REQ_RECEIVED:
		return id->told ? VB_CM_WAITS_ACCEPT : VB_CM_WAITS_FETCH;
	case VB_CM_REP_SENT:
		return VB_CM_WAITS_RTU;
	case VB_CM_REP_RECEIVED:
		return VB_CM_WAITS_ESTABLISH;
	case VB_CM_DREQ_SENT:
		return VB_CM_WAITS_DREP;
	case VB_CM_SIDR_REQ_SENT:
		return VB_CM_WAITS_SIDR;
	case VB_CM_IDLE:
	case VB_CM_LISTEN:
	case VB_CM_ESTABLISHED:
	case VB_CM_DREQ_RECEIVED:
	case VB_CM_TIMEWAIT:
	case VB_CM_REJECTED:
	case VB_CM_SIDR_REP_SENT:
	case VB_CM_STATES:
		break;
	}
	return VB_CM_WAITS_NOT;
}

/* The application's own fields may change at any time: id.verbs and id.qp are not looked at. */
static void put_id(struct vb_describe_record *record, const struct vb_cma_id *id)
{
	*record = (struct vb_describe_record){
		.kind = VB_DESCRIBE_CM_ID,
		.id = id->number,
		.type = (uint8_t)id->id.qp_type,
		.state = states[id->state],
		.port_space = id->id.ps,
		.cm_qpn = id->qp_num,
		.cm_wait = (uint8_t)wait_of(id),
		.since_ns = id->since_ns,
	};
	if (id->device) {
		const char *name = id->device->device->name;

		memcpy(record->device, name, strnlen(name, sizeof(record->device)));
	}
	put_address(record->src, &id->id.route.addr.src_storage);
	put_address(record->dst, &id->id.route.addr.dst_storage);
}

int vb_cma_describe(struct vb_describe_record **records, uint32_t *count)
{
	uint32_t all = 0;

	*count = 0;
	vb_cma_lock();
	vb_list_for(id, vb_cma_ids(), struct vb_cma_id, node)
		all++;
	*records = calloc(all + 1, sizeof(**records));
	if (*records)
		vb_list_for(id, vb_cma_ids(), struct vb_cma_id, node)
			put_id(&(*records)[(*count)++], id);
	vb_cma_unlock();
	return *records ? 0 : -ENOMEM;
}

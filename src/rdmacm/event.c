/* SPDX-License-Identifier: BSD-2-Clause */
/* Events: made, queued, acknowledged. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/cma.h"
#include "rdmacm/multicast.h"
#include "rdmacm/system.h"

struct vb_cma_event *vb_cma_event_create(struct vb_cma_id *owner, enum rdma_cm_event_type type,
					 int status)
{
	struct vb_cma_event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	vb_list_init(&event->node);
	event->owner = owner;
	event->event.id = &owner->id;
	event->event.event = type;
	event->event.status = status;
	return event;
}

int vb_cma_event_raise(struct vb_cma_id *owner, enum rdma_cm_event_type type, int status)
{
	struct vb_cma_event *event = vb_cma_event_create(owner, type, status);

	if (!event)
		return -ENOMEM;
	vb_cma_channel_queue(vb_cma_channel_of(owner), event);
	return 0;
}

void vb_cma_event_private(struct vb_cma_event *event, bool ud, const void *data, size_t len)
{
	if (len > sizeof(event->private_data))
		len = sizeof(event->private_data);
	if (!len)
		return;
	memcpy(event->private_data, data, len);
	if (ud) {
		event->event.param.ud.private_data = event->private_data;
		event->event.param.ud.private_data_len = (uint8_t)len;
	} else {
		event->event.param.conn.private_data = event->private_data;
		event->event.param.conn.private_data_len = (uint8_t)len;
	}
}

VB_PUBLIC int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	VB_NO_CANCEL;
	struct vb_cma_event *acked = (struct vb_cma_event *)event;

	if (!event)
		return vb_cma_null(__func__);
	if (acked->system) {
		vb_cma_system_ack(acked);
		return 0;
	}
	vb_cma_lock();
	if (acked->group)
		vb_cma_group_acked(acked->group);
	acked->owner->events_acked++;
	pthread_cond_broadcast(&acked->owner->acked);
	vb_cma_unlock();
	free(acked);
	return 0;
}

/* --- names: those of the enumeration --- */

#define NAMED(event) [event] = #event

static const char *const names[] = {
	NAMED(RDMA_CM_EVENT_ADDR_RESOLVED),
	NAMED(RDMA_CM_EVENT_ADDR_ERROR),
	NAMED(RDMA_CM_EVENT_ROUTE_RESOLVED),
	NAMED(RDMA_CM_EVENT_ROUTE_ERROR),
	NAMED(RDMA_CM_EVENT_CONNECT_REQUEST),
	NAMED(RDMA_CM_EVENT_CONNECT_RESPONSE),
	NAMED(RDMA_CM_EVENT_CONNECT_ERROR),
	NAMED(RDMA_CM_EVENT_UNREACHABLE),
	NAMED(RDMA_CM_EVENT_REJECTED),
	NAMED(RDMA_CM_EVENT_ESTABLISHED),
	NAMED(RDMA_CM_EVENT_DISCONNECTED),
	NAMED(RDMA_CM_EVENT_DEVICE_REMOVAL),
	NAMED(RDMA_CM_EVENT_MULTICAST_JOIN),
	NAMED(RDMA_CM_EVENT_MULTICAST_ERROR),
	NAMED(RDMA_CM_EVENT_ADDR_CHANGE),
	NAMED(RDMA_CM_EVENT_TIMEWAIT_EXIT),
	NAMED(RDMA_CM_EVENT_ADDRINFO_RESOLVED),
	NAMED(RDMA_CM_EVENT_ADDRINFO_ERROR),
	NAMED(RDMA_CM_EVENT_USER),
	NAMED(RDMA_CM_EVENT_INTERNAL),
};

VB_PUBLIC const char *rdma_event_str(enum rdma_cm_event_type event)
{
	/* The application may pass any value. */
	if ((unsigned)event >= sizeof(names) / sizeof(names[0]) || !names[event])
		return "UNKNOWN EVENT";
	return names[event];
}

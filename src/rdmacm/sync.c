/* SPDX-License-Identifier: BSD-2-Clause */
/* Synchronous identifiers: a call waits for its event, and the event stays in id->event. */
#include <errno.h>

#include "rdmacm/cma.h"

static int status_of(const struct rdma_cm_event *event)
{
	if (!event->status)
		return 0;
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return -ECONNREFUSED;
	return event->status < 0 ? event->status : -event->status;
}

/* Takes the lock, because several threads may wait for the requests of one listener. */
static struct rdma_cm_event *exchange(struct vb_cma_id *id, struct rdma_cm_event *event)
{
	struct rdma_cm_event *before;

	vb_cma_lock();
	before = id->id.event;
	id->id.event = event;
	vb_cma_unlock();
	return before;
}

void vb_cma_event_keep(struct vb_cma_id *id, struct rdma_cm_event *event)
{
	struct rdma_cm_event *before = exchange(id, event);

	if (before)
		rdma_ack_cm_event(before);
}

void vb_cma_event_done(struct vb_cma_id *id)
{
	if (id->sync)
		vb_cma_event_keep(id, NULL);
}

int vb_cma_event_wait(struct vb_cma_id *id, bool sync)
{
	if (!sync)
		return 0;
	vb_cma_event_done(id);
	if (rdma_get_cm_event(id->id.channel, &id->id.event))
		return -errno;
	vb_explained = true; /* with the event */
	return status_of(id->id.event);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/disconnect_delay.h"

#include <stdlib.h>

#include "base/clock.h"

#define DELAY_NS 2000000u

/* In order of due_ns: all events wait for the same time. */
static struct vb_list delayed = VB_LIST_INIT(delayed);

void vb_cma_disconnect_delay(struct vb_cma_event *event, uint64_t now_ns)
{
	event->due_ns = now_ns + DELAY_NS;
	vb_list_append(&delayed, &event->node);
}

static void queue_delayed(struct vb_cma_event *event)
{
	vb_list_remove(&event->node);
	vb_cma_channel_queue(vb_cma_channel_of(event->owner), event);
}

void vb_cma_disconnect_delay_tick(uint64_t now_ns)
{
	vb_list_for(event, &delayed, struct vb_cma_event, node) {
		if (event->due_ns > now_ns)
			return;
		queue_delayed(event);
	}
}

uint64_t vb_cma_disconnect_delay_next_ns(void)
{
	if (vb_list_empty(&delayed))
		return VB_NEVER_NS;
	return vb_container(delayed.next, struct vb_cma_event, node)->due_ns;
}

void vb_cma_disconnect_delay_end(struct vb_cma_id *id)
{
	vb_list_for(event, &delayed, struct vb_cma_event, node) {
		if (event->owner == id)
			queue_delayed(event);
	}
}

void vb_cma_disconnect_delay_drop(struct vb_cma_id *id)
{
	vb_list_for(event, &delayed, struct vb_cma_event, node) {
		if (event->owner != id)
			continue;
		vb_list_remove(&event->node);
		free(event);
	}
}

void vb_cma_disconnect_delay_forget(void)
{
	vb_list_init(&delayed);
}

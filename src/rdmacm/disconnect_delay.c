/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/disconnect_delay.h"

#include <stdlib.h>

#include "base/clock.h"

#define DELAY_NS 2000000u

/* Each waits as long as the others: the oldest is the first one due. */
static struct vb_list held = VB_LIST_INIT(held);

void vb_cma_disconnect_delay(struct vb_cma_event *event, uint64_t now_ns)
{
	event->due_ns = now_ns + DELAY_NS;
	vb_list_append(&held, &event->node);
}

static void let_go(struct vb_cma_event *event)
{
	vb_list_remove(&event->node);
	vb_cma_channel_queue(vb_cma_channel_of(event->owner), event);
}

void vb_cma_disconnect_delay_tick(uint64_t now_ns)
{
	vb_list_for(event, &held, struct vb_cma_event, node) {
		if (event->due_ns > now_ns)
			return;
		let_go(event);
	}
}

uint64_t vb_cma_disconnect_delay_next_ns(void)
{
	if (vb_list_empty(&held))
		return VB_NEVER_NS;
	return vb_container(held.next, struct vb_cma_event, node)->due_ns;
}

void vb_cma_disconnect_delay_end(struct vb_cma_id *id)
{
	vb_list_for(event, &held, struct vb_cma_event, node) {
		if (event->owner == id)
			let_go(event);
	}
}

void vb_cma_disconnect_delay_drop(struct vb_cma_id *id)
{
	vb_list_for(event, &held, struct vb_cma_event, node) {
		if (event->owner != id)
			continue;
		vb_list_remove(&event->node);
		free(event);
	}
}

void vb_cma_disconnect_delay_forget(void)
{
	vb_list_init(&held);
}

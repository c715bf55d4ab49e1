/* SPDX-License-Identifier: BSD-2-Clause */
/* Event channels: a queue of events, and a descriptor that counts them. */
#include <errno.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/cma.h"
#include "rdmacm/multicast.h"
#include "rdmacm/system.h"

/* Channels with events that their descriptors do not count yet. */
static struct vb_list unrung = VB_LIST_INIT(unrung);

int vb_cma_channel_create(struct vb_cma_channel **out)
{
	struct vb_cma_channel *channel = calloc(1, sizeof(*channel));
	int err;

	if (!channel)
		return -ENOMEM;
	err = vb_event_fd_open(&channel->fd);
	if (err) {
		free(channel);
		return err;
	}
	channel->generation = vb_cma_generation();
	vb_list_init(&channel->events);
	vb_list_init(&channel->ids);
	vb_list_init(&channel->ring_node);
	channel->channel.fd = channel->fd->fd;
	err = vb_cma_system_channel_open(channel);
	if (err) {
		vb_cma_channel_destroy(channel);
		return err;
	}
	*out = channel;
	return 0;
}

/* Identifiers that are still on the channel lose their connection, and can only be destroyed. */
static void abandon(struct vb_cma_channel *channel)
{
	/* The loop begins anew each time, because a listener takes its children from the list. */
	while (!vb_list_empty(&channel->ids)) {
		struct vb_cma_id *id =
			vb_container(channel->ids.next, struct vb_cma_id, channel_node);

		vb_explain("rdma_destroy_event_channel: identifier %p is still on the channel; "
			   "destroy identifiers first",
			   (void *)id);
		vb_cma_id_silence(id);
		vb_list_remove(&id->channel_node);
		id->id.channel = NULL;
		id->state = VB_CMA_REMOVED;
	}
}

void vb_cma_channel_destroy(struct vb_cma_channel *channel)
{
	vb_cma_lock();
	if (channel->generation == vb_cma_generation())
		abandon(channel);
	vb_list_remove(&channel->ring_node);
	vb_cma_unlock();
	vb_cma_system_channel_close(channel);
	vb_event_fd_close(channel->fd);
	vb_event_fd_put(channel->fd);
	free(channel);
}

void vb_cma_channel_queue(struct vb_cma_channel *channel, struct vb_cma_event *event)
{
	vb_list_append(&channel->events, &event->node);
	channel->unrung++;
	if (vb_list_empty(&channel->ring_node))
		vb_list_append(&unrung, &channel->ring_node);
}

/* A woken thread wants the lock, so the ring comes right before the unlock. */
void vb_cma_channels_ring(void)
{
	while (!vb_list_empty(&unrung)) {
		struct vb_cma_channel *channel =
			vb_container(unrung.next, struct vb_cma_channel, ring_node);
		uint64_t count = channel->unrung;

		vb_list_remove(&channel->ring_node);
		channel->unrung = 0;
		if (count)
			vb_event_fd_count(channel->fd, count);
	}
}

/*
 * A thread in vb_cma_channel_take may have taken the count and wait for our lock. Then there is no
 * count to take back, and that thread finds no event.
 */
void vb_cma_channel_withdraw(struct vb_cma_channel *channel, struct vb_cma_event *event)
{
	vb_list_remove(&event->node);
	if (channel->unrung)
		channel->unrung--;
	else
		vb_event_fd_uncount(channel->fd);
}

static void *oldest(void *queue)
{
	struct vb_cma_channel *channel = queue;
	struct vb_cma_event *event = NULL;

	vb_cma_lock();
	if (!vb_list_empty(&channel->events)) {
		event = vb_container(channel->events.next, struct vb_cma_event, node);
		vb_list_remove(&event->node);
		event->owner->events_reported++;
		if (event->group)
			event->group->events_reported++;
	}
	vb_cma_unlock();
	return event;
}

int vb_cma_channel_take(struct vb_cma_channel *channel, struct vb_cma_event **event)
{
	return channel->system ? vb_cma_system_channel_take(channel, event)
			       : vb_cma_channel_take_own(channel, event);
}

int vb_cma_channel_take_own(struct vb_cma_channel *channel, struct vb_cma_event **event)
{
	void *taken;
	int err = vb_event_fd_take(channel->fd, oldest, channel, &taken);

	*event = taken;
	return err;
}

VB_PUBLIC struct rdma_event_channel *rdma_create_event_channel(void)
{
	VB_NO_CANCEL;
	struct vb_cma_channel *channel = NULL;
	int err = vb_cma_begin();

	if (!err)
		err = vb_cma_channel_create(&channel);
	return err ? vb_return_null(err) : &channel->channel;
}

VB_PUBLIC void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	VB_NO_CANCEL;

	if (channel)
		vb_cma_channel_destroy((struct vb_cma_channel *)channel);
}

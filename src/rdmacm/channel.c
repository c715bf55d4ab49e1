/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels: a queue, and an eventfd in semaphore mode that counts what is in it, so that the
 * descriptor is readable exactly as long as there is an event, and O_NONBLOCK means what it says.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rdmacm/cma.h"
#include "rdmacm/multicast.h"
#include "verbs/result.h"
#include "verbs/symver.h"

/* Those with events that their descriptors do not count yet. */
static struct vb_list unrung = VB_LIST_INIT(unrung);

int vb_cma_channel_create(struct vb_cma_channel **out)
{
	struct vb_cma_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return -ENOMEM;
	channel->generation = vb_cma_generation();
	vb_list_init(&channel->events);
	vb_list_init(&channel->ids);
	vb_list_init(&channel->ring_node);
	channel->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (channel->channel.fd < 0) {
		int err = -errno;

		free(channel);
		return err;
	}
	*out = channel;
	return 0;
}

/* Identifiers that are still on it lose their connection; they may only be destroyed. */
static void abandon(struct vb_cma_channel *channel)
{
	/* A listener takes those of its requests with it. */
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
	close(channel->channel.fd);
	free(channel);
}

void vb_cma_channel_queue(struct vb_cma_channel *channel, struct vb_cma_event *event)
{
	vb_list_append(&channel->events, &event->node);
	channel->unrung++;
	if (vb_list_empty(&channel->ring_node))
		vb_list_append(&unrung, &channel->ring_node);
}

/* Whoever is woken wants the lock: so it is the last thing that is done with it. */
void vb_cma_channels_ring(void)
{
	while (!vb_list_empty(&unrung)) {
		struct vb_cma_channel *channel =
			vb_container(unrung.next, struct vb_cma_channel, ring_node);
		uint64_t count = channel->unrung;

		vb_list_remove(&channel->ring_node);
		channel->unrung = 0;
		/* Only a count of 2^64 - 2 could make this fail. */
		if (count && write(channel->channel.fd, &count, sizeof(count)) < 0)
			vb_explain("an event channel's descriptor is not writable: was it closed?");
	}
}

/* Takes a count without waiting, although the descriptor may be a blocking one. */
static void uncount(int fd)
{
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) >= 0 || errno == EAGAIN)
		return;
	/* A kernel that has no RWF_NOWAIT for eventfds. */
	if (poll(&ready, 1, 0) == 1 && read(fd, &count, sizeof(count)) < 0)
		return;
}

/*
 * Somebody in vb_cma_channel_take may have the count already, and is waiting for our lock: then
 * there is none to take, and he finds no event for it.
 */
void vb_cma_channel_withdraw(struct vb_cma_channel *channel, struct vb_cma_event *event)
{
	vb_list_remove(&event->node);
	if (channel->unrung)
		channel->unrung--;
	else
		uncount(channel->channel.fd);
}

static struct vb_cma_event *oldest(struct vb_cma_channel *channel)
{
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
	uint64_t count;

	do {
		if (read(channel->channel.fd, &count, sizeof(count)) < 0)
			return -errno;
		*event = oldest(channel);
	} while (!*event);
	return 0;
}

VB_PUBLIC struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct vb_cma_channel *channel = NULL;
	int err = vb_cma_begin();

	if (!err)
		err = vb_cma_channel_create(&channel);
	return err ? vb_return_null(err) : &channel->channel;
}

VB_PUBLIC void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (channel)
		vb_cma_channel_destroy((struct vb_cma_channel *)channel);
}

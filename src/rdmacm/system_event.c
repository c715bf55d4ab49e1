/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels with two sources of events. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/fd.h"
#include "rdmacm/system.h"

static int watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Takes from both never block; the program's descriptor says whether its call does. */
static int set_nonblocking(int fd)
{
	return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) ? -errno : 0;
}

static int join(struct vb_cma_channel *channel)
{
	int err = set_nonblocking(channel->fd->fd);

	if (!err)
		err = set_nonblocking(channel->system->fd);
	if (!err)
		err = watch(channel->both_fd, channel->fd->fd);
	return err ? err : watch(channel->both_fd, channel->system->fd);
}

int vb_cma_system_channel_open(struct vb_cma_channel *channel)
{
	const struct vb_cma_system_calls *calls = vb_cma_system();
	int err;

	if (!calls)
		return 0;
	vb_cma_engine()->system_enter();
	channel->system = calls->rdma_create_event_channel();
	if (!channel->system) {
		vb_explain("the system's librdmacm has no event channel (error %d; rdma_ucm may "
			   "not be loaded): its devices have no connections",
			   vb_cma_engine()->system_errno());
		return 0;
	}
	channel->both_fd = epoll_create1(EPOLL_CLOEXEC);
	err = channel->both_fd < 0 ? -errno : join(channel);
	if (err)
		vb_cma_system_channel_close(channel);
	else
		channel->channel.fd = channel->both_fd;
	return err;
}

void vb_cma_system_channel_close(struct vb_cma_channel *channel)
{
	if (!channel->system)
		return;
	if (channel->generation == vb_cma_generation()) {
		vb_cma_engine()->system_enter();
		vb_cma_system()->rdma_destroy_event_channel(channel->system);
	} else {
		close(channel->system->fd); /* the parent's; only this copy ends */
	}
	if (channel->both_fd >= 0)
		close(channel->both_fd);
	channel->system = NULL;
}

/* --- events --- */

/* The request of a peer has an identifier already, which gets one of ours. */
static int adopt_child(struct vb_cma_id *listener, struct rdma_cm_id *shadow,
		       struct vb_cma_event *event)
{
	struct vb_cma_id *child;
	int err;

	vb_cma_lock();
	err = vb_cma_id_add(vb_cma_channel_of(listener), listener->id.context, shadow->ps,
			    shadow->qp_type, &child);
	vb_cma_unlock();
	if (err)
		return err;
	child->shadow = shadow;
	child->is_systems = true;
	child->told = true;
	shadow->context = child;
	vb_cma_system_end(child, 0, "rdma_get_cm_event");
	event->event.id = &child->id;
	event->event.listen_id = &listener->id;
	err = listener->sync ? vb_cma_id_migrate(child, NULL) : 0;
	return err;
}

/* A request that cannot be told of is refused, as one that comes to a full queue. */
static void refuse(struct rdma_cm_event *event)
{
	struct rdma_cm_id *shadow = event->id;
	const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;

	if (request)
		vb_cma_system()->rdma_reject(shadow, NULL, 0);
	vb_cma_system()->rdma_ack_cm_event(event);
	if (request)
		vb_cma_system()->rdma_destroy_id(shadow);
}

/* NULL: the event is over. */
static struct vb_cma_event *translate(struct rdma_cm_event *theirs)
{
	const bool request = theirs->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	struct rdma_cm_id *shadow = request ? theirs->listen_id : theirs->id;
	struct vb_cma_id *owner = shadow->context;
	struct vb_cma_event *event = calloc(1, sizeof(*event));
	int err = event ? 0 : -ENOMEM;

	if (!err) {
		vb_list_init(&event->node);
		event->event = *theirs;
		event->event.id = &owner->id;
		event->owner = owner;
		event->system = theirs;
	}
	if (!err && request)
		err = adopt_child(owner, theirs->id, event);
	else if (!err)
		vb_cma_system_end(owner, 0, "rdma_get_cm_event");
	if (!err)
		return event;
	vb_explain("an event of the system's librdmacm cannot be told: error %d", -err);
	free(event);
	refuse(theirs);
	return NULL;
}

static int take_theirs(struct vb_cma_channel *channel, struct vb_cma_event **event)
{
	struct rdma_cm_event *theirs;

	do {
		vb_cma_engine()->system_enter();
		if (vb_cma_system()->rdma_get_cm_event(channel->system, &theirs))
			return -vb_cma_engine()->system_errno();
		*event = translate(theirs);
	} while (!*event);
	return 0;
}

static int wait_for_either(const struct vb_cma_channel *channel)
{
	struct pollfd ready = { .fd = channel->both_fd, .events = POLLIN };
	int err;

	if (fcntl(channel->both_fd, F_GETFL) & O_NONBLOCK)
		return -EAGAIN;
	VB_SLEEP_BEGIN;
	err = poll(&ready, 1, -1) < 0 ? -errno : 0;
	VB_SLEEP_END;
	return err;
}

int vb_cma_system_channel_take(struct vb_cma_channel *channel, struct vb_cma_event **event)
{
	int err;

	do {
		err = vb_cma_channel_take_own(channel, event);
		if (err == -EAGAIN)
			err = take_theirs(channel, event);
		if (err != -EAGAIN)
			return err;
		err = wait_for_either(channel);
	} while (!err);
	return err;
}

void vb_cma_system_ack(struct vb_cma_event *event)
{
	vb_cma_engine()->system_enter();
	vb_cma_system()->rdma_ack_cm_event(event->system);
	free(event);
}

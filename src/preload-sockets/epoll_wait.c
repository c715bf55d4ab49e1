/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting in an epoll set with rsockets. */
#include <errno.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "preload-sockets/epoll_impl.h"
#include "rsocket/rsocket.h"

enum { BATCH = 64, STACK_EVENTS = 128 };

/* The events of the rsocket. It is armed if there are none, and always if EPOLLET is set. */
static uint32_t look_at_rsocket(struct vb_epoll_member *member)
{
	struct vb_rs *rs = member->rs;
	const short wanted = (short)(member->event.events & 0x7fff);
	short ready;

	pthread_mutex_lock(&rs->lock);
	if (member->event.events & EPOLLET) {
		while (vb_rs_arm(rs, &member->watch))
			;
		ready = vb_rs_ready(rs, wanted);
	} else {
		do {
			ready = vb_rs_ready(rs, wanted);
		} while (!ready && vb_rs_arm(rs, &member->watch));
	}
	vb_epoll_member_channel(member, vb_rs_completion_fd(rs));
	pthread_mutex_unlock(&rs->lock);
	return (uint32_t)(unsigned short)ready;
}

static uint32_t look_at_kernel(const struct vb_epoll_member *member)
{
	struct pollfd fd = { .fd = member->fd, .events = (short)(member->event.events & 0x7fff) };

	return vb_real()->poll(&fd, 1, 0) > 0 ? (uint32_t)(unsigned short)fd.revents : 0;
}

static uint32_t look_at_member(struct vb_epoll_member *member)
{
	struct vb_entry_parts parts;
	uint32_t ready = 0;

	if (member->in_kernel)
		return 0;
	vb_entry_await(member->entry, member->fd);
	parts = vb_entry_parts(member->entry, member->fd);
	vb_epoll_member_fit(member, &parts);
	if (parts.rs)
		vb_rs_put(parts.rs);
	if (member->disabled || member->in_kernel)
		return 0;
	if (member->rs)
		ready |= look_at_rsocket(member);
	if (member->listens)
		ready |= look_at_kernel(member);
	return ready;
}

static struct vb_epoll_member *take_hot(struct vb_epoll_set *set)
{
	struct vb_epoll_member *member;

	pthread_mutex_lock(&vb_epoll_lock);
	member = vb_list_element(set->hot.next, &set->hot, struct vb_epoll_member, hot_node);
	if (member)
		vb_list_remove(&member->hot_node);
	pthread_mutex_unlock(&vb_epoll_lock);
	return member;
}

/* The member was ready, and EPOLLET is not set: the next wait looks again. */
static void stay_hot(struct vb_epoll_member *member)
{
	pthread_mutex_lock(&vb_epoll_lock);
	if (vb_list_empty(&member->hot_node))
		vb_list_append(&member->set->hot, &member->hot_node);
	pthread_mutex_unlock(&vb_epoll_lock);
}

static unsigned count_hot(struct vb_epoll_set *set)
{
	unsigned count = 0;

	pthread_mutex_lock(&vb_epoll_lock);
	for (const struct vb_list *node = set->hot.next; node != &set->hot; node = node->next)
		count++;
	pthread_mutex_unlock(&vb_epoll_lock);
	return count;
}

/* Looks at each hot member once, and returns the number of ready ones. */
static int collect_ready(struct vb_epoll_set *set, struct epoll_event *events, int count)
{
	struct vb_epoll_member *member;
	int filled = 0;

	pthread_mutex_lock(&set->check_lock);
	for (unsigned left = count_hot(set); left && filled < count; left--) {
		uint32_t ready;

		member = take_hot(set);
		if (!member)
			break;
		ready = look_at_member(member);
		if (!ready)
			continue;
		events[filled++] =
			(struct epoll_event){ .events = ready, .data = member->event.data };
		if (member->event.events & EPOLLONESHOT)
			member->disabled = true;
		else if (!(member->event.events & EPOLLET))
			stay_hot(member);
	}
	pthread_mutex_unlock(&set->check_lock);
	return filled;
}

/* Heats the members whose look_at_ns has come. Returns the next such time. */
static uint64_t heat_due(struct vb_epoll_set *set)
{
	uint64_t next_ns = VB_NEVER_NS, now_ns = 0;

	pthread_mutex_lock(&set->check_lock);
	vb_list_for(member, &set->members, struct vb_epoll_member, set_node) {
		if (member->look_at_ns == VB_NEVER_NS)
			continue;
		now_ns = now_ns ? now_ns : vb_now_ns();
		if (member->look_at_ns <= now_ns)
			stay_hot(member);
		else if (member->look_at_ns < next_ns)
			next_ns = member->look_at_ns;
	}
	pthread_mutex_unlock(&set->check_lock);
	return next_ns;
}

/* Takes vb_epoll_lock, so that no thread frees a member that the events name. */
static void heat_from_inner(struct vb_epoll_set *set)
{
	struct epoll_event events[BATCH];
	int count;

	pthread_mutex_lock(&vb_epoll_lock);
	count = vb_real()->epoll_pwait(set->inner_fd, events, BATCH, 0, NULL);
	for (int i = 0; i < count; i++) {
		struct vb_epoll_member *member = events[i].data.ptr;

		if (!member)
			vb_rs_event_drain(set->kick_fd);
		else if (vb_list_empty(&member->hot_node))
			vb_list_append(&set->hot, &member->hot_node);
	}
	pthread_mutex_unlock(&vb_epoll_lock);
}

static int timeout_ms(uint64_t deadline_ns)
{
	uint64_t now_ns, ms;

	if (deadline_ns == VB_NEVER_NS)
		return -1;
	if (!deadline_ns)
		return 0;
	now_ns = vb_now_ns();
	if (now_ns >= deadline_ns)
		return 0;
	ms = (deadline_ns - now_ns + 999999u) / 1000000u;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* The events of ordinary descriptors. events has room for one more than count: that of inner_fd. */
static int wait_kernel(struct vb_epoll_set *set, struct epoll_event *events, int count,
		       uint64_t deadline_ns, const sigset_t *mask)
{
	int found, kept = 0;

	VB_SLEEP_BEGIN;
	found = vb_real()->epoll_pwait(set->epfd, events, count + 1, timeout_ms(deadline_ns), mask);
	VB_SLEEP_END;
	if (found < 0)
		return -errno;
	for (int i = 0; i < found; i++) {
		if (events[i].data.ptr == set)
			heat_from_inner(set);
		else
			events[kept++] = events[i];
	}
	return kept > count ? count : kept; /* the next wait reports an event that is cut off */
}

static int set_wait(struct vb_epoll_set *set, struct epoll_event *events, int count,
		    uint64_t deadline_ns, const sigset_t *mask)
{
	for (;;) {
		const uint64_t look_ns = heat_due(set);
		const uint64_t until_ns = look_ns < deadline_ns ? look_ns : deadline_ns;
		int filled = collect_ready(set, events, count);
		int found = 0;

		if (filled < count)
			found = wait_kernel(set, events + filled, count - filled,
					    filled ? 0 : until_ns, filled ? NULL : mask);
		if (found < 0)
			return filled ? filled : found;
		filled += found;
		if (!filled)
			filled = collect_ready(set, events, count);
		if (filled || deadline_ns == 0 ||
		    (deadline_ns != VB_NEVER_NS && vb_now_ns() >= deadline_ns))
			return filled;
	}
}

static void undo_set_get(void *object)
{
	vb_fd_object_put(object);
}

static int wait_into(struct vb_epoll_set *set, struct epoll_event *room, int count,
		     uint64_t deadline_ns, const sigset_t *mask)
{
	struct vb_undo undo;
	int result;

	vb_undo_push(&undo, undo_set_get, &set->object);
	result = set_wait(set, room, count, deadline_ns, mask);
	vb_undo_pop(&undo);
	return result;
}

int vb_epoll_wait(int epfd, struct epoll_event *events, int count, uint64_t deadline_ns,
		  const sigset_t *mask)
{
	struct epoll_event few[STACK_EVENTS + 1], *many = NULL, *room = few;
	struct vb_epoll_set *set = vb_epoll_set_get(epfd);
	struct vb_undo undo;
	int result;

	if (!set)
		return -EBADF;
	if (count > STACK_EVENTS)
		room = many = malloc(((size_t)count + 1) * sizeof(*room));
	vb_undo_push(&undo, free, many);
	result = room ? wait_into(set, room, count, deadline_ns, mask) : -ENOMEM;
	vb_undo_pop(&undo);
	for (int i = 0; i < result; i++)
		events[i] = room[i];
	free(many);
	vb_fd_object_put(&set->object);
	return result;
}

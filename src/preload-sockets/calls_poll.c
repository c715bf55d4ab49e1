/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that wait. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/symver.h"
#include "preload-sockets/entry.h"
#include "preload-sockets/epoll_set.h"
#include "rsocket/poll.h"

/* Each descriptor of the program becomes one entry of the arrays; a listener becomes two. */
struct round {
	nfds_t used;
	struct pollfd *fds;
	struct vb_rs **rsockets;
	nfds_t *origin; /* index in the program's array */
	uint64_t look_again_at_ns;
};

static void round_add(struct round *round, nfds_t origin, const struct pollfd *fd, struct vb_rs *rs)
{
	round->fds[round->used] = *fd;
	round->fds[round->used].revents = 0;
	round->rsockets[round->used] = rs;
	round->origin[round->used++] = origin;
}

static void round_fill(struct round *round, const struct pollfd *fds, nfds_t count)
{
	round->used = 0;
	round->look_again_at_ns = VB_NEVER_NS;
	for (nfds_t i = 0; i < count; i++) {
		struct vb_entry *entry = vb_entry_get(fds[i].fd);
		struct vb_entry_parts parts = { .kernel = true, .look_again_at_ns = VB_NEVER_NS };

		if (entry) {
			vb_entry_await(entry, fds[i].fd);
			parts = vb_entry_parts(entry, fds[i].fd);
		}
		if (parts.kernel)
			round_add(round, i, &fds[i], NULL);
		if (parts.rs)
			round_add(round, i, &fds[i], parts.rs);
		if (parts.look_again_at_ns < round->look_again_at_ns)
			round->look_again_at_ns = parts.look_again_at_ns;
		if (entry)
			vb_entry_put(entry);
	}
}

static void round_release(void *held)
{
	struct round *round = held;

	for (nfds_t i = 0; i < round->used; i++) {
		if (round->rsockets[i])
			vb_rs_put(round->rsockets[i]);
	}
}

/* The failure of a connect by RDMA is no result yet: TCP comes next. */
static bool is_undecided(const struct pollfd *fd)
{
	struct vb_entry *entry = vb_entry_get(fd->fd);
	struct vb_rs *rs;

	if (!entry)
		return true;
	rs = vb_entry_rsocket(entry, fd->fd);
	vb_entry_put(entry);
	if (!rs)
		return true;
	vb_rs_put(rs);
	return false;
}

static int round_results(const struct round *round, struct pollfd *fds, nfds_t count)
{
	int ready = 0;

	for (nfds_t i = 0; i < count; i++)
		fds[i].revents = 0;
	for (nfds_t i = 0; i < round->used; i++) {
		const struct pollfd *from = &round->fds[i];

		if ((from->revents & POLLERR) && round->rsockets[i] && is_undecided(from))
			continue;
		fds[round->origin[i]].revents |= from->revents;
	}
	for (nfds_t i = 0; i < count; i++)
		ready += fds[i].revents != 0;
	return ready;
}

static int round_wait(struct round *round, struct pollfd *fds, nfds_t count, uint64_t deadline_ns,
		      const sigset_t *mask)
{
	struct vb_undo undo;
	int ready;

	do {
		uint64_t until_ns;

		round_fill(round, fds, count);
		until_ns = round->look_again_at_ns < deadline_ns ? round->look_again_at_ns
								 : deadline_ns;
		vb_undo_push(&undo, round_release, round);
		ready = vb_rs_poll(round->fds, round->rsockets, round->used, until_ns, mask);
		vb_undo_pop(&undo);
		if (ready >= 0)
			ready = round_results(round, fds, count);
		round_release(round);
	} while (!ready && deadline_ns &&
		 (deadline_ns == VB_NEVER_NS || vb_now_ns() < deadline_ns));
	return ready;
}

enum { FEW = 64 };

static void round_free(void *held)
{
	struct round *round = held;

	free(round->fds);
	free(round->rsockets);
	free(round->origin);
}

static int poll_many_entries(struct pollfd *fds, nfds_t count, uint64_t deadline_ns,
			     const sigset_t *mask)
{
	struct round round = { .fds = calloc(2 * count, sizeof(*round.fds)),
			       .rsockets = calloc(2 * count, sizeof(struct vb_rs *)),
			       .origin = calloc(2 * count, sizeof(*round.origin)) };
	struct vb_undo undo;
	int result = -ENOMEM;

	vb_undo_push(&undo, round_free, &round);
	if (round.fds && round.rsockets && round.origin)
		result = round_wait(&round, fds, count, deadline_ns, mask);
	vb_undo_pop(&undo);
	round_free(&round);
	return result;
}

static int poll_entries(struct pollfd *fds, nfds_t count, uint64_t deadline_ns,
			const sigset_t *mask)
{
	struct pollfd few_fds[FEW];
	struct vb_rs *few_rsockets[FEW];
	nfds_t few_origin[FEW];
	struct round round = { .fds = few_fds, .rsockets = few_rsockets, .origin = few_origin };

	return 2 * count > FEW ? poll_many_entries(fds, count, deadline_ns, mask)
			       : round_wait(&round, fds, count, deadline_ns, mask);
}

static bool has_entry(const struct pollfd *fds, nfds_t count)
{
	for (nfds_t i = 0; i < count; i++) {
		if (vb_entry_exists(fds[i].fd))
			return true;
	}
	return false;
}

static uint64_t deadline_of(const struct timespec *timeout)
{
	uint64_t wait_ns;

	if (!timeout)
		return VB_NEVER_NS;
	wait_ns = (uint64_t)timeout->tv_sec * 1000000000u + (uint64_t)timeout->tv_nsec;
	return wait_ns ? vb_now_ns() + wait_ns : 0;
}

static uint64_t deadline_of_ms(int timeout)
{
	if (timeout < 0)
		return VB_NEVER_NS;
	return timeout ? vb_now_ns() + (uint64_t)timeout * 1000000u : 0;
}

VB_PUBLIC int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	VB_CANCEL_POINT;

	if (!has_entry(fds, count)) {
		VB_CANCEL_END();
		return vb_real()->poll(fds, count, timeout);
	}
	return vb_rs_return_count(poll_entries(fds, count, deadline_of_ms(timeout), NULL));
}

VB_PUBLIC int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		    const sigset_t *mask)
{
	VB_CANCEL_POINT;

	if (!has_entry(fds, count)) {
		VB_CANCEL_END();
		return vb_real()->ppoll(fds, count, timeout, mask);
	}
	return vb_rs_return_count(poll_entries(fds, count, deadline_of(timeout), mask));
}

VB_PUBLIC int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	if (room / sizeof(*fds) < count)
		abort();
	return poll(fds, count, timeout);
}

VB_PUBLIC int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
			  const sigset_t *mask, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t room)
{
	if (room / sizeof(*fds) < count)
		abort();
	return ppoll(fds, count, timeout, mask);
}

/* --- select --- */

static bool sets_have_entry(int count, const fd_set *read, const fd_set *write)
{
	count = vb_rs_select_limit(count);
	for (int fd = 0; fd < count; fd++) {
		if ((vb_rs_set_has(fd, read) || vb_rs_set_has(fd, write)) && vb_entry_exists(fd))
			return true;
	}
	return false;
}

VB_PUBLIC int pselect(int count, fd_set *read, fd_set *write, fd_set *except,
		      const struct timespec *timeout, const sigset_t *mask)
{
	VB_CANCEL_POINT;

	if (!sets_have_entry(count, read, write)) {
		VB_CANCEL_END();
		return vb_real()->pselect(count, read, write, except, timeout, mask);
	}
	return vb_rs_return_count(
		vb_rs_select(count, read, write, except, deadline_of(timeout), mask, poll_entries));
}

VB_PUBLIC int select(int count, fd_set *read, fd_set *write, fd_set *except,
		     struct timeval *timeout)
{
	VB_CANCEL_POINT;
	struct timespec wait;
	uint64_t deadline_ns, now_ns;
	int result;

	if (!sets_have_entry(count, read, write)) {
		VB_CANCEL_END();
		return vb_real()->select(count, read, write, except, timeout);
	}
	if (!timeout)
		return vb_rs_return_count(
			vb_rs_select(count, read, write, except, VB_NEVER_NS, NULL, poll_entries));
	wait = (struct timespec){ timeout->tv_sec, timeout->tv_usec * 1000 };
	deadline_ns = deadline_of(&wait);
	result = vb_rs_select(count, read, write, except, deadline_ns, NULL, poll_entries);
	/* Linux returns the time that was left. */
	now_ns = vb_now_ns();
	now_ns = now_ns < deadline_ns ? deadline_ns - now_ns : 0;
	*timeout = (struct timeval){ (time_t)(now_ns / 1000000000u),
				     (suseconds_t)(now_ns % 1000000000u / 1000) };
	return vb_rs_return_count(result);
}

/* --- epoll --- */

VB_PUBLIC int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	VB_NO_CANCEL;
	struct vb_entry *entry = vb_entry_get(fd);
	int result = -ENOENT;
	bool plain = true;

	if (entry) {
		pthread_mutex_lock(&entry->lock);
		plain = entry->kind == VB_KIND_PLAIN;
		pthread_mutex_unlock(&entry->lock);
		if (!plain || op != EPOLL_CTL_ADD)
			result = vb_epoll_control(epfd, op, fd, entry, event);
		vb_entry_put(entry);
	}
	if (plain && result == -ENOENT)
		return vb_real()->epoll_ctl(epfd, op, fd, event);
	return vb_rs_return_count(result);
}

VB_PUBLIC int epoll_pwait(int epfd, struct epoll_event *events, int count, int timeout,
			  const sigset_t *mask)
{
	VB_CANCEL_POINT;

	if (!vb_epoll_has(epfd) || count <= 0) {
		VB_CANCEL_END();
		return vb_real()->epoll_pwait(epfd, events, count, timeout, mask);
	}
	return vb_rs_return_count(
		vb_epoll_wait(epfd, events, count, deadline_of_ms(timeout), mask));
}

VB_PUBLIC int epoll_wait(int epfd, struct epoll_event *events, int count, int timeout)
{
	return epoll_pwait(epfd, events, count, timeout, NULL);
}

VB_PUBLIC int epoll_pwait2(int epfd, struct epoll_event *events, int count,
			   const struct timespec *timeout, const sigset_t *mask);
int epoll_pwait2(int epfd, struct epoll_event *events, int count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	VB_CANCEL_POINT;

	if (vb_epoll_has(epfd) && count > 0)
		return vb_rs_return_count(
			vb_epoll_wait(epfd, events, count, deadline_of(timeout), mask));
	VB_CANCEL_END();
	if (!vb_real()->epoll_pwait2) {
		errno = ENOSYS;
		return -1;
	}
	return vb_real()->epoll_pwait2(epfd, events, count, timeout, mask);
}

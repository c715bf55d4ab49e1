/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/poll.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "rsocket/sys.h"

enum { FEW = 16 };

/* One of the descriptors. */
struct member {
	struct vb_rs *rs; /* NULL: an ordinary descriptor */
	struct vb_rs_watch watch;
};

struct set {
	struct pollfd *fds; /* the caller's */
	nfds_t count;
	struct member *members;
	struct pollfd *sleep_fds; /* for the kernel: count, and the eventfd of the thread */
	int event_fd;
	unsigned rsockets;
	bool watching;
	struct member few_members[FEW];
	struct pollfd few_fds[FEW + 1];
};

static int set_init(struct set *set, struct pollfd *fds, struct vb_rs *const *rsockets,
		    nfds_t count)
{
	set->fds = fds;
	set->count = count;
	set->rsockets = 0;
	set->watching = false;
	set->event_fd = -1;
	set->members = count <= FEW ? set->few_members : calloc(count, sizeof(*set->members));
	set->sleep_fds = count <= FEW ? set->few_fds : calloc(count + 1, sizeof(*set->sleep_fds));
	if (!set->members || !set->sleep_fds) {
		if (count > FEW) {
			free(set->members);
			free(set->sleep_fds);
		}
		return -ENOMEM;
	}
	for (nfds_t i = 0; i < count; i++) {
		set->members[i].rs = rsockets[i];
		set->rsockets += !!set->members[i].rs;
	}
	return 0;
}

static void set_destroy(void *held)
{
	struct set *set = held;

	for (nfds_t i = 0; i < set->count; i++) {
		struct member *member = &set->members[i];

		if (!member->rs || !set->watching)
			continue;
		pthread_mutex_lock(&member->rs->lock);
		vb_list_remove(&member->watch.node);
		pthread_mutex_unlock(&member->rs->lock);
	}
	if (set->count > FEW) {
		free(set->members);
		free(set->sleep_fds);
	}
}

static int watch_all(struct set *set)
{
	set->event_fd = vb_rs_thread_event();
	if (set->event_fd < 0)
		return set->event_fd;
	for (nfds_t i = 0; i < set->count; i++) {
		struct member *member = &set->members[i];

		if (!member->rs)
			continue;
		member->watch.notify = vb_rs_event_write;
		member->watch.event_fd = set->event_fd;
		pthread_mutex_lock(&member->rs->lock);
		vb_list_append(&member->rs->watches, &member->watch.node);
		pthread_mutex_unlock(&member->rs->lock);
	}
	set->watching = true;
	return 0;
}

/* Looks at the rsockets. arm: those that are not ready are armed, and wake the thread. */
static int check_rsockets(struct set *set, bool arm)
{
	int ready = 0;

	for (nfds_t i = 0; i < set->count; i++) {
		struct member *member = &set->members[i];
		struct pollfd *fd = &set->fds[i];

		if (!member->rs)
			continue;
		vb_rs_lock(member->rs);
		do {
			fd->revents = vb_rs_ready(member->rs, fd->events);
		} while (!fd->revents && arm && vb_rs_arm(member->rs, &member->watch));
		set->sleep_fds[i] = (struct pollfd){
			.fd = vb_rs_completion_fd(member->rs),
			.events = POLLIN,
		};
		pthread_mutex_unlock(&member->rs->lock);
		ready += fd->revents != 0;
	}
	return ready;
}

/* Sleeps; with deadline 0 only looks at the ordinary descriptors. */
static int set_sleep(struct set *set, uint64_t deadline_ns, const sigset_t *mask)
{
	const uint64_t now_ns = deadline_ns ? vb_now_ns() : 0;
	const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
	struct timespec timeout = { (time_t)(left_ns / 1000000000u),
				    (long)(left_ns % 1000000000u) };
	const bool forever = deadline_ns == VB_NEVER_NS;

	for (nfds_t i = 0; i < set->count; i++) {
		if (!set->members[i].rs)
			set->sleep_fds[i] = set->fds[i];
	}
	set->sleep_fds[set->count] = (struct pollfd){ .fd = set->event_fd, .events = POLLIN };
	if (vb_sys_sleep(set->sleep_fds, set->count + 1, forever ? NULL : &timeout, mask) < 0)
		return -errno;
	if (set->sleep_fds[set->count].revents)
		vb_rs_event_drain(set->event_fd);
	return 0;
}

static int collect_ordinary(struct set *set)
{
	int ready = 0;

	for (nfds_t i = 0; i < set->count; i++) {
		if (set->members[i].rs)
			continue;
		set->fds[i].revents = set->sleep_fds[i].revents;
		ready += set->fds[i].revents != 0;
	}
	return ready;
}

/* Looks once without sleeping. */
static int check_all(struct set *set, bool arm)
{
	int ready = check_rsockets(set, arm);
	int err;

	if (set->rsockets == set->count)
		return ready;
	err = set_sleep(set, 0, NULL);
	return err ? err : ready + collect_ordinary(set);
}

static int poll_for_a_while(struct set *set, uint64_t deadline_ns)
{
	const uint64_t until_ns = vb_now_ns() + vb_rs_settings()->polling_time_us * 1000u;
	int ready;

	do {
		ready = check_all(set, false);
	} while (!ready && deadline_ns && vb_now_ns() < until_ns);
	return ready;
}

static int wait_for_some(struct set *set, uint64_t deadline_ns, const sigset_t *mask)
{
	int ready = watch_all(set);

	while (!ready) {
		if (check_rsockets(set, true)) {
			/* Counts ordinary ones, too. 0: another thread has read meanwhile. */
			ready = check_all(set, false);
			continue;
		}
		ready = set_sleep(set, deadline_ns, mask);
		if (ready)
			break;
		ready = check_rsockets(set, false);
		ready += collect_ordinary(set);
		if (!ready && deadline_ns != VB_NEVER_NS && vb_now_ns() >= deadline_ns)
			break;
	}
	return ready;
}

int vb_rs_poll(struct pollfd *fds, struct vb_rs *const *rsockets, nfds_t count,
	       uint64_t deadline_ns, const sigset_t *mask)
{
	struct set set;
	struct vb_undo undo;
	int ready = set_init(&set, fds, rsockets, count);

	if (ready)
		return ready;
	vb_undo_push(&undo, set_destroy, &set);
	/* With a mask there is no busy polling: its signals must arrive in the sleep. */
	ready = mask ? check_all(&set, false) : poll_for_a_while(&set, deadline_ns);
	if (!ready && deadline_ns)
		ready = wait_for_some(&set, deadline_ns, mask);
	vb_undo_pop(&undo);
	set_destroy(&set);
	return ready;
}

/* --- select --- */

static void clear_fd_set(fd_set *set, int count)
{
	if (set)
		memset(set, 0, (size_t)(count + NFDBITS - 1) / NFDBITS * sizeof(fd_mask));
}

int vb_rs_select_limit(int count)
{
	FILE *file = count > FD_SETSIZE ? fopen("/proc/self/status", "re") : NULL;
	char line[128];
	int size = FD_SETSIZE;

	if (count <= FD_SETSIZE)
		return count;
	while (file && fgets(line, sizeof(line), file) && sscanf(line, "FDSize: %d", &size) != 1)
		;
	if (file)
		fclose(file);
	return count < size ? count : size;
}

static nfds_t to_poll(int count, const fd_set *read, const fd_set *write, const fd_set *except,
		      struct pollfd *fds)
{
	nfds_t used = 0;

	for (int fd = 0; fd < count; fd++) {
		short events = 0;

		if (vb_rs_set_has(fd, read))
			events |= POLLIN;
		if (vb_rs_set_has(fd, write))
			events |= POLLOUT;
		if (vb_rs_set_has(fd, except))
			events |= POLLPRI;
		if (events)
			fds[used++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return used;
}

static int mark_fd(const struct pollfd *fd, fd_set *set, short events)
{
	if (!set || !(fd->revents & events))
		return 0;
	((fd_mask *)set)[fd->fd / NFDBITS] |= (fd_mask)(1ul << fd->fd % NFDBITS);
	return 1;
}

/* The same poll events count as readable, writable and exceptional as in the kernel. */
static int from_poll(const struct pollfd *fds, nfds_t count, fd_set *read, fd_set *write,
		     fd_set *except)
{
	int ready = 0;

	for (nfds_t i = 0; i < count; i++) {
		ready += mark_fd(&fds[i], fds[i].events & POLLIN ? read : NULL,
				 POLLIN | POLLHUP | POLLERR);
		ready +=
			mark_fd(&fds[i], fds[i].events & POLLOUT ? write : NULL, POLLOUT | POLLERR);
		ready += mark_fd(&fds[i], fds[i].events & POLLPRI ? except : NULL, POLLPRI);
	}
	return ready;
}

static bool has_bad(const struct pollfd *fds, nfds_t count)
{
	for (nfds_t i = 0; i < count; i++) {
		if (fds[i].revents & POLLNVAL)
			return true;
	}
	return false;
}

int vb_rs_select(int count, fd_set *read, fd_set *write, fd_set *except, uint64_t deadline_ns,
		 const sigset_t *mask, vb_rs_poll_function *poll_fds)
{
	struct pollfd *fds;
	struct vb_undo undo;
	nfds_t used;
	int ready;

	if (count < 0)
		return -EINVAL;
	count = vb_rs_select_limit(count);
	fds = calloc((size_t)count + 1, sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	vb_undo_push(&undo, free, fds);
	used = to_poll(count, read, write, except, fds);
	do {
		ready = poll_fds(fds, used, deadline_ns, mask);
		if (ready > 0 && has_bad(fds, used))
			ready = -EBADF;
		if (ready < 0)
			break;
		clear_fd_set(read, count);
		clear_fd_set(write, count);
		clear_fd_set(except, count);
		/* 0: the event, a hang-up for instance, counts for no set. The wait goes on. */
		ready = from_poll(fds, used, read, write, except);
	} while (!ready && deadline_ns &&
		 (deadline_ns == VB_NEVER_NS || vb_now_ns() < deadline_ns));
	vb_undo_pop(&undo);
	free(fds);
	return ready;
}

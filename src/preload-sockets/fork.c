/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fork does to sockets. Connections are shared (share.h). A listener that nobody has waited
 * for belongs to a program that leaves it to its children, who have it by TCP only: nobody would
 * take the connections that come by RDMA, so there are none until the parent waits itself.
 * Who is sent a descriptor (SCM_RIGHTS) has the connection as a child has it.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>

#include "base/fork.h"
#include "preload-sockets/entry.h"
#include "preload-sockets/epoll_set.h"
#include "preload-sockets/share.h"

static struct vb_entry *entry_of(struct vb_fd_object *object)
{
	return vb_container(object, struct vb_entry, object);
}

/* A thread that waits for a connect by TCP may have it for long; then there is nothing to share. */
static bool lock_soon(struct vb_entry *entry)
{
	enum { TRIES = 1000 };

	for (int i = 0; i < TRIES; i++) {
		if (!pthread_mutex_trylock(&entry->lock))
			return true;
		sched_yield();
	}
	return false;
}

static void share(struct vb_entry *entry)
{
	if (!entry->share)
		entry->share = vb_share_create(entry->rs);
	if (entry->share)
		vb_share_set_nonblock(entry->share, entry->nonblock);
}

static void suspend(struct vb_entry *entry)
{
	struct vb_rs *rs = entry->rs;

	entry->rs = NULL;
	entry->suspended = true;
	vb_epoll_changed(entry);
	vb_rs_close(rs);
	vb_rs_put(rs);
}

static void before_one(int fd, struct vb_fd_object *object, void *unused)
{
	struct vb_entry *entry = entry_of(object);

	(void)fd;
	(void)unused;
	if (atomic_load(&entry->generation) != vb_rs_generation() || !lock_soon(entry))
		return;
	if (entry->kind == VB_KIND_STREAM)
		share(entry);
	else if (entry->kind == VB_KIND_LISTENER && entry->rs && !entry->awaited)
		suspend(entry);
	pthread_mutex_unlock(&entry->lock);
}

int vb_entry_for_others(int fd)
{
	struct vb_entry *entry = vb_entry_get(fd);
	int theirs = fd;

	if (!entry)
		return fd;
	pthread_mutex_lock(&entry->lock);
	if (entry->kind == VB_KIND_STREAM) {
		share(entry);
		if (entry->share)
			theirs = vb_share_theirs(entry->share);
	}
	pthread_mutex_unlock(&entry->lock);
	vb_entry_put(entry);
	return theirs;
}

static void before(void)
{
	vb_entry_each(before_one);
}

static void take_one(int fd, struct vb_fd_object *object, void *unused)
{
	struct vb_entry *entry = entry_of(object);

	(void)unused;
	entry->suspended = false; /* TCP only, for good */
	if (!entry->share || entry->lent)
		return;
	vb_share_take(entry->share, fd);
}

static void leave_one(int fd, struct vb_fd_object *object, void *unused)
{
	struct vb_entry *entry = entry_of(object);

	(void)fd;
	(void)unused;
	if (!entry->share || entry->lent)
		return;
	vb_share_leave(entry->share);
	entry->lent = true;
}

static void in_child(void)
{
	vb_entry_each(take_one);
	vb_entry_each(leave_one);
}

void vb_sockets_watch_fork(void)
{
	static const struct vb_fork_handlers at_fork = { .prepare = before, .child = in_child };

	vb_fork_register(VB_FORK_SHARES, &at_fork);
}

void vb_entry_await(struct vb_entry *entry, int fd)
{
	pthread_mutex_lock(&entry->lock);
	if (entry->kind == VB_KIND_LISTENER) {
		if (entry->suspended)
			vb_entry_listen_rdma(entry, fd); /* or go on with TCP */
		entry->awaited = true;
		entry->suspended = false;
	}
	pthread_mutex_unlock(&entry->lock);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets across fork. Connections are shared (share.h). A program that has not waited at a
 * listener before fork leaves the listener to its children, which can accept by TCP only. Then no
 * process would accept connections by RDMA, so RDMA is suspended until the parent itself waits. A
 * process that is sent a descriptor (SCM_RIGHTS) has the connection as a child has it.
 */
#include "base/fork.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>

#include "preload-sockets/entry.h"
#include "preload-sockets/epoll_set.h"
#include "preload-sockets/share.h"

static struct vb_entry *entry_of(struct vb_fd_object *object)
{
	return vb_container(object, struct vb_entry, object);
}

/* A thread in a long connect by TCP may hold the lock. Then there is no connection to share. */
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

static void share_connection(struct vb_entry *entry)
{
	if (!entry->share)
		entry->share = vb_share_create(entry->rs);
	if (entry->share)
		vb_share_set_nonblock(entry->share, entry->nonblock);
}

static void suspend_listener(struct vb_entry *entry)
{
	struct vb_rs *rs = entry->rs;

	entry->rs = NULL;
	entry->suspended = true;
	vb_epoll_changed(entry);
	vb_rs_close(rs);
	vb_rs_put(rs);
}

static void prepare_one(int fd, struct vb_fd_object *object, void *unused)
{
	struct vb_entry *entry = entry_of(object);

	(void)fd;
	(void)unused;
	if (atomic_load(&entry->generation) != vb_rs_generation() || !lock_soon(entry))
		return;
	if (entry->kind == VB_KIND_STREAM)
		share_connection(entry);
	else if (entry->kind == VB_KIND_LISTENER && entry->rs && !entry->awaited)
		suspend_listener(entry);
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
		share_connection(entry);
		if (entry->share)
			theirs = vb_share_theirs(entry->share);
	}
	pthread_mutex_unlock(&entry->lock);
	vb_entry_put(entry);
	return theirs;
}

static void before_fork(void)
{
	vb_entry_each(prepare_one);
}

static void take_one(int fd, struct vb_fd_object *object, void *unused)
{
	struct vb_entry *entry = entry_of(object);

	(void)unused;
	entry->suspended = false; /* a child never listens for RDMA at this socket */
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

static void sockets_in_child(void)
{
	vb_entry_each(take_one);
	vb_entry_each(leave_one);
}

void vb_sockets_watch_fork(void)
{
	static const struct vb_fork_handlers at_fork = { .prepare = before_fork,
							 .child = sockets_in_child };

	vb_fork_register(VB_FORK_SHARES, &at_fork);
}

void vb_entry_await(struct vb_entry *entry, int fd)
{
	pthread_mutex_lock(&entry->lock);
	if (entry->kind == VB_KIND_LISTENER) {
		if (entry->suspended)
			vb_entry_listen_rdma(entry, fd); /* on failure TCP alone goes on */
		entry->awaited = true;
		entry->suspended = false;
	}
	pthread_mutex_unlock(&entry->lock);
}

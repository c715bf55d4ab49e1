/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload-sockets/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "preload-sockets/epoll_set.h"
#include "preload-sockets/share.h"

static struct vb_fd_table table;
static pid_t owner; /* the process of the table */

static void release_entry(struct vb_fd_object *object)
{
	struct vb_entry *entry = vb_container(object, struct vb_entry, object);

	if (entry->rs)
		vb_rs_put(entry->rs);
	pthread_mutex_destroy(&entry->lock);
	free(entry);
}

/* --- children of fork --- */

static pthread_mutex_t adopt_lock = PTHREAD_MUTEX_INITIALIZER;

static void entries_in_child(void)
{
	owner = getpid();
	pthread_mutex_init(&adopt_lock, NULL);
	vb_fd_table_after_fork(&table);
	vb_epoll_after_fork();
	vb_share_after_fork();
}

static const struct vb_fork_handlers at_fork = { .child = entries_in_child };

static void register_entries_fork(void)
{
	owner = getpid();
	vb_fork_register(VB_FORK_ENTRIES, &at_fork);
}

/*
 * A child has the TCP sockets, but the rsockets stay with its parent. A listener goes on with TCP,
 * a connection through the parent (share.h). The locks are made anew, because threads of the parent
 * may have held them.
 */
static void adopt(struct vb_entry *entry)
{
	const unsigned generation = vb_rs_generation();

	if (atomic_load(&entry->generation) == generation)
		return;
	pthread_mutex_lock(&adopt_lock);
	if (atomic_load(&entry->generation) != generation) {
		pthread_mutex_init(&entry->lock, NULL);
		vb_list_init(&entry->members);
		entry->rs = NULL; /* never freed: its objects belong to the parent */
		if (entry->kind != VB_KIND_LISTENER && entry->kind != VB_KIND_FRESH)
			entry->kind = VB_KIND_PLAIN;
		atomic_store(&entry->generation, generation);
	}
	pthread_mutex_unlock(&adopt_lock);
}

struct vb_entry *vb_entry_get(int fd)
{
	struct vb_fd_object *object = vb_fd_table_get(&table, fd);
	struct vb_entry *entry;

	if (!object)
		return NULL;
	entry = vb_container(object, struct vb_entry, object);
	adopt(entry);
	return entry;
}

void vb_entry_put(struct vb_entry *entry)
{
	vb_fd_object_put(&entry->object);
}

void vb_entry_undo_get(void *entry)
{
	vb_entry_put(entry);
}

bool vb_entry_exists(int fd)
{
	return vb_fd_table_has(&table, fd);
}

/* The last number is closed, which ends the connection. */
static void entry_end(struct vb_entry *entry)
{
	struct vb_share *share;
	struct vb_rs *rs;

	vb_epoll_forget(entry);
	pthread_mutex_lock(&entry->lock);
	rs = entry->rs;
	share = entry->lent ? NULL : entry->share;
	entry->rs = NULL;
	entry->kind = VB_KIND_PLAIN;
	pthread_mutex_unlock(&entry->lock);
	if (share)
		vb_share_hand_over(share);
	else if (rs)
		vb_rs_close(rs);
	if (rs)
		vb_rs_put(rs);
}

static void lose_number(struct vb_fd_object *object)
{
	struct vb_entry *entry = vb_container(object, struct vb_entry, object);

	adopt(entry);
	if (atomic_fetch_sub(&entry->numbers, 1) == 1)
		entry_end(entry);
	vb_entry_put(entry);
}

static int set_number(int fd, struct vb_entry *entry)
{
	struct vb_fd_object *before;
	int err = vb_fd_table_set(&table, fd, &entry->object, &before);

	if (!err && before)
		lose_number(before); /* the program closed the number by a system call */
	return err;
}

int vb_entry_add(int fd, int domain, bool nonblock, struct vb_rs *rs)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct vb_entry *entry = calloc(1, sizeof(*entry));
	int err;

	pthread_once(&once, register_entries_fork);
	if (!entry) {
		if (rs)
			vb_rs_put(rs);
		return -ENOMEM;
	}
	vb_fd_object_init(&entry->object, release_entry);
	pthread_mutex_init(&entry->lock, NULL);
	vb_list_init(&entry->members);
	entry->domain = domain;
	entry->nonblock = nonblock;
	entry->rs = rs;
	entry->kind = rs ? VB_KIND_STREAM : VB_KIND_FRESH;
	atomic_init(&entry->numbers, 1);
	atomic_init(&entry->generation, vb_rs_generation());
	err = set_number(fd, entry);
	if (err)
		vb_entry_put(entry);
	return err;
}

int vb_entry_alias(struct vb_entry *entry, int newfd)
{
	int err;

	vb_fd_object_get(&entry->object);
	atomic_fetch_add(&entry->numbers, 1);
	err = set_number(newfd, entry);
	if (err) {
		atomic_fetch_sub(&entry->numbers, 1);
		vb_entry_put(entry);
	}
	return err;
}

bool vb_entry_is_guest(void)
{
	return getpid() != owner;
}

void vb_entry_drop(int fd)
{
	struct vb_fd_object *object;

	if (!vb_entry_exists(fd) || vb_entry_is_guest())
		return;
	object = vb_fd_table_remove(&table, fd);
	if (object)
		lose_number(object);
}

static void drop_one(int fd, struct vb_fd_object *object, void *range)
{
	(void)object;
	if (vb_fd_in_range(fd, range))
		vb_entry_drop(fd);
}

void vb_entry_drop_range(unsigned first, unsigned last)
{
	struct vb_fd_range range = { first, last };

	vb_fd_table_each(&table, drop_one, &range);
}

void vb_entry_each(void (*each)(int fd, struct vb_fd_object *object, void *arg))
{
	vb_fd_table_each(&table, each, NULL);
}

/* --- RDMA or TCP --- */

/*
 * Begins to connect the TCP socket. The thread holds the lock of the entry and so must not wait; a
 * thread whose connect blocks waits without the lock (connect.c).
 */
static int begin_tcp(struct vb_entry *entry, int fd)
{
	const socklen_t size =
		entry->domain == AF_INET ? sizeof(entry->target.in) : sizeof(entry->target.in6);
	const int flags = vb_real()->fcntl(fd, F_GETFL);
	int error = 0;

	vb_real()->fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	if (vb_real()->connect(fd, &entry->target.sa, size))
		error = errno;
	vb_real()->fcntl(fd, F_SETFL, flags);
	return error == EINPROGRESS ? 0 : error;
}

/* RDMA has failed: the TCP socket connects now. */
static void fall_back(struct vb_entry *entry, int fd)
{
	struct vb_rs *rs = entry->rs;

	entry->rs = NULL;
	entry->kind = VB_KIND_PLAIN;
	entry->error = begin_tcp(entry, fd);
	vb_epoll_became_plain(entry);
	vb_rs_close(rs);
	vb_rs_put(rs);
}

static enum vb_rs_state state_of(struct vb_rs *rs)
{
	enum vb_rs_state state;

	pthread_mutex_lock(&rs->lock);
	state = rs->state;
	pthread_mutex_unlock(&rs->lock);
	return state;
}

/* Under the entry's lock. */
static void connect_progress(struct vb_entry *entry, int fd)
{
	enum vb_rs_state state;

	if (entry->kind != VB_KIND_CONNECTING)
		return;
	state = state_of(entry->rs);
	if (state == VB_RS_CONNECTED || state == VB_RS_DISCONNECTED || state == VB_RS_BROKEN)
		entry->kind = VB_KIND_STREAM;
	else if (state == VB_RS_FAILED || vb_now_ns() >= entry->give_up_at_ns)
		fall_back(entry, fd);
}

struct vb_entry_parts vb_entry_parts(struct vb_entry *entry, int fd)
{
	struct vb_entry_parts parts = { .look_again_at_ns = VB_NEVER_NS };

	pthread_mutex_lock(&entry->lock);
	connect_progress(entry, fd);
	parts.rs = entry->rs;
	if (parts.rs)
		vb_rs_get(parts.rs);
	parts.kernel = !parts.rs || entry->kind == VB_KIND_LISTENER;
	if (entry->kind == VB_KIND_CONNECTING)
		parts.look_again_at_ns = entry->give_up_at_ns;
	pthread_mutex_unlock(&entry->lock);
	return parts;
}

struct vb_rs *vb_entry_rsocket(struct vb_entry *entry, int fd)
{
	struct vb_entry_parts parts = vb_entry_parts(entry, fd);

	if (parts.rs && parts.kernel) {
		vb_rs_put(parts.rs);
		return NULL;
	}
	return parts.rs;
}

struct vb_rs *vb_entry_rsocket_of(int fd)
{
	struct vb_entry *entry = vb_entry_get(fd);
	struct vb_rs *rs;

	if (!entry)
		return NULL;
	rs = vb_entry_rsocket(entry, fd);
	vb_entry_put(entry);
	return rs;
}

void vb_entry_set_nonblock(struct vb_entry *entry, bool nonblock)
{
	pthread_mutex_lock(&entry->lock);
	entry->nonblock = nonblock;
	if (entry->rs && entry->kind != VB_KIND_LISTENER)
		vb_rs_set_nonblock(entry->rs, nonblock);
	pthread_mutex_unlock(&entry->lock);
}

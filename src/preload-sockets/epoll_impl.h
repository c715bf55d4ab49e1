/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets and members, shared by epoll_set.c (membership) and epoll_wait.c (readiness).
 *
 * Lock order: a set's check_lock, then an entry's lock, then an rsocket's, then vb_epoll_lock,
 * which guards all lists and flags here.
 */
#ifndef VB_SOCKETS_EPOLL_IMPL_H
#define VB_SOCKETS_EPOLL_IMPL_H

#include "preload-sockets/entry.h"
#include "preload-sockets/epoll_set.h"

struct vb_epoll_set {
	struct vb_fd_object object;
	int epfd;
	int inner_fd;               /* epoll with kick_fd and the channels of members; owned */
	int kick_fd;                /* eventfd: a member became hot; owned */
	pthread_mutex_t check_lock; /* one thread at a time looks at members */
	struct vb_list members, hot;
};

struct vb_epoll_member {
	struct vb_list set_node, entry_node;
	struct vb_list hot_node; /* empty: the member is cold */
	struct vb_epoll_set *set;
	struct vb_entry *entry; /* a reference */
	int fd;
	struct epoll_event event;
	bool disabled; /* EPOLLONESHOT has fired */

	/* Under check_lock. */
	struct vb_rs *rs; /* has the watch in its list; a reference */
	struct vb_rs_watch watch;
	int channel_fd;      /* in inner_fd; -1: none */
	bool listens;        /* fd is in inner_fd, too */
	bool in_kernel;      /* fd is in the kernel's set, and the library leaves it alone */
	uint64_t look_at_ns; /* the member needs a look at this time, even without an event */
};

extern pthread_mutex_t vb_epoll_lock;

struct vb_epoll_set *vb_epoll_set_get(int epfd);
void vb_epoll_heat(struct vb_epoll_member *member); /* under vb_epoll_lock */
/* Updates the member to the present kind of its entry; member->rs is the rsocket to look at. */
void vb_epoll_member_fit(struct vb_epoll_member *member, const struct vb_entry_parts *parts);
void vb_epoll_member_channel(struct vb_epoll_member *member, int channel_fd);

#endif

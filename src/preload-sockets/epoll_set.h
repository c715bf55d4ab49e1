/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Epoll sets that have rsockets in them.
 *
 * The kernel's set keeps the ordinary descriptors. Each rsocket is a member of ours: its
 * completion channel is in an inner epoll descriptor, which is in the kernel's set, and a watch
 * tells about everything else. A member is either hot (something may have happened, or it was
 * ready when last looked at) or armed. Waiting looks at the hot ones and then sleeps in the
 * kernel: who is armed wakes it. So nothing is polled in vain, and nothing is missed, because a
 * member becomes cold only after it was armed and looked at again.
 */
#ifndef VB_SOCKETS_EPOLL_SET_H
#define VB_SOCKETS_EPOLL_SET_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct vb_entry;

/* The kernel's answer for descriptors without an entry: -EINVAL means "not ours". */
int vb_epoll_control(int epfd, int op, int fd, struct vb_entry *entry, struct epoll_event *event);
/* Whether the set has members. */
bool vb_epoll_has(int epfd);
int vb_epoll_wait(int epfd, struct epoll_event *events, int count, uint64_t deadline_ns,
		  const sigset_t *mask);
/* The number is about to be closed. */
void vb_epoll_drop(int epfd);
void vb_epoll_drop_range(unsigned first, unsigned last);

void vb_epoll_after_fork(void);

/* What the entries tell; the first two under the entry's lock. */
void vb_epoll_changed(struct vb_entry *entry);      /* it has an rsocket now */
void vb_epoll_became_plain(struct vb_entry *entry); /* TCP is in charge: back to the kernel */
void vb_epoll_forget(struct vb_entry *entry);       /* its last number is gone */

#endif

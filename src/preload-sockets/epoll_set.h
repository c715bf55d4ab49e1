/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Epoll sets that have rsockets in them.
 *
 * The kernel's set keeps the ordinary descriptors. Each rsocket is a member of a set of the
 * library. Its completion channel is in an inner epoll descriptor, which is in the kernel's set,
 * and a watch reports all other changes. A member is either hot (it may have changed, or was ready
 * at the last look) or armed. A wait looks at the hot members and then sleeps in the kernel, until
 * an armed member wakes it. So no member is polled in vain. No event is missed either, because a
 * member becomes cold only after it was armed and looked at again.
 */
#ifndef VB_SOCKETS_EPOLL_SET_H
#define VB_SOCKETS_EPOLL_SET_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct vb_entry;

/* epoll_ctl for a descriptor with an entry; -ENOENT: fd is no member. */
int vb_epoll_control(int epfd, int op, int fd, struct vb_entry *entry, struct epoll_event *event);
/* Has the set ever had members? */
bool vb_epoll_has(int epfd);
int vb_epoll_wait(int epfd, struct epoll_event *events, int count, uint64_t deadline_ns,
		  const sigset_t *mask);
/* The caller is about to close the number. */
void vb_epoll_drop(int epfd);
void vb_epoll_drop_range(unsigned first, unsigned last);

void vb_epoll_after_fork(void);

/* Changes of entries; the first two under the entry's lock. */
void vb_epoll_changed(struct vb_entry *entry);      /* the rsocket came or went */
void vb_epoll_became_plain(struct vb_entry *entry); /* TCP has the connection */
void vb_epoll_forget(struct vb_entry *entry);       /* the last number is gone */

#endif

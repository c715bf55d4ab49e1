/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets of rsockets and ordinary descriptors, in the manner of epoll(7).
 *
 * The number of a set is an epoll descriptor of the kernel, which has the ordinary descriptors. The
 * rsockets are members here. A wait looks at a list of the members and at the epoll descriptor
 * together, as rpoll does. A change of the members ends the sleep, and the wait makes a new list.
 */
#ifndef VB_RSOCKET_REPOLL_H
#define VB_RSOCKET_REPOLL_H

#include <stdint.h>
#include <sys/epoll.h>

/* The number of a new set, or -errno. */
int vb_repoll_create(int flags);
int vb_repoll_control(int epfd, int op, int fd, struct epoll_event *event);
/* The count of events, 0 after deadline_ns, or -errno. */
int vb_repoll_wait(int epfd, struct epoll_event *events, int count, uint64_t deadline_ns);
/* -EBADF: fd is not the number of a set. Threads that wait return -EBADF. */
int vb_repoll_close(int epfd);

void vb_repoll_after_fork(void);

#endif

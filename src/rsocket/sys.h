/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ppoll(2) without the C library. The preload library replaces the name ppoll, but descriptors here
 * are always those of the kernel.
 */
#ifndef VB_RSOCKET_SYS_H
#define VB_RSOCKET_SYS_H

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The kernel overwrites timeout. Returns -1 and sets errno. */
static inline int vb_sys_ppoll(struct pollfd *fds, nfds_t count, struct timespec *timeout,
			       const sigset_t *mask)
{
	return (int)syscall(SYS_ppoll, fds, count, timeout, mask, (size_t)(_NSIG / 8));
}

#endif

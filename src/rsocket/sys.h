/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls without the C library. The preload library replaces the names of its functions, but
 * descriptors here are always those of the kernel. Nor are they cancellation points.
 */
#ifndef VB_RSOCKET_SYS_H
#define VB_RSOCKET_SYS_H

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"

/* The kernel overwrites timeout. Returns -1 and sets errno. */
static inline int vb_sys_ppoll(struct pollfd *fds, nfds_t count, struct timespec *timeout,
			       const sigset_t *mask)
{
	return (int)syscall(SYS_ppoll, fds, count, timeout, mask, (size_t)(_NSIG / 8));
}

/* The same, as a cancellation point. It takes nothing, so it may be left at any instruction. */
static inline int vb_sys_sleep(struct pollfd *fds, nfds_t count, struct timespec *timeout,
			       const sigset_t *mask)
{
	int result, type;

	VB_SLEEP_BEGIN;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	result = vb_sys_ppoll(fds, count, timeout, mask);
	pthread_setcanceltype(type, NULL);
	vb_cancel_settle();
	VB_SLEEP_END;
	return result;
}

#endif

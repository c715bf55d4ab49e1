/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages in and out under a lock. libc's calls are cancellation points, which this code is not:
 * a thread that is cancelled in them would keep the lock.
 */
#ifndef VB_BASE_MESSAGE_H
#define VB_BASE_MESSAGE_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline ssize_t vb_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

static inline ssize_t vb_recvmsg(int fd, struct msghdr *message, int flags)
{
	return syscall(SYS_recvmsg, fd, message, flags);
}

static inline int vb_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static inline int vb_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	return (int)syscall(SYS_recvmmsg, fd, messages, count, flags, NULL);
}

#endif

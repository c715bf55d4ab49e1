/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls for threads that hold a lock. The functions of libc are cancellation points, these
 * are not: a thread that is cancelled under a lock would keep the lock. Tools do not know them, and
 * are told which bytes came.
 */
#ifndef VB_BASE_MESSAGE_H
#define VB_BASE_MESSAGE_H

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/annotate.h"

static inline void vb_message_came(const struct msghdr *message)
{
	for (size_t i = 0; i < message->msg_iovlen; i++)
		vb_tool_filled(message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
	if (message->msg_control)
		vb_tool_filled(message->msg_control, message->msg_controllen);
	if (message->msg_name)
		vb_tool_filled(message->msg_name, message->msg_namelen);
}

static inline ssize_t vb_sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t sent;

	vb_tell_sending(true);
	sent = syscall(SYS_sendmsg, fd, message, flags);
	vb_tell_sending(false);
	return sent;
}

static inline ssize_t vb_recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t got = syscall(SYS_recvmsg, fd, message, flags);

	if (vb_is_watched() && got >= 0)
		vb_message_came(message);
	return got;
}

static inline int vb_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	int sent;

	vb_tell_sending(true);
	sent = (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
	vb_tell_sending(false);
	return sent;
}

static inline int vb_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	int got = (int)syscall(SYS_recvmmsg, fd, messages, count, flags, NULL);

	if (vb_is_watched())
		for (int i = 0; i < got; i++)
			vb_message_came(&messages[i].msg_hdr);
	return got;
}

static inline ssize_t vb_sendto(int fd, const void *bytes, size_t size, int flags,
				const struct sockaddr *to, socklen_t length)
{
	ssize_t sent;

	vb_tell_sending(true);
	sent = syscall(SYS_sendto, fd, bytes, size, flags, to, length);
	vb_tell_sending(false);
	return sent;
}

static inline ssize_t vb_recv(int fd, void *bytes, size_t size, int flags)
{
	ssize_t got = syscall(SYS_recvfrom, fd, bytes, size, flags, NULL, NULL);

	if (got > 0)
		vb_tell_filled(bytes, (size_t)got);
	return got;
}

/* The descriptors that are ready now; never waits. */
static inline int vb_epoll_look(int epoll, struct epoll_event *events, int count)
{
	return (int)syscall(SYS_epoll_pwait, epoll, events, count, 0, NULL, _NSIG / 8);
}

static inline void vb_close(int fd)
{
	syscall(SYS_close, fd);
}

static inline ssize_t vb_write(int fd, const void *bytes, size_t size)
{
	return syscall(SYS_write, fd, bytes, size);
}

static inline ssize_t vb_read(int fd, void *bytes, size_t size)
{
	ssize_t got = syscall(SYS_read, fd, bytes, size);

	if (got > 0)
		vb_tell_filled(bytes, (size_t)got);
	return got;
}

static inline int vb_ppoll(struct pollfd *fds, unsigned count, struct timespec timeout)
{
	return (int)syscall(SYS_ppoll, fds, count, &timeout, NULL, _NSIG / 8);
}

/* A signal cuts the sleep short. */
static inline void vb_sleep_ns(long ns)
{
	const struct timespec wait = { 0, ns };

	syscall(SYS_nanosleep, &wait, NULL);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "base/message.h"

enum { HIGH_MAX = 4096 }; /* the kernel's table grows with the largest number */
/* The limit was above twice HIGH_MAX: it is not asked for again. */
static atomic_bool many;

/* The upper half of the numbers begins here. */
static int lowest_high(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	atomic_store_explicit(&many, limit.rlim_cur > 2 * HIGH_MAX, memory_order_relaxed);
	return limit.rlim_cur > 2 * HIGH_MAX ? HIGH_MAX : (int)limit.rlim_cur / 2;
}

int vb_fd_high(int fd)
{
	int high;

	if (fd < 0)
		return fd;
	high = atomic_load_explicit(&many, memory_order_relaxed)
		       ? fcntl(fd, F_DUPFD_CLOEXEC, HIGH_MAX)
		       : -1;
	if (high < 0)
		high = fcntl(fd, F_DUPFD_CLOEXEC, lowest_high());
	if (high < 0)
		return fd;
	vb_close(fd);
	return high;
}

void vb_fd_close(int *fd)
{
	if (*fd >= 0)
		vb_close(*fd);
	*fd = -1;
}

/* No system call tells the kind of a descriptor, only /proc does. */
bool vb_fd_is_eventfd(int fd)
{
	static const char name[] = "anon_inode:[eventfd]";
	char path[40], to[sizeof(name)];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, to, sizeof(to)) == (ssize_t)sizeof(name) - 1 &&
	       !memcmp(to, name, sizeof(name) - 1);
}

bool vb_fd_send_room_is_used(int fd)
{
	int room, used;
	socklen_t size = sizeof(room);

	return !getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &size) &&
	       !ioctl(fd, SIOCOUTQ, &used) && used > room / 2;
}

bool vb_fd_send(int socket, const void *bytes, size_t size, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)bytes, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	return vb_sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

/* Behind the room for one descriptor, CMSG_SPACE would have room for a second one. */
ssize_t vb_fd_receive(int socket, void *bytes, size_t size, int flags, int *fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { bytes, size };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = CMSG_LEN(sizeof(int)) };
	ssize_t got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | flags);
	struct cmsghdr *head = got >= 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	*fd = -1;
	if (got < 0)
		return -errno;
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(head), sizeof(*fd));
	return got;
}

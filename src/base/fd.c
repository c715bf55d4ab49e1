/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fd.h"
#include "base/message.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

int vb_fd_high(int fd)
{
	struct rlimit limit;
	int high;

	if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit))
		return fd;
	/* The upper half, from 4096 at most: the kernel's table grows with the largest number. */
	high = limit.rlim_cur > 8192 ? 4096 : (int)limit.rlim_cur / 2;
	high = fcntl(fd, F_DUPFD_CLOEXEC, high);
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

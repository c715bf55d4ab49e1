/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/slot.h"
#include "base/fd.h"
#include "base/random.h"
#include "nic/limits.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static socklen_t slot_address(struct sockaddr_un *address, uint32_t slot)
{
	int length;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "verbena.%u", slot);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int socket_open(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : vb_fd_high(fd);
}

int vb_slot_claim(uint32_t *slot)
{
	uint32_t count = VB_SLOT_MAX - VB_SLOT_MIN + 1, start = vb_random64() % count;
	int fd = socket_open();

	if (fd < 0)
		return fd;
	for (uint32_t i = 0; i < count; i++) {
		struct sockaddr_un address;

		*slot = VB_SLOT_MIN + (start + i) % count;
		if (!bind(fd, (void *)&address, slot_address(&address, *slot))) {
			if (!listen(fd, BACKLOG))
				return fd;
			break;
		}
		if (errno != EADDRINUSE)
			break;
	}
	if (errno == EADDRINUSE)
		errno = EMFILE;
	close(fd);
	return -errno;
}

int vb_slot_connect(uint32_t slot)
{
	struct sockaddr_un address;
	int fd = socket_open();

	if (fd < 0)
		return fd;
	if (!connect(fd, (void *)&address, slot_address(&address, slot)))
		return fd;
	close(fd);
	return -errno;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The size of socket buffers that Verbena's UDP sockets get. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "doctor.h"

static const struct row {
	const char *subject, *sysctl;
	int option, forced;
} rows[] = {
	{ "receive buffer", "net.core.rmem_max", SO_RCVBUF, SO_RCVBUFFORCE },
	{ "send buffer", "net.core.wmem_max", SO_SNDBUF, SO_SNDBUFFORCE },
};

/* Sets the size as the library does. The kernel doubles it for its own book-keeping. */
static int set_size(int fd, const struct row *row)
{
	int size = VB_SOCKET_BUFFER;
	socklen_t length = sizeof(size);

	if (setsockopt(fd, SOL_SOCKET, row->forced, &size, sizeof(size)))
		(void)setsockopt(fd, SOL_SOCKET, row->option, &size, sizeof(size));
	return getsockopt(fd, SOL_SOCKET, row->option, &size, &length) ? 0 : size / 2;
}

static void check_buffer(int fd, const struct row *row)
{
	const int size = set_size(fd, row);

	if (size >= VB_SOCKET_BUFFER) {
		report(VERDICT_OK, row->subject, "%d KB for packets from and to other hosts",
		       size >> 10);
		return;
	}
	report(VERDICT_WARN, row->subject,
	       "%d KB, not the %d KB that Verbena asks for: bursts between hosts get lost or wait",
	       size >> 10, VB_SOCKET_BUFFER >> 10);
	advise("as root: sysctl -w %s=%d, or give programs CAP_NET_ADMIN; see verbena(7)",
	       row->sysctl, VB_SOCKET_BUFFER);
}

void check_buffers(void)
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		report(VERDICT_WARN, "UDP sockets", "none can be opened: %s", strerror(errno));
		advise("no packets go to other hosts: allow AF_INET sockets");
		return;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check_buffer(fd, &rows[i]);
	close(fd);
}

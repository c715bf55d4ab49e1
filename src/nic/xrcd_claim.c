/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a shared XRC domain exists. Each process that has it open holds one of the abstract names
 * `verbena.xrcd.<domain>.<n>`. A process that asks tries all names. The kernel frees a name when
 * its process ends, so a domain ends with its last process and leaves nothing to clean up.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "nic/xrcd.h"

enum { SHARERS = 512 };

static socklen_t claim_name(struct sockaddr_un *address, const struct vb_xrcd_id *id, unsigned n)
{
	int length;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
			  "verbena.xrcd.%016llx.%016llx.%u", (unsigned long long)id->word[0],
			  (unsigned long long)id->word[1], n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int socket_open(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : vb_fd_high(fd);
}

/* Takes the first free name; *n is its number. */
static int claim_hold(const struct vb_xrcd_id *id, unsigned *n)
{
	int fd = socket_open(), err = -EADDRINUSE;

	for (*n = 0; fd >= 0 && *n < SHARERS; ++*n) {
		struct sockaddr_un address;

		if (!bind(fd, (void *)&address, claim_name(&address, id, *n)))
			return fd;
		err = -errno;
		if (err != -EADDRINUSE)
			break;
	}
	if (fd < 0)
		return fd;
	close(fd);
	return err == -EADDRINUSE ? -ENOSPC : err;
}

/* Does a process hold a name other than number mine? */
static bool others(const struct vb_xrcd_id *id, unsigned mine)
{
	int probe = socket_open();
	bool found = false;

	for (unsigned n = 0; probe >= 0 && n < SHARERS && !found; n++) {
		struct sockaddr_un address;

		found = n != mine && !connect(probe, (void *)&address, claim_name(&address, id, n));
	}
	if (probe >= 0)
		close(probe);
	return found;
}

/* Holds first, then looks: of two processes that create the domain at once at most one is first. */
int vb_xrcd_claim(const struct vb_xrcd_id *id, int oflags)
{
	unsigned n;
	int fd = claim_hold(id, &n), err = 0;

	if (fd < 0)
		return fd;
	if (oflags & O_EXCL && (n || others(id, n)))
		err = -EINVAL;
	else if (!(oflags & O_CREAT) && !n && !others(id, n))
		err = -EAGAIN;
	if (err)
		vb_fd_close(&fd);
	return err ? err : fd;
}

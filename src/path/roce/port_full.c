/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A full send buffer. RC loses the packet and sends it again; for UC and UD, where nobody would, it
 * is waited for a little: this is the backpressure of a slow link.
 */
#include "base/message.h"
#include "path/roce/port_impl.h"

#include <errno.h>
#include <poll.h>

enum { FULL_WAITS = 20, FULL_WAIT_NS = 1000000 };

/* The transport is the upper three bits of the opcode. */
static bool applies(const struct vb_burst *burst)
{
	enum { UC = 1, UD = 3 };
	unsigned transport = burst->bytes[0] >> 5;

	return transport == UC || transport == UD;
}

bool vb_port_wait_full(int fd, const struct vb_burst *burst, int err, unsigned *waits)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };

	if ((err != EAGAIN && err != ENOBUFS) || !applies(burst) ||
	    (*waits)++ >= FULL_WAITS)
		return false;
	/* ENOBUFS: the interface's queue, whose room nobody announces. */
	if (err == ENOBUFS)
		vb_sleep_ns(FULL_WAIT_NS);
	else
		(void)vb_ppoll(&room, 1, (struct timespec){ .tv_nsec = FULL_WAIT_NS });
	return true;
}

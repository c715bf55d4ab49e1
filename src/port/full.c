/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A full send buffer. RC loses the packet and sends it again. UC and UD do not send again, so the
 * port waits a little for room: this is the backpressure of a slow link. Answers to READs wait,
 * too: the peer decides how many there are, no window of ours bounds them, and a lost answer costs
 * many peers a timeout.
 */
#include <errno.h>
#include <poll.h>

#include "base/message.h"
#include "port/impl.h"
#include "wire/opcode.h"

enum { FULL_WAITS = 20, FULL_WAIT_NS = 1000000 };

/* The transport is the upper three bits of the opcode. */
bool vb_port_waits_full(const struct vb_burst *burst)
{
	enum { UC = 1, UD = 3, OPERATION = 0x1f };
	unsigned transport = burst->bytes[0] >> 5, operation = burst->bytes[0] & OPERATION;

	return transport == UC || transport == UD ||
	       (operation >= VB_OP_READ_RESPONSE_FIRST && operation <= VB_OP_READ_RESPONSE_ONLY);
}

bool vb_port_wait_full(int fd, const struct vb_burst *burst, int err, unsigned *waits)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };

	if ((err != EAGAIN && err != ENOBUFS) || !vb_port_waits_full(burst) ||
	    (*waits)++ >= FULL_WAITS)
		return false;
	/* ENOBUFS: the interface's queue is full, and no event tells of room there. */
	if (err == ENOBUFS)
		vb_sleep_ns(FULL_WAIT_NS);
	else
		(void)vb_ppoll(&room, 1, (struct timespec){ .tv_nsec = FULL_WAIT_NS });
	return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A full send buffer. A request of RC loses the packet and sends it again; for UC and UD, where
 * nobody would, it is waited for a little: this is the backpressure of a slow link. So it is for
 * the answers to READs: how many there are is for the peer to say, no window of ours holds them,
 * and what is lost costs many peers a timeout.
 */
#include "base/message.h"
#include "port/impl.h"
#include "wire/opcode.h"

#include <errno.h>
#include <poll.h>

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
	/* ENOBUFS: the interface's queue, whose room nobody announces. */
	if (err == ENOBUFS)
		vb_sleep_ns(FULL_WAIT_NS);
	else
		(void)vb_ppoll(&room, 1, (struct timespec){ .tv_nsec = FULL_WAIT_NS });
	return true;
}

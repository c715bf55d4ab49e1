/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A full send buffer. RC loses the packet and sends it again; for UC and UD, where nobody would, it
 * is waited for a little: this is the backpressure of a slow link.
 */
#include "base/clock.h"
#include "path/roce/port_impl.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

enum { FULL_WAITS = 20 }; /* milliseconds */

/* The transport is the upper three bits of the opcode. */
static bool applies(const struct vb_burst *burst)
{
	enum { UC = 1, UD = 3 };
	unsigned transport = burst->bytes[0] >> 5;

	return transport == UC || transport == UD;
}

static void sleep_until(uint64_t ns)
{
	const struct timespec until = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

bool vb_port_wait_full(int fd, const struct vb_burst *burst, int err, unsigned *waits)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };

	if ((err != EAGAIN && err != ENOBUFS) || !applies(burst) ||
	    (*waits)++ >= FULL_WAITS)
		return false;
	/* ENOBUFS: the interface's queue, whose room nobody announces. */
	if (err == ENOBUFS)
		sleep_until(vb_now_ns() + 1000000);
	else
		(void)poll(&room, 1, 1);
	return true;
}

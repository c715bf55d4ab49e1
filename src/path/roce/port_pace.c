/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Backpressure for UC and UD, which have no window: nobody tells their sender that a packet was
 * lost, and programs wait for every message for ever. RC is not held up, it sends again.
 *
 * A full send buffer is waited for. A full receive buffer at the other end is not seen from here,
 * and where nobody has privileges it holds 208 KB: a bucket lets bursts of 64 KB through and then
 * no more than a receiver takes in that is running. The sender sleeps meanwhile, which
 * gives its CPU to a receiver on the same host.
 */
#include "base/clock.h"
#include "path/roce/port_impl.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

enum {
	BUCKET_BYTES = 64 << 10,
	BYTES_PER_US = 400,
	PACKET_COST_BYTES = 256, /* what a packet costs whatever its length */
	FULL_WAITS = 20,         /* milliseconds that a full send buffer is waited for */
};

/* The transport is the upper three bits of the opcode. */
static bool applies(const struct vb_burst *burst)
{
	enum { UC = 1, UD = 3 };
	unsigned transport = burst->bytes[0] >> 5;

	return transport == UC || transport == UD;
}

static uint64_t cost_ns(const struct vb_burst *burst)
{
	uint64_t bytes = burst->length + (uint64_t)PACKET_COST_BYTES *
						vb_packets_of(burst->length, burst->segment);

	return bytes * 1000 / BYTES_PER_US;
}

static void sleep_until(uint64_t ns)
{
	const struct timespec until = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* paid_ns: until when what was sent so far takes at the rate; the bucket is how far it may lead. */
void vb_pace(struct vb_port *port, const struct vb_burst *bursts, unsigned count)
{
	const uint64_t bucket_ns = (uint64_t)BUCKET_BYTES * 1000 / BYTES_PER_US;
	uint64_t due_ns = 0, now_ns;

	for (unsigned i = 0; i < count; i++)
		if (applies(&bursts[i]))
			due_ns += cost_ns(&bursts[i]);
	if (!due_ns)
		return;
	now_ns = vb_now_ns();
	port->paid_ns = (port->paid_ns > now_ns ? port->paid_ns : now_ns) + due_ns;
	if (port->paid_ns > now_ns + bucket_ns)
		sleep_until(port->paid_ns - bucket_ns);
}

bool vb_pace_full(int fd, const struct vb_burst *burst, int err, unsigned *waits)
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

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC and UD have no window: nobody tells their sender that a packet was lost, and programs wait for
 * every message for ever. A full receive buffer at the other end is not seen from here, and where
 * nobody has privileges it holds 208 KB: a bucket lets bursts of 64 KB through and then no more
 * than a receiver takes in that is running. Whoever finds it empty waits, as a send queue does whose
 * link is busy. So does whoever sends to a process of this host that does not read.
 */
#include "path/roce/roce.h"

enum {
	BUCKET_BYTES = 64 << 10,
	BYTES_PER_US = 400,
	PACKET_COST_BYTES = 256, /* what a packet costs whatever its length */
};

static const uint64_t bucket_ns = (uint64_t)BUCKET_BYTES * 1000 / BYTES_PER_US;

uint64_t vb_pace_wait_ns(const struct vb_roce *roce, const struct vb_way *way)
{
	if (way->kind == VB_WAY_SLOT)
		return way->peer->stuck_ns > roce->now_ns ? way->peer->stuck_ns : 0;
	if (way->kind != VB_WAY_UDP || roce->paid_ns <= roce->now_ns + bucket_ns)
		return 0;
	/* Not a wait for each packet: on with half a bucket. */
	return roce->paid_ns - bucket_ns / 2;
}

void vb_pace_pay(struct vb_roce *roce, const struct vb_way *way, uint32_t payload_length)
{
	if (way->kind != VB_WAY_UDP)
		return;
	if (roce->paid_ns < roce->now_ns)
		roce->paid_ns = roce->now_ns;
	roce->paid_ns += (uint64_t)(payload_length + PACKET_COST_BYTES) * 1000 / BYTES_PER_US;
}

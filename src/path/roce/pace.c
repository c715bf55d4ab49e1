/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC and UD have no window: a lost packet is not reported to its sender, and programs wait for
 * every message for ever. The sender does not see a full receive buffer at the other end, which
 * holds 208 KB for a process without privileges. A bucket lets bursts of 64 KB pass, and then the
 * rate that a running receiver takes in. A sender that finds the bucket empty waits, as a send
 * queue waits for a busy link. So does a sender to a process of this host that does not read.
 */
#include "path/roce/roce.h"

enum {
	BUCKET_BYTES = 64 << 10,
	BYTES_PER_US = 400,
	PACKET_COST_BYTES = 256, /* cost of a packet beside its payload */
};

static const uint64_t bucket_ns = (uint64_t)BUCKET_BYTES * 1000 / BYTES_PER_US;

uint64_t vb_pace_wait_ns(const struct vb_roce *roce, const struct vb_way *way)
{
	if (way->kind == VB_WAY_SLOT) {
		const uint64_t stuck_ns = atomic_load(&way->peer->stuck_ns);

		return stuck_ns > roce->now_ns ? stuck_ns : 0;
	}
	if (way->kind != VB_WAY_UDP || roce->paid_ns <= roce->now_ns + bucket_ns)
		return 0;
	/* The sender waits for half a bucket, not for each packet. */
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

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets overtake each other, and a packet that is late is not lost. The responder learns how late
 * packets come, and calls a packet missing once it is later than that. While none is late, a packet
 * is missing as soon as three came behind it.
 *
 * Only the first copy of a packet shows lateness. Repetitions ask for an ACK, so a packet that does
 * not ask is a first copy. It was late if it comes behind its successor. If it had been called
 * missing, it must come twice, because some requesters go back and repeat packets without asking.
 * Other packets that come twice show nothing: a requester went back, or has missed an ACK.
 */
#ifndef VB_PATH_ROCE_LATENESS_H
#define VB_PATH_ROCE_LATENESS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	VB_LATENESS_PACKETS = 3,
	VB_LATENESS_UNKNOWN_NS = 100000, /* the wait if too few packets come behind the gap */
	VB_LATENESS_LEAST_NS = 20000,    /* hosts read packets in batches */
	VB_LATENESS_MOST_NS = 5000000,
	VB_LATENESS_CALM = 256, /* packets after which it may be less */
	VB_TOLD_MAX = 64,
};

/* A PSN that was called missing. */
struct vb_told {
	uint32_t psn_1;   /* 1 + PSN; 0: none */
	uint32_t late_ns; /* the lateness of the packet, once it has come */
	bool original;    /* the copy that came did not ask for an ACK */
};

struct vb_lateness {
	uint64_t ns;                      /* 0: no packet was late lately */
	uint32_t calm;                    /* packets since it became less */
	struct vb_told told[VB_TOLD_MAX]; /* the latest; the index follows from the PSN */
};

/* The number of packets behind a gap that make it old at once. */
static inline uint32_t vb_lateness_packets(const struct vb_lateness *late)
{
	return late->ns ? UINT32_MAX : VB_LATENESS_PACKETS;
}

/* The time that makes a gap old. */
static inline uint64_t vb_lateness_wait_ns(const struct vb_lateness *late)
{
	return late->ns ? late->ns + late->ns / 2 + VB_LATENESS_LEAST_NS : VB_LATENESS_UNKNOWN_NS;
}

/* In-order packets have come: true for nearly all of them. */
static inline void vb_lateness_calm(struct vb_lateness *late)
{
	if (__builtin_expect(!late->ns, 1) || ++late->calm < VB_LATENESS_CALM)
		return;
	late->calm = 0;
	late->ns -= (late->ns + 7) / 8;
}

/* A PSN is called missing. */
void vb_lateness_told(struct vb_lateness *late, uint32_t psn);
/* A packet came so much later than its successor. */
void vb_lateness_filled(struct vb_lateness *late, uint32_t psn, uint64_t late_ns, bool asks);
/* A packet came once more. */
void vb_lateness_twice(struct vb_lateness *late, uint32_t psn, bool asks);

#endif

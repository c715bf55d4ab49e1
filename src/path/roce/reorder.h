/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of RC that came behind a gap. The responder keeps them, and executes them in order once
 * the gap is closed. The requester is told in the way of RoCEv2: by an ACK that covers them.
 *
 * Memory is bounded. All QPs of a process keep VB_KEPT_BYTES_MAX at most, and one QP no more than
 * is left for the others. A packet beyond that is dropped, and counts as lost.
 */
#ifndef VB_PATH_ROCE_REORDER_H
#define VB_PATH_ROCE_REORDER_H

#include "wire/gaps.h"
#include "wire/packet.h"

enum {
	VB_KEPT_BYTES_MAX = 64 << 20,
	VB_KEPT_AHEAD_MAX = 1 << 16, /* PSNs from the gap to the newest packet that is kept */
};

struct vb_wired;

/* A packet that is kept; its payload is behind it. */
struct vb_kept {
	struct vb_packet packet;
	uint32_t end_psn; /* one past the last PSN that the request uses up */
	uint64_t ns;      /* time of its arrival */
	uint8_t payload[];
};

struct vb_reorder {
	struct vb_kept **ring; /* by PSN; NULL: the QP keeps no packet */
	uint32_t size;         /* of the ring, a power of two */
	uint32_t count;        /* packets in it */
	uint64_t bytes;        /* of the ring and the packets */
	uint32_t end_psn;      /* with a count: the highest end_psn */
};

enum vb_keep { VB_KEEP_DONE, VB_KEEP_DUPLICATE, VB_KEEP_FULL };

/* Keeps a packet from behind the gap; end_psn as in struct vb_kept. */
enum vb_keep vb_reorder_keep(struct vb_wired *wired, const struct vb_packet *packet,
			     uint32_t end_psn);
/* Takes the packet with this PSN out, for the caller to free; NULL: it is not there. */
struct vb_kept *vb_reorder_take(struct vb_wired *wired, uint32_t psn);
/* Drops all packets. */
void vb_reorder_clear(struct vb_wired *wired);
/* True: packets are kept behind a gap. */
bool vb_reorder_open(const struct vb_wired *wired);
/* The gap may be closed: gives back memory that a QP without a gap does not need. */
void vb_reorder_tidy(struct vb_wired *wired);
/* The time at which the packet with this PSN came; 0: it is not there. */
uint64_t vb_reorder_ns(const struct vb_wired *wired, uint32_t psn);
/* Lists the gaps that have at least `behind` packets behind them, or have been there since then. */
void vb_reorder_gaps(const struct vb_wired *wired, uint32_t behind, uint64_t since_ns,
		     struct vb_gaps *gaps);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester sends again what its peer misses, and no more, if the peer reports its gaps
 * (wire/gaps.h). Other peers drop the packets behind a gap, and for them the requester goes back.
 *
 * A peer is taken for one of the first kind by its own behaviour:
 *
 *   1. After a NAK the requester goes back, but sends half of the packets only before it waits for
 *      an answer. A device of RoCEv2 has dropped the other half.
 *   2. An ACK for packets of the other half shows a peer that has kept them. The requester asks it
 *      for reports, ASKS_MAX times at most.
 *   3. A report makes the peer known for the life of the connection.
 */
#ifndef VB_PATH_ROCE_REPAIR_H
#define VB_PATH_ROCE_REPAIR_H

#include "wire/gaps.h"

enum { VB_REPAIR_MARKS = 16 };

/* Gaps before end_psn, and behind the mark before, were sent again at this time. */
struct vb_repair_mark {
	uint32_t end_psn;
	uint64_t ns;
};

struct vb_repair {
	bool known;    /* the peer reports its gaps */
	bool learning; /* packets from learn_psn on wait for an answer */
	bool ask_due;  /* the peer is to be asked for reports */
	uint8_t asks;  /* questions since the last report */
	uint32_t learn_psn;
	uint32_t end_psn; /* of the last report */
	uint32_t held;    /* PSNs behind una_psn that the peer has, by its last report */
	struct vb_gap gap[VB_GAPS_MAX]; /* to be sent again, from first on */
	uint32_t first, count;
	struct vb_repair_mark mark[VB_REPAIR_MARKS];
	uint32_t mark_count;
};

struct vb_wired;
struct vb_requester_turn;

/* True: the next turn has something to send. */
static inline bool vb_repair_due(const struct vb_repair *repair)
{
	return repair->first != repair->count || repair->ask_due;
}

/* Sends packets again, and questions. False: the memory of a WQE is missing, and the QP stops. */
bool vb_repair_run(struct vb_requester_turn *turn);
/* The peer reports gaps that begin at una_psn or behind it. */
void vb_repair_report(struct vb_wired *wired, const struct vb_gaps *gaps);
/* A peer that is known misses a packet. */
void vb_repair_packet(struct vb_wired *wired, uint32_t psn);
/* A peer that is known is silent: sends a packet again, whose answer tells what is missing. */
void vb_repair_probe(struct vb_wired *wired, uint32_t psn);
/* The requester has gone back after a NAK. */
void vb_repair_learn(struct vb_wired *wired);
/* una_psn has moved. */
void vb_repair_progressed(struct vb_wired *wired);
/* The requester goes back, or its queue is flushed: all packets behind will be sent again. */
void vb_repair_forget(struct vb_repair *repair);

#endif

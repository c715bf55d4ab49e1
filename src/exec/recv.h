/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consuming a receive at the target: find it, check it, fill it, complete it. Runs inside a
 * hazard; the target is described by struct vb_remote.
 */
#ifndef VB_EXEC_RECV_H
#define VB_EXEC_RECV_H

#include "exec/reason.h"
#include "nic/qp.h"

struct vb_message {
	uint32_t length; /* bytes that go into the receive, a GRH included */
	uint32_t imm;
	uint32_t src_qpn;
	uint8_t wc_opcode; /* IBV_WC_RECV or IBV_WC_RECV_RDMA_WITH_IMM */
	uint8_t wc_flags;
	uint8_t sl;
	uint16_t slid;
	bool solicited;
	bool event_later; /* the caller raises the event of a success, after its own completion */
};

/* A receive that was found; many senders: it is TAKEN. */
struct vb_claim {
	uint32_t fit;   /* in: a datagram of this size must fit, or nothing is taken; 0: any */
	bool too_short; /* out: it did not */
	uint32_t asks;  /* of the CQ, looked at once: a stamp takes room from the payload */
	uint32_t index;
	uint64_t word;
	struct vb_cell *cell;
};

/* Where the receive queue and CQ of remote->entry are; false: the segment names places outside of
 * itself. */
bool vb_recv_resolve(struct vb_remote *remote);
/* An SRQ that is being resized: its new ring is elsewhere. False: not now. */
bool vb_recv_follow(struct vb_remote *remote);
/* False: none is posted. fit is set before. */
bool vb_recv_claim(struct vb_remote *remote, struct vb_claim *claim);
/* Gives a TAKEN receive back unused. */
void vb_recv_unclaim(struct vb_remote *remote, const struct vb_claim *claim);
/* Room for length bytes, and keys that are good? VB_OK, VB_WHY_RECV_SHORT or VB_WHY_RECV_KEY. Bytes that do
 * not ride are placed by the caller: for them the cell's word is not enough. */
enum vb_reason vb_recv_check(struct vb_remote *remote, const struct vb_claim *claim,
			     uint32_t length, bool rides);
const struct vb_recv_sges *vb_recv_sges(const struct vb_remote *remote,
					const struct vb_claim *claim);
/* How many elements of it there are, whatever it says. */
uint32_t vb_recv_sge_count(const struct vb_remote *remote, const struct vb_recv_sges *list);
/* Where a small payload may ride along; NULL: it does not fit. */
uint8_t *vb_recv_ride(struct vb_remote *remote, const struct vb_claim *claim, uint32_t length);

/*
 * Completes the receive: success with its payload placed or riding, or with the target's status
 * for a reason. VB_OK, VB_WHY_TARGET_CQ_OVERRUN, or VB_WHY_RECV_KEY: a region of the receive went meanwhile,
 * and that is its status; *lost: the owner flushed it meanwhile.
 */
enum vb_reason vb_recv_complete(struct vb_remote *remote, const struct vb_claim *claim,
				const struct vb_message *message, enum vb_reason reason,
				bool *lost);

/* What a completion says of its message; the payload and the stamp are the caller's. */
static inline void vb_cell_describe(struct vb_cell *cell, uint32_t qpn,
				    const struct vb_message *message, enum vb_reason reason,
				    enum ibv_wc_status status)
{
	cell->byte_length = message->length;
	cell->imm = message->imm;
	cell->src_qpn = message->src_qpn;
	cell->qpn = qpn;
	cell->opcode = message->wc_opcode & 1;
	cell->status = (uint8_t)status;
	cell->wc_flags = message->wc_flags;
	cell->reason = (uint8_t)reason;
	cell->sl = message->sl;
	cell->slid = message->slid;
}

/* The ready bit of a receive that was completed; a full fence lies behind it. */
void vb_recv_mark_ready(struct vb_remote *remote);
/* The event, if the CQ is armed; wakes the target. */
void vb_recv_raise_event(struct vb_remote *remote, bool solicited);

/* What the target's owner must do for the reason: its QP fails, an event is raised unless quiet. */
void vb_target_fail(struct vb_remote *remote, enum vb_reason reason, bool quiet);

#endif

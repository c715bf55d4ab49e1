/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steps that consume a receive at the target: find, check, fill and complete it. They run
 * inside a hazard; struct vb_remote describes the target.
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

enum { VB_RECV_HINT_STEP = 16 }; /* receives that a sender takes between two hints to others */

/* A receive that was found. In a queue of many senders its cell is TAKEN. */
struct vb_claim {
	uint32_t fit;   /* in: a datagram of this size must fit, or no receive is taken; 0: any */
	bool too_short; /* out: the datagram does not fit */
	uint32_t asks;  /* those of the CQ, read once: a stamp takes room from the payload */
	uint32_t index;
	uint64_t word;
	struct vb_cell *cell;
};

/* Finds the receive queue and CQ of remote->entry; false: the segment names places outside of
 * itself. */
bool vb_recv_resolve(struct vb_remote *remote);
/* Follows an SRQ whose ring a resize has moved. False: the resize is under way, try again. */
bool vb_recv_follow(struct vb_remote *remote);
/* False: no receive is posted. The caller sets claim->fit before. */
bool vb_recv_claim(struct vb_remote *remote, struct vb_claim *claim);
/* An SRQ has a limit: raises its event if fewer receives than that are left behind this one. */
void vb_recv_trip_limit(struct vb_remote *remote, uint32_t index);
/*
 * The receive at this index was taken, and none before it is posted. A full fence lies behind the
 * operation that took it. Other senders learn of the place now and then: each writes to that line.
 */
static inline void vb_recv_taken(struct vb_remote *remote, uint32_t index)
{
	if (!((index + 1) % VB_RECV_HINT_STEP))
		atomic_store_explicit(&remote->rq_lent->head, index + 1, memory_order_relaxed);
	if (__builtin_expect(atomic_load_explicit(&remote->rq_lent->limit, memory_order_relaxed),
			     0))
		vb_recv_trip_limit(remote, index);
}
/* Gives a TAKEN receive back unused. */
void vb_recv_unclaim(struct vb_remote *remote, const struct vb_claim *claim);
/*
 * Checks room for length bytes, and keys: VB_OK, VB_WHY_RECV_SHORT or VB_WHY_RECV_KEY. The caller
 * places bytes that do not ride: the cell's word alone does not vouch for their keys.
 */
enum vb_reason vb_recv_check(struct vb_remote *remote, const struct vb_claim *claim,
			     uint32_t length, bool rides);
const struct vb_recv_sges *vb_recv_sges(const struct vb_remote *remote,
					const struct vb_claim *claim);
/* The number of elements, bounded by the room of a list: a damaged list may claim more. */
uint32_t vb_recv_sge_count(const struct vb_remote *remote, const struct vb_recv_sges *list);
/* The place in the cell, or behind it, where a small payload rides; NULL: it does not fit. */
uint8_t *vb_recv_ride(struct vb_remote *remote, const struct vb_claim *claim, uint32_t length);

/*
 * Completes the receive: with success, its payload placed or riding, or with the target's status
 * for a reason. Returns VB_OK, VB_WHY_TARGET_CQ_OVERRUN, or VB_WHY_RECV_KEY: a region of the
 * receive was deregistered since the check, and the receive has that status. *lost: the owner has
 * flushed the receive since it was claimed.
 */
enum vb_reason vb_recv_complete(struct vb_remote *remote, const struct vb_claim *claim,
				const struct vb_message *message, enum vb_reason reason,
				bool *lost);

/* Describes a message in the cell of its completion; the caller writes payload and stamp. */
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
	cell->place = 0;
}

/* Sets the ready bit of a completed receive, and its place in the trail, where the CQ has many
 * queues; a full fence lies between the completion and this. */
void vb_recv_mark_ready(struct vb_remote *remote, uint64_t stamp);
/* Raises the event if the CQ is armed, and wakes the target. */
void vb_recv_raise_event(struct vb_remote *remote, bool solicited);

/* Tells the target's owner to fail its QP for the reason, and to raise an event unless quiet. */
void vb_target_fail(struct vb_remote *remote, enum vb_reason reason, bool quiet);
/* The same; the owner can explain which rkey was refused, and which rights it lacks. */
void vb_target_refuse(struct vb_remote *remote, enum vb_reason reason, bool quiet, uint32_t rkey,
		      unsigned access);

#endif

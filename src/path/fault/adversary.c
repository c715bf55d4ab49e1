/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adversary's verdicts on work requests and packets, in the terms of fault rules. Nothing here
 * breaks a promise: work requests of a queue stay in order, and a lost packet is sent again.
 */
#include "base/adversary.h"

#include "nic/qp.h"
#include "path/fault/fault.h"
#include "wire/opcode.h"

enum {
	SEND_NS_MAX = 8000000,
	QUIET_NS_MAX = 15000000,
	COMPLETION_NS_MAX = 6000000,
	PACKET_NS_MAX = 2000000,
	OVERTAKEN_NS_MAX = 500000,
	ACK_NS_MAX = 5000000,
};

/* --- work requests --- */

/* A later work request with a completion is posted: somebody waits for the queue. */
static bool is_awaited(struct vb_qp *qp, uint32_t index)
{
	struct vb_sq *sq = &qp->sq;
	bool awaited = false;

	vb_spin_lock(&sq->lock);
	for (uint32_t i = index; i != sq->tail && !awaited; i++)
		awaited = vb_sq_wqe(sq, i)->signaled;
	vb_spin_unlock(&sq->lock);
	return awaited;
}

static void delay_wr(struct vb_qp *qp, const struct vb_wqe *wqe, uint32_t index,
		     struct vb_fault_verdict *verdict)
{
	const bool quiet = !is_awaited(qp, index);
	const enum vb_deed deed = quiet ? VB_DEED_QUIET_LATE : VB_DEED_SEND_LATE;
	uint64_t bits;

	if (!vb_adversary_draws(deed, vb_adversary_place(qp->ibv.qp_num), index, &bits))
		return;
	verdict->action = VB_FAULT_DELAY;
	verdict->delay_ns = vb_adversary_time_ns(bits, quiet ? QUIET_NS_MAX : SEND_NS_MAX);
	vb_adversary_note(deed, qp->ibv.qp_num, wqe->wr_id, "%s is executed %llu us later%s",
			  vb_wr_row(wqe->opcode)->name,
			  (unsigned long long)verdict->delay_ns / 1000,
			  quiet ? ": no completion of the queue is awaited" : "");
}

/* On the wire late ACKs do the same. */
static void complete_late(struct vb_qp *qp, const struct vb_wqe *wqe, uint32_t index,
			  struct vb_fault_verdict *verdict)
{
	uint64_t bits;

	if (!vb_adversary_draws(VB_DEED_COMPLETION_LATE, vb_adversary_place(qp->ibv.qp_num), index,
				&bits))
		return;
	verdict->late_ns = vb_adversary_time_ns(bits, COMPLETION_NS_MAX);
	vb_adversary_note(VB_DEED_COMPLETION_LATE, qp->ibv.qp_num, wqe->wr_id,
			  "%s completes %llu us after its execution", vb_wr_row(wqe->opcode)->name,
			  (unsigned long long)verdict->late_ns / 1000);
}

void vb_fault_adverse_wr(struct vb_qp *qp, const struct vb_wqe *wqe, uint32_t index, bool wire,
			 struct vb_fault_verdict *verdict)
{
	delay_wr(qp, wqe, index, verdict);
	if (!wire && wqe->signaled && qp->type != IBV_QPT_UD && !wqe->internal && !qp->slow_sends)
		complete_late(qp, wqe, index, verdict);
}

/* --- packets --- */

static bool is_reliable(uint8_t bth_opcode)
{
	const uint8_t transport = bth_opcode & VB_TRANSPORT_MASK;

	return transport == VB_TRANSPORT_RC || transport == VB_TRANSPORT_XRC;
}

static bool is_ack(uint8_t bth_opcode)
{
	return (bth_opcode & ~VB_TRANSPORT_MASK) == VB_OP_ACKNOWLEDGE;
}

static bool decide(enum vb_deed deed, uint32_t qpn, enum vb_fault_action action, uint64_t most_ns,
		   struct vb_fault_verdict *verdict)
{
	uint64_t bits;

	if (!vb_adversary_draws_next(deed, vb_adversary_place(qpn), &bits))
		return false;
	verdict->action = action;
	verdict->delay_ns = most_ns ? vb_adversary_time_ns(bits, most_ns) : 0;
	return true;
}

static const char *const packet_words[VB_FAULT_ACTION_COUNT] = {
	[VB_FAULT_DROP] = "gets lost",
	[VB_FAULT_DUPLICATE] = "leaves twice",
	[VB_FAULT_REORDER] = "leaves behind the next one",
	[VB_FAULT_DELAY] = "leaves late",
};

static void note_packet(enum vb_deed deed, uint32_t qpn, uint8_t bth_opcode,
			const struct vb_fault_verdict *verdict)
{
	vb_adversary_note(deed, 0, 0, "QP 0x%06x: a packet to its peer (BTH opcode 0x%02x) %s", qpn,
			  bth_opcode, packet_words[verdict->action]);
}

/* Only what the transport repairs by itself: datagrams, and messages of UC, would stay lost. */
void vb_fault_adverse_packet(bool out, uint32_t qpn, uint8_t bth_opcode,
			     struct vb_fault_verdict *verdict)
{
	static const struct {
		enum vb_deed deed;
		enum vb_fault_action action;
		uint64_t most_ns;
	} rows[] = {
		{ VB_DEED_PACKET_LOST, VB_FAULT_DROP, 0 },
		{ VB_DEED_PACKET_TWICE, VB_FAULT_DUPLICATE, 0 },
		{ VB_DEED_PACKET_OVERTAKEN, VB_FAULT_REORDER, OVERTAKEN_NS_MAX },
		{ VB_DEED_PACKET_LATE, VB_FAULT_DELAY, PACKET_NS_MAX },
	};

	if (!is_reliable(bth_opcode) || !out)
		return;
	if (is_ack(bth_opcode) &&
	    decide(VB_DEED_ACK_LATE, qpn, VB_FAULT_DELAY, ACK_NS_MAX, verdict)) {
		note_packet(VB_DEED_ACK_LATE, qpn, bth_opcode, verdict);
		return;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!decide(rows[i].deed, qpn, rows[i].action, rows[i].most_ns, verdict))
			continue;
		note_packet(rows[i].deed, qpn, bth_opcode, verdict);
		return;
	}
}

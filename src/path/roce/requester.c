/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester: turns work requests into packets, within windows. */
#include "path/roce/requester.h"

#include "base/clock.h"
#include "nic/migrate.h"
#include "nic/trace.h"

enum {
	ASK_EVERY = 16,    /* packets: ask for an ACK at least this often ... */
	ASK_PARTS = 4,     /* ... or so often per window, where windows are long ... */
	ASK_RARELY = 128,  /* ... but no more rarely ... */
	ASK_GAP_NS = 5000, /* ... and always where packets are that far apart */
	AHEAD_WINDOWS = 4, /* windows from a gap to the newest packet */
};

/* Opcodes of a message by the place of the packet in it. */
struct shape {
	uint8_t first, middle, last, only;
};

static const struct shape shapes[] = {
	[IBV_WR_RDMA_WRITE] = { VB_OP_WRITE_FIRST, VB_OP_WRITE_MIDDLE, VB_OP_WRITE_LAST,
				VB_OP_WRITE_ONLY },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { VB_OP_WRITE_FIRST, VB_OP_WRITE_MIDDLE,
					 VB_OP_WRITE_LAST_IMM, VB_OP_WRITE_ONLY_IMM },
	[IBV_WR_SEND] = { VB_OP_SEND_FIRST, VB_OP_SEND_MIDDLE, VB_OP_SEND_LAST, VB_OP_SEND_ONLY },
	[IBV_WR_SEND_WITH_IMM] = { VB_OP_SEND_FIRST, VB_OP_SEND_MIDDLE, VB_OP_SEND_LAST_IMM,
				   VB_OP_SEND_ONLY_IMM },
	[IBV_WR_SEND_WITH_INV] = { VB_OP_SEND_FIRST, VB_OP_SEND_MIDDLE, VB_OP_SEND_LAST_INVALIDATE,
				   VB_OP_SEND_ONLY_INVALIDATE },
};

/* --- packets --- */

/* Moves to the next WQE that has packets: a WQE that stays here was executed when it began. */
static void cursor_advance(struct vb_wired *wired, const struct vb_wqe *wqe)
{
	struct vb_requester *req = &wired->req;

	if (vb_psn_diff(req->next_psn, vb_psn_add(wqe->psn, wqe->psn_count)) < 0)
		return;
	do
		req->cursor++;
	while (req->cursor != req->begun && !vb_sq_wqe(&wired->qp->sq, req->cursor)->psn_count);
}

/* Round trips are measured on packets that were sent once. */
static void answer_time(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	if (req->timing)
		return;
	req->timing = true;
	req->timed_psn = vb_psn_add(req->next_psn, VB_PSN_MASK);
	req->timed_ns = wired->roce->now_ns;
}

void vb_requester_sent(struct vb_requester_turn *turn, const struct vb_wqe *wqe, uint32_t count,
		       bool packet_asks)
{
	struct vb_wired *wired = turn->wired;
	struct vb_requester *req = &wired->req;
	bool again = vb_psn_diff(req->next_psn, req->sent_psn) < 0;

	if (req->congestion.gap_ns)
		vb_requester_gap_begin(wired, count);
	req->next_psn = vb_psn_add(req->next_psn, count);
	wired->counters.retransmits += again;
	if (vb_psn_diff(req->next_psn, req->sent_psn) > 0)
		req->sent_psn = req->next_psn;
	req->unasked = packet_asks ? 0 : req->unasked + count;
	if (packet_asks && !again)
		answer_time(wired);
	/* No packet was under way before: silence begins now. */
	if (req->resend_ns == VB_NEVER_NS && vb_requester_reliable(wired))
		vb_requester_rearm(wired);
	cursor_advance(wired, wqe);
	turn->budget--;
}

/* True: the QP drains (SQD), and no WQE begins behind the one at the cursor. */
static bool wqe_ends_drain(const struct vb_wired *wired)
{
	return vb_qp_state(wired->qp) == IBV_QPS_SQD && wired->req.cursor + 1 == wired->req.begun;
}

/*
 * The number of packets of which one asks. An ACK costs both hosts as much as dozens of packets of
 * a burst. But where a switch marks packets the window follows the ACKs closely.
 */
static uint32_t ask_every(const struct vb_requester *req)
{
	const uint32_t part = vb_congestion_window(&req->congestion) / ASK_PARTS;

	if (part < ASK_EVERY || req->congestion.gentle)
		return ASK_EVERY;
	return part < ASK_RARELY ? part : ASK_RARELY;
}

/* With rare ACKs the completion of a long message waits for a part of the next one. */
static bool message_asks(const struct vb_requester_turn *turn, const struct vb_wqe *wqe,
			 uint32_t every)
{
	return (wqe->signaled && (every == ASK_EVERY || wqe->psn_count < ASK_EVERY)) ||
	       turn->wired->req.cursor + 1 == turn->end || wqe_ends_drain(turn->wired);
}

/*
 * A packet asks for an ACK if it ends a message that the program waits for, or if the requester
 * cannot go on without an answer. In between some packets of a window ask.
 */
static bool packet_asks(const struct vb_requester_turn *turn, const struct vb_wqe *wqe, bool last)
{
	const struct vb_requester *req = &turn->wired->req;
	const struct vb_share *share = &turn->wired->roce->share;
	const uint32_t every = ask_every(req);

	if (!vb_requester_reliable(turn->wired))
		return false;
	if (last && message_asks(turn, wqe, every))
		return true;
	/* The first round trip is measured before a queue builds up. */
	if (!req->congestion.rtt_ns && !req->timing && req->next_psn == req->sent_psn)
		return true;
	return req->unasked + 1 >= every || (turn->budget <= 1 && every == ASK_EVERY) ||
	       req->rnr_cautious || req->repair.learning || vb_requester_pace_holds(turn->wired) ||
	       req->congestion.gap_ns >= ASK_GAP_NS ||
	       vb_requester_in_flight(req) + 1 >= vb_congestion_window(&req->congestion) ||
	       share->used_bytes + 2 * turn->wired->mtu >= share->limit_bytes;
}

static uint8_t packet_opcode(const struct vb_wired *wired, const struct vb_wqe *wqe, bool first,
			     bool last)
{
	const struct shape *shape = &shapes[wqe->opcode];
	uint8_t transport = vb_requester_transport(wired);

	if (first)
		return transport | (last ? shape->only : shape->first);
	return transport | (last ? shape->last : shape->middle);
}

bool vb_requester_send(struct vb_requester_turn *turn, const struct vb_wqe *wqe, uint32_t psn,
		       bool asks)
{
	struct vb_wired *wired = turn->wired;
	uint32_t index = (uint32_t)vb_psn_diff(psn, wqe->psn);
	uint64_t offset = (uint64_t)index * wired->mtu;
	bool last = index + 1 == wqe->psn_count;
	struct vb_packet packet = {
		.opcode = packet_opcode(wired, wqe, !index, last),
		/* Only a message that consumes a receive can be solicited. */
		.solicited = last && wqe->solicited && vb_wr_consumes(wqe->opcode),
		.migreq = vb_qp_migreq(wired->qp),
		.ack_request = asks,
		.pkey = vb_qp_pkey(wired->qp),
		.dest_qpn = wired->qp->attr.dest_qp_num,
		.psn = psn,
		.va = wqe->remote_addr,
		.rkey = wqe->rkey,
		.dma_length = wqe->length,
		.srqn = wqe->srqn,
		.imm = wqe->imm,
		.invalidate_rkey = wqe->imm,
		.payload_length = last ? wqe->length - (uint32_t)offset : wired->mtu,
	};

	if (!vb_path_gather(turn->sge, turn->sge_count, offset, packet.payload_length,
			    vb_tx_begin(&wired->roce->tx, &wired->way, &packet))) {
		vb_tx_cancel(&wired->roce->tx);
		return false;
	}
	vb_tx_end(&wired->roce->tx);
	if (!vb_requester_reliable(wired))
		vb_pace_pay(wired->roce, &wired->way, packet.payload_length);
	return true;
}

/* --- packets in the middle of a message --- */

static uint32_t lower(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* True: the next packet is sent for the first time, and only window, share and budget hold it. */
static bool flows_freely(const struct vb_wired *wired)
{
	const struct vb_requester *req = &wired->req;

	return vb_requester_reliable(wired) && req->next_psn == req->sent_psn &&
	       (req->congestion.rtt_ns || req->timing) && !req->congestion.gap_ns &&
	       !req->rnr_cautious && !req->probing && !req->repair.learning && !req->repair.held &&
	       !atomic_load_explicit(&wired->qp->rate_kbps, memory_order_relaxed);
}

/* The packets behind the last one that are in the middle of the message as well, may leave, and do
 * not ask for an ACK: packet_asks and vb_requester_may_send would say so of each. */
static uint32_t sequels_allowed(const struct vb_requester_turn *turn, const struct vb_wqe *wqe)
{
	struct vb_wired *wired = turn->wired;
	const struct vb_requester *req = &wired->req;
	const struct vb_share *share = &wired->roce->share;
	const uint32_t window = vb_congestion_window(&req->congestion);
	const uint32_t out = vb_requester_in_flight(req), every = ask_every(req);
	const uint32_t middle = wqe->psn_count - 1 - (uint32_t)vb_psn_diff(req->next_psn, wqe->psn);
	uint64_t room;

	if (!flows_freely(wired) || out >= window || req->unasked >= every)
		return 0;
	vb_requester_account(wired);
	room = vb_share_full(share) ? 0 : (share->limit_bytes - share->used_bytes) / wired->mtu;
	room = room > 2 ? room - 2 : 0;
	return lower(lower(middle, turn->budget - 1),
		     lower(lower(window - out, every - req->unasked) - 1,
			   room < UINT32_MAX ? (uint32_t)room : UINT32_MAX));
}

/*
 * Most packets of long messages pass here: for so many of them at once it is known that they may
 * leave. A packet whose memory is missing is left to the caller's next look.
 */
static void send_sequels(struct vb_requester_turn *turn, const struct vb_wqe *wqe)
{
	struct vb_wired *wired = turn->wired;
	struct vb_requester *req = &wired->req;
	const uint32_t first_psn = req->next_psn, allowed = sequels_allowed(turn, wqe);
	uint64_t offset = (uint64_t)vb_psn_diff(first_psn, wqe->psn) * wired->mtu;
	uint32_t count = 0;
	uint8_t *out;

	for (; count < allowed; count++, offset += wired->mtu) {
		out = vb_tx_next(&wired->roce->tx, vb_psn_add(first_psn, count));
		if (!out || !vb_path_gather(turn->sge, turn->sge_count, offset, wired->mtu, out))
			break;
		vb_tx_end(&wired->roce->tx);
	}
	if (!count)
		return;
	req->next_psn = req->sent_psn = vb_psn_add(first_psn, count);
	req->unasked += count;
	turn->budget -= count;
}

/* Sends the next packet. False: the memory of the WQE is not mapped any more. */
static bool send_next(struct vb_requester_turn *turn, const struct vb_wqe *wqe)
{
	const uint32_t psn = turn->wired->req.next_psn;
	const bool last = psn == vb_psn_add(wqe->psn, wqe->psn_count - 1);
	const bool asks = packet_asks(turn, wqe, last);

	if (!vb_requester_send(turn, wqe, psn, asks))
		return false;
	vb_requester_sent(turn, wqe, 1, asks);
	/* The first packet has another opcode. */
	if (psn != wqe->psn && !last && turn->budget > 1)
		send_sequels(turn, wqe);
	return true;
}

/* --- a turn --- */

/* The peer has not answered as much as it must, to show whether it keeps packets behind a gap; or
 * it keeps many of them, and its memory is bounded. */
static bool is_far_ahead(const struct vb_requester *req)
{
	const struct vb_repair *repair = &req->repair;

	if (__builtin_expect(repair->learning, 0))
		return vb_psn_diff(req->next_psn, repair->learn_psn) >= 0;
	return __builtin_expect(repair->held, 0) &&
	       (uint32_t)vb_psn_diff(req->next_psn, req->una_psn) >=
		       AHEAD_WINDOWS * vb_congestion_window(&req->congestion);
}

/* A QP that probes after a long silence ignores the share: it sends one packet, and its time
 * runs. */
bool vb_requester_may_send(struct vb_requester_turn *turn)
{
	const struct vb_requester *req = &turn->wired->req;
	uint32_t out = vb_requester_in_flight(req);

	if (out >= vb_congestion_window(&req->congestion) || (req->rnr_cautious && out) ||
	    is_far_ahead(req) || (req->congestion.gap_ns && !vb_requester_gap_over(turn->wired)))
		return false;
	turn->starved = vb_share_full(&turn->wired->roce->share) && !req->probing;
	if (!turn->starved)
		vb_requester_account(turn->wired);
	return !turn->starved;
}

enum vb_reason vb_requester_memory(struct vb_requester_turn *turn, const struct vb_wqe *wqe,
				   uint32_t index, struct vb_report *report)
{
	enum vb_reason reason;

	if (turn->checked && turn->checked_index == index)
		return VB_OK;
	reason = vb_path_check_sges(turn->wired->qp, wqe, 0, turn->sge, &turn->sge_count, report);
	turn->checked = !reason;
	turn->checked_index = index;
	return reason;
}

/* UC: a packet that was sent is done. */
static void sent_is_done(struct vb_wired *wired)
{
	wired->req.una_psn = wired->req.next_psn;
	vb_requester_advance(wired);
}

static bool turn_step(struct vb_requester_turn *turn)
{
	struct vb_wired *wired = turn->wired;
	struct vb_requester *req = &wired->req;
	struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, req->cursor);
	uint32_t rate_kbps = atomic_load_explicit(&wired->qp->rate_kbps, memory_order_relaxed);
	struct vb_report report = { 0 };
	enum vb_reason reason;

	if (req->cursor == req->begun)
		return vb_requester_begin(turn, wqe);
	if (vb_wr_reads(wqe->opcode))
		return vb_requester_read(turn, wqe);
	if (vb_requester_reliable(wired) && !vb_requester_may_send(turn))
		return false;
	if (!vb_requester_reliable(wired) && !vb_requester_pace_all(wired))
		return false;
	if (__builtin_expect(rate_kbps, 0) && !vb_requester_pace(wired, wqe, rate_kbps))
		return false;
	reason = vb_requester_memory(turn, wqe, req->cursor, &report);
	/* The memory may be deregistered, or unmapped, since the WQE began. */
	if (!reason && !send_next(turn, wqe))
		reason = VB_WHY_LOCAL_MEMORY;
	if (reason) {
		vb_requester_stop(wired, reason, &report);
		return false;
	}
	if (!vb_requester_reliable(wired))
		sent_is_done(wired);
	return true;
}

static void requester_start(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	vb_answers_clear(&req->answers);
	*req = (struct vb_requester){
		.started = true,
		.tried = req->tried,
		.resend_ns = VB_NEVER_NS,
	};
	req->una_psn = req->next_psn = req->sent_psn = req->tail_psn = wired->qp->attr.sq_psn;
	req->acked_psn = req->una_psn;
	req->cursor = req->begun = wired->qp->sq.next;
	vb_congestion_init(&req->congestion, wired->mtu);
}

static void requester_flush(struct vb_wired *wired, uint32_t end)
{
	struct vb_requester *req = &wired->req;

	vb_path_flush(wired->qp, end, &wired->notice);
	req->cursor = req->begun = wired->qp->sq.next;
	req->una_psn = req->next_psn = req->sent_psn = req->acked_psn = req->tail_psn;
	req->reads_head = req->reads_tail;
	req->asked_head = req->asked_tail;
	req->stop = VB_OK;
	req->tried = req->suspect = false;
	req->rnr_ns = 0;
	req->resend_ns = VB_NEVER_NS;
	req->probing = req->recovering = req->timing = false;
	vb_repair_forget(&req->repair);
	vb_answers_clear(&req->answers);
	req->parts_due = req->parts_silent = false;
	vb_requester_account(wired);
	vb_requester_set_timer(wired);
}

/* Behind the WQEs that are posted, and enabled where they have to be. */
static uint32_t sq_posted(struct vb_qp *qp)
{
	uint32_t end;

	vb_spin_lock(&qp->sq.lock);
	end = vb_qp_sends_end(qp);
	vb_spin_unlock(&qp->sq.lock);
	return end;
}

static bool turn_run(struct vb_wired *wired, uint32_t end)
{
	struct vb_requester_turn turn; /* not zeroed as a whole: its list of elements is large */

	turn.wired = wired;
	turn.budget = VB_TURN_PACKETS;
	turn.starved = false;
	turn.checked = false;
	turn.end = end;
	if (wired->req.parts_due)
		vb_requester_ask_parts(&turn);
	if (!vb_repair_due(&wired->req.repair) || vb_repair_run(&turn))
		while (turn.budget && wired->req.cursor != end && turn_step(&turn))
			;
	vb_requester_drained(wired);
	vb_requester_account(wired);
	if (turn.starved)
		vb_roce_starve(wired);
	return !turn.budget && (wired->req.cursor != end || vb_repair_due(&wired->req.repair));
}

bool vb_requester_due(struct vb_wired *wired)
{
	enum ibv_qp_state state = vb_qp_state(wired->qp);

	return (state != IBV_QPS_RTS && state != IBV_QPS_SQD) ||
	       vb_repair_due(&wired->req.repair) || wired->req.parts_due ||
	       wired->req.cursor != sq_posted(wired->qp);
}

/* The reason for which the requester does not send what was posted. */
static enum vb_trace_wait wait_of(const struct vb_wired *wired)
{
	const struct vb_requester *req = &wired->req;
	const uint32_t out = vb_requester_in_flight(req);

	if (req->rnr_ns || (req->rnr_cautious && out))
		return VB_TRACE_NO_RECEIVE;
	if (out && req->overdue_psn == req->una_psn && req->overdue)
		return VB_TRACE_PEER;
	if (req->cursor == sq_posted(wired->qp))
		return VB_TRACE_GOES_ON;
	if (req->delayed_ns > wired->roce->now_ns)
		return VB_TRACE_RULE;
	if (req->pace_ns > wired->roce->now_ns)
		return VB_TRACE_RATE;
	if (out >= vb_congestion_window(&req->congestion))
		return VB_TRACE_WINDOW;
	return vb_share_full(&wired->roce->share) ? VB_TRACE_SHARE : VB_TRACE_GOES_ON;
}

static void wait_trace(struct vb_wired *wired)
{
	const enum vb_trace_wait why = wait_of(wired);

	if (!vb_requester_reliable(wired) || why == wired->req.traced)
		return;
	wired->req.traced = why;
	vb_trace_waits(wired->qp, why);
}

static bool run(struct vb_wired *wired)
{
	enum ibv_qp_state state = vb_qp_state(wired->qp);
	uint32_t end = sq_posted(wired->qp);

	if (state == IBV_QPS_ERR)
		vb_place_give_back(wired);
	if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
		requester_flush(wired, end);
		return false;
	}
	if (!wired->req.started && (state == IBV_QPS_RTS || state == IBV_QPS_SQD))
		requester_start(wired);
	if ((state != IBV_QPS_RTS && state != IBV_QPS_SQD) || wired->req.rnr_ns)
		return false;
	return turn_run(wired, end);
}

bool vb_requester_run(struct vb_wired *wired)
{
	const bool more = run(wired);

	if (vb_captured() && !more)
		wait_trace(wired);
	return more;
}

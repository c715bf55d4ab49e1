/* SPDX-License-Identifier: BSD-2-Clause */
/* READ and ATOMIC requests: their number under way, their pieces and their repetition. */
#include <string.h>

#include "nic/migrate.h"
#include "nic/qp_ext.h"
#include "path/roce/requester.h"

static void note_read(struct vb_requester *req, uint32_t count)
{
	req->reads[req->reads_tail++ % VB_RD_ATOMIC_MAX] =
		(struct vb_read_request){ req->next_psn, count };
}

void vb_requester_forget_reads(struct vb_requester *req, uint32_t psn)
{
	while (vb_requester_reads_out(req)) {
		const struct vb_read_request *last =
			&req->reads[(req->reads_tail - 1) % VB_RD_ATOMIC_MAX];

		if (vb_psn_diff(vb_psn_add(last->psn, last->count), psn) <= 0)
			break;
		req->reads_tail--;
	}
}

/* The request that asked for psn first; NULL: none did. */
static struct vb_read_asked *asked_for(struct vb_requester *req, uint32_t psn)
{
	for (uint32_t i = req->asked_head; i != req->asked_tail; i++) {
		struct vb_read_asked *asked = &req->asked[i % VB_RD_ATOMIC_MAX];

		if (vb_psn_diff(psn, asked->psn) >= 0 && vb_psn_diff(psn, asked->end_psn) < 0)
			return asked;
	}
	return NULL;
}

static struct vb_read_asked *asked_before(struct vb_requester *req)
{
	return asked_for(req, req->next_psn);
}

static void note_asked(struct vb_requester *req, uint32_t count)
{
	struct vb_read_asked *asked = asked_before(req);
	uint32_t end_psn = vb_psn_add(req->next_psn, count);

	if (asked && vb_psn_diff(req->next_psn, asked->cut_psn) >= 0)
		asked->cut_psn = end_psn;
	else if (asked && asked->cut_psn == asked->end_psn)
		asked->cut_psn = end_psn;
	else if (!asked && req->asked_tail - req->asked_head < VB_RD_ATOMIC_MAX)
		req->asked[req->asked_tail++ % VB_RD_ATOMIC_MAX] = (struct vb_read_asked){
			.psn = req->next_psn,
			.end_psn = end_psn,
			.cut_psn = end_psn,
		};
}

/* True: a part of this request was asked for again, and its answer has not come. */
static bool asked_part_is_out(const struct vb_requester *req, const struct vb_read_asked *asked)
{
	const struct vb_read_request *last = &req->reads[(req->reads_tail - 1) % VB_RD_ATOMIC_MAX];

	return vb_requester_reads_out(req) && vb_psn_diff(last->psn, asked->psn) >= 0;
}

/* Either of two requests may have arrived first: a repetition must be a part of both. */
static uint32_t asked_repeatable(const struct vb_requester *req, const struct vb_read_asked *asked)
{
	bool cut = vb_psn_diff(req->next_psn, asked->cut_psn) < 0;

	return (uint32_t)vb_psn_diff(cut ? asked->cut_psn : asked->end_psn, req->next_psn);
}

/*
 * The peer's path MTU may differ, which only an answer of several packets shows: its first packet
 * has another length. So the first piece has two packets. Otherwise a READ that went out again in
 * pieces of one packet would pass.
 */
static uint32_t read_piece_least(const struct vb_requester *req, const struct vb_wqe *wqe)
{
	uint32_t least = vb_congestion_window(&req->congestion) / 4;

	if (req->next_psn == wqe->psn && least < 2)
		return 2;
	return least ? least : 1;
}

/*
 * A long READ is asked for in pieces that fit into the window, because the answers fill the
 * network. Pieces are not tiny, because each one takes one of the peer's resources.
 */
static uint32_t read_piece(struct vb_wired *wired, const struct vb_wqe *wqe)
{
	struct vb_requester *req = &wired->req;
	uint32_t rest = wqe->psn_count - (uint32_t)vb_psn_diff(req->next_psn, wqe->psn);
	uint32_t window = vb_congestion_window(&req->congestion);
	uint32_t out = vb_requester_in_flight(req);
	uint32_t room = window > out ? window - out : 0, least = read_piece_least(req, wqe);
	const struct vb_read_asked *asked = asked_before(req);

	if (asked && asked_part_is_out(req, asked))
		return 0;
	if (asked)
		rest = asked_repeatable(req, asked);
	if (room >= rest)
		return rest;
	if (room >= least)
		return room;
	return out ? 0 : least; /* with a window of one packet the first piece is longer */
}

/* A suspect request must change nothing, as its answer cannot be stored; the peer only checks
 * it. */
static bool request_is_suspect(const struct vb_requester *req, uint32_t index)
{
	return req->suspect && index + 1 == req->begun;
}

static void fill_read(const struct vb_wired *wired, const struct vb_wqe *wqe, uint32_t count,
		      struct vb_packet *packet)
{
	uint64_t offset = (uint64_t)vb_psn_diff(packet->psn, wqe->psn) * wired->mtu;
	uint64_t rest = wqe->length - offset, part = (uint64_t)count * wired->mtu;

	packet->opcode = VB_OP_READ_REQUEST | vb_requester_transport(wired);
	packet->va += offset;
	packet->dma_length = (uint32_t)(part < rest ? part : rest);
}

static void fill_atomic(const struct vb_wired *wired, const struct vb_wqe *wqe, bool suspect,
			struct vb_packet *packet)
{
	bool compares = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP && !suspect;

	packet->opcode = (uint8_t)((compares ? VB_OP_COMPARE_SWAP : VB_OP_FETCH_ADD) |
				   vb_requester_transport(wired));
	if (suspect)
		return;
	packet->compare = compares ? wqe->operand[0] : 0;
	packet->swap_add = wqe->operand[compares ? 1 : 0];
}

static void fill_flush(const struct vb_wired *wired, const struct vb_wqe *wqe,
		       struct vb_packet *packet)
{
	packet->opcode = VB_OP_FLUSH | vb_requester_transport(wired);
	packet->dma_length = (uint32_t)wqe->operand[0];
	packet->flush = (uint32_t)wqe->operand[1];
}

/* ATOMIC WRITE: the one request with an answer of its own that has payload. False: the memory of
 * the payload is not mapped any more. */
static bool send_payload(struct vb_requester_turn *turn, struct vb_packet *packet)
{
	struct vb_wired *wired = turn->wired;

	packet->opcode = VB_OP_ATOMIC_WRITE | vb_requester_transport(wired);
	packet->payload_length = packet->dma_length = VB_ATOMIC_WRITE_LENGTH;
	if (!vb_path_gather(turn->sge, turn->sge_count, 0, packet->payload_length,
			    vb_tx_begin(&wired->roce->tx, &wired->way, packet))) {
		vb_tx_cancel(&wired->roce->tx);
		return false;
	}
	vb_tx_end(&wired->roce->tx);
	return true;
}

/* Extended atomics carry their operands as payload. Without masks a suspect one changes nothing. */
static void send_masked(struct vb_wired *wired, const struct vb_wqe *wqe, bool suspect,
			struct vb_packet *packet)
{
	struct vb_masked op = *vb_wqe_masked(wqe);

	if (suspect)
		memset(op.operand, 0, sizeof(op.operand));
	packet->opcode =
		(uint8_t)(VB_TRANSPORT_VENDOR |
			  (op.compare_swap ? VB_OP_MASKED_COMPARE_SWAP : VB_OP_MASKED_FETCH_ADD));
	packet->dma_length = op.width;
	packet->payload_length = (uint32_t)vb_masked_emit(&op, NULL);
	vb_masked_emit(&op, vb_tx_begin(&wired->roce->tx, &wired->way, packet));
	vb_tx_end(&wired->roce->tx);
}

/* Completes the packet by its family, and sends it. False: memory of the WQE is missing. */
static bool request_fill(struct vb_requester_turn *turn, uint32_t index, uint32_t count,
			 struct vb_packet *packet)
{
	struct vb_wired *wired = turn->wired;
	const struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, index);

	switch (vb_wr_row(wqe->opcode)->family) {
	case VB_FAMILY_READ_REQUEST:
		fill_read(wired, wqe, count, packet);
		break;
	case VB_FAMILY_ATOMIC:
		fill_atomic(wired, wqe, request_is_suspect(&wired->req, index), packet);
		break;
	case VB_FAMILY_ATOMIC_WRITE:
		return send_payload(turn, packet);
	case VB_FAMILY_FLUSH:
		fill_flush(wired, wqe, packet);
		break;
	case VB_FAMILY_MASKED:
		send_masked(wired, wqe, request_is_suspect(&wired->req, index), packet);
		return true;
	}
	vb_tx_packet(&wired->roce->tx, &wired->way, packet);
	return true;
}

/* Sends a request, which always asks for an answer. False: memory of the WQE is missing. */
static bool send_request(struct vb_requester_turn *turn, uint32_t index, uint32_t psn,
			 uint32_t count)
{
	struct vb_wired *wired = turn->wired;
	const struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, index);
	struct vb_packet packet = {
		.migreq = vb_qp_migreq(wired->qp),
		.ack_request = true,
		.pkey = vb_qp_pkey(wired->qp),
		.dest_qpn = wired->qp->attr.dest_qp_num,
		.psn = psn,
		.va = wqe->remote_addr,
		.rkey = wqe->rkey,
		.srqn = wqe->srqn,
	};

	return request_fill(turn, index, count, &packet);
}

/* VB_OK, or a reason: the memory was deregistered, or unmapped, since the WQE began. */
static enum vb_reason request_send(struct vb_requester_turn *turn, uint32_t index, uint32_t psn,
				   uint32_t count, struct vb_report *report)
{
	const struct vb_wqe *wqe = vb_sq_wqe(&turn->wired->qp->sq, index);
	enum vb_reason reason = VB_OK;

	if (!vb_wr_returns(wqe->opcode))
		reason = vb_requester_memory(turn, wqe, index, report);
	if (!reason && !send_request(turn, index, psn, count))
		reason = VB_WHY_LOCAL_MEMORY;
	return reason;
}

bool vb_requester_read(struct vb_requester_turn *turn, const struct vb_wqe *wqe)
{
	struct vb_requester *req = &turn->wired->req;
	bool reads = vb_wr_row(wqe->opcode)->family == VB_FAMILY_READ_REQUEST;
	uint32_t most = turn->wired->qp->attr.max_rd_atomic, count;
	struct vb_report report = { 0 };
	enum vb_reason reason;

	if (req->reads_tail - req->reads_head >= (most ? most : 1))
		return false;
	count = reads ? read_piece(turn->wired, wqe) : 1;
	if (!count || !vb_requester_may_send(turn))
		return false;
	reason = request_send(turn, req->cursor, req->next_psn, count, &report);
	if (reason) {
		vb_requester_stop(turn->wired, reason, &report);
		return false;
	}
	if (reads)
		note_asked(req, count);
	note_read(req, count);
	vb_requester_sent(turn, wqe, count, true);
	return true;
}

/* --- what was lost --- */

/* A peer that has not executed the request gets the same request again, and never a part of it. */
enum vb_reason vb_requester_read_again(struct vb_requester_turn *turn, uint32_t index, uint32_t psn,
				       uint32_t *count, struct vb_report *report)
{
	struct vb_wired *wired = turn->wired;
	struct vb_requester *req = &wired->req;
	const struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, index);
	const struct vb_read_asked *asked = asked_for(req, psn);

	*count = 1;
	if (vb_wr_row(wqe->opcode)->family != VB_FAMILY_READ_REQUEST)
		return request_send(turn, index, psn, 1, report);
	if (!asked || asked->psn != psn || vb_psn_diff(req->acked_psn, psn) > 0) {
		req->parts_due = true;
		vb_requester_ask_parts(turn);
		return VB_OK;
	}
	*count = (uint32_t)vb_psn_diff(asked->end_psn, psn);
	return request_send(turn, index, psn, *count, report);
}

bool vb_requester_una_reads(const struct vb_wired *wired)
{
	for (uint32_t i = wired->qp->sq.next; i != wired->req.begun; i++) {
		const struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, i);

		if (wqe->psn_count)
			return vb_wr_row(wqe->opcode)->family == VB_FAMILY_READ_REQUEST;
	}
	return false;
}

/* The first PSN of a request whose answer is missing; its end: none. */
static uint32_t first_missing(const struct vb_requester *req, const struct vb_read_asked *asked)
{
	uint32_t psn = vb_psn_diff(req->una_psn, asked->psn) > 0 ? req->una_psn : asked->psn;

	while (psn != asked->end_psn && vb_answers_has(&req->answers, psn))
		psn = vb_psn_add(psn, 1);
	return psn;
}

/*
 * The end of the PSNs from psn on whose answers are lost: later answers, or an ACK, have come.
 * After silence all that were asked for and are not there count as lost. The peer may have got the
 * part that was asked for last instead of the whole request.
 */
static uint32_t missing_end(const struct vb_requester *req, const struct vb_read_asked *asked,
			    uint32_t psn)
{
	const bool all = req->parts_silent || vb_psn_diff(req->acked_psn, asked->end_psn) > 0;
	const bool cut = vb_psn_diff(psn, asked->cut_psn) < 0;
	const uint32_t last_psn = cut ? asked->cut_psn : asked->end_psn;
	uint32_t end_psn = psn;

	while (end_psn != last_psn && !vb_answers_has(&req->answers, end_psn) &&
	       (all || (req->answers.count && vb_psn_diff(end_psn, req->answers.end_psn) < 0)))
		end_psn = vb_psn_add(end_psn, 1);
	return end_psn;
}

/* The WQE of a READ that has this PSN. */
static uint32_t read_index(const struct vb_wired *wired, uint32_t psn)
{
	uint32_t i = wired->qp->sq.next;

	for (; i != wired->req.begun; i++) {
		const struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, i);

		if (wqe->psn_count && vb_psn_diff(psn, vb_psn_add(wqe->psn, wqe->psn_count)) < 0)
			break;
	}
	return i;
}

/*
 * One part of a request at a time: some responders forget the parts before the last one that was
 * repeated.
 */
static void ask_part(struct vb_requester_turn *turn, struct vb_read_asked *asked)
{
	struct vb_wired *wired = turn->wired;
	struct vb_requester *req = &wired->req;
	const uint64_t now_ns = wired->roce->now_ns;
	uint32_t psn = first_missing(req, asked), end_psn = missing_end(req, asked, psn);
	uint32_t index = read_index(wired, psn);
	struct vb_report report = { 0 };
	bool again;

	if (end_psn == psn || index == req->begun || vb_psn_diff(psn, req->next_psn) >= 0)
		return;
	again = asked->part_ns && vb_psn_diff(psn, asked->part_end_psn) < 0;
	if (again && !req->parts_silent &&
	    now_ns - asked->part_ns < vb_congestion_patience_ns(&req->congestion, now_ns))
		return;
	request_send(turn, index, psn, (uint32_t)vb_psn_diff(end_psn, psn), &report);
	if (!again && !req->parts_silent)
		vb_requester_lost(wired, (uint32_t)vb_psn_diff(end_psn, psn));
	wired->counters.retransmits++;
	if (req->timing && vb_psn_diff(req->timed_psn, psn) >= 0)
		req->timing = false;
	req->part = (struct vb_gap){ psn, end_psn };
	asked->part_end_psn = asked->cut_psn = end_psn;
	asked->part_ns = now_ns;
	turn->budget -= turn->budget != 0;
}

void vb_requester_ask_parts(struct vb_requester_turn *turn)
{
	struct vb_requester *req = &turn->wired->req;

	for (uint32_t i = req->asked_head; i != req->asked_tail; i++) {
		ask_part(turn, &req->asked[i % VB_RD_ATOMIC_MAX]);
		if (req->parts_silent) /* one question is enough to end the silence */
			break;
	}
	req->parts_due = req->parts_silent = false;
}

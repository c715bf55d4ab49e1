/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester: turns work requests into packets, within windows, and sends them again. */
#include "base/clock.h"
#include "path/fault/fault.h"
#include "path/roce/roce.h"

enum {
	ASK_EVERY = 16,            /* packets: ask for an ACK at least this often */
	BACKOFF_MAX_NS = 1000000000,
	GIVE_UP_MIN_NS = 200000000, /* a peer without hardware answers when it is given a CPU */
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
	[IBV_WR_RDMA_READ] = { 0, 0, 0, VB_OP_READ_REQUEST },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { 0, 0, 0, VB_OP_COMPARE_SWAP },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { 0, 0, 0, VB_OP_FETCH_ADD },
};

/* What one run knows about the WQE that it is at. */
struct run {
	struct vb_wired *wired;
	unsigned budget;
	bool starved;       /* others have the whole share */
	uint32_t end;       /* of what is posted */
	bool checked;       /* sge is that of the WQE at the cursor */
	uint32_t checked_index;
	struct ibv_sge sge[VB_SGE_MAX];
	unsigned sge_count;
};

static bool reliable(const struct vb_wired *wired)
{
	return wired->qp->type == IBV_QPT_RC;
}

static uint32_t packets_of(const struct vb_wired *wired, uint32_t length)
{
	return length ? (length + wired->mtu - 1) / wired->mtu : 1;
}

static uint32_t in_flight(const struct vb_requester *req)
{
	return (uint32_t)vb_psn_diff(req->next_psn, req->una_psn);
}

static void account(struct vb_wired *wired)
{
	vb_roce_account(wired, reliable(wired) ? (uint64_t)in_flight(&wired->req) * wired->mtu : 0);
}

static bool reads_out(const struct vb_requester *req)
{
	return req->reads_head != req->reads_tail;
}

static void start(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	*req = (struct vb_requester){
		.started = true,
		.tried = req->tried,
		.resend_ns = VB_NEVER_NS,
	};
	req->una_psn = req->next_psn = req->sent_psn = req->tail_psn = wired->qp->attr.sq_psn;
	req->cursor = req->begun = wired->qp->sq.next;
	vb_congestion_init(&req->congestion, wired->mtu);
}

/* --- waiting --- */

static uint64_t give_up_ns(const struct vb_wired *wired)
{
	const struct ibv_qp_attr *attr = &wired->qp->attr;
	uint64_t patience_ns;

	if (!attr->timeout)
		return VB_NEVER_NS;
	patience_ns = (attr->retry_cnt + 1ull) * (4096ull << attr->timeout);
	return wired->req.stalled_ns +
	       (patience_ns < GIVE_UP_MIN_NS ? (uint64_t)GIVE_UP_MIN_NS : patience_ns);
}

static void set_timer(struct vb_wired *wired)
{
	const struct vb_requester *req = &wired->req;

	vb_timer_set(&wired->roce->timers, &wired->timer, req->rnr_ns ? req->rnr_ns : req->resend_ns);
}

static void wait_for_answer(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	uint64_t give_up = give_up_ns(wired);

	req->resend_ns = wired->roce->now_ns + req->backoff_ns;
	if (req->resend_ns > give_up)
		req->resend_ns = give_up;
	set_timer(wired);
}

/* As configured; but a timeout below the round trip would only fill the path with repetitions. */
static uint64_t backoff_max_ns(const struct vb_wired *wired)
{
	uint64_t least_ns = 4 * vb_congestion_patience_ns(&wired->req.congestion);
	uint64_t most_ns = wired->qp->attr.timeout ? 4096ull << wired->qp->attr.timeout :
						     BACKOFF_MAX_NS;

	if (most_ns < least_ns)
		most_ns = least_ns;
	return most_ns < BACKOFF_MAX_NS ? most_ns : BACKOFF_MAX_NS;
}

static void set_backoff(struct vb_wired *wired, uint64_t backoff_ns)
{
	uint64_t most_ns = backoff_max_ns(wired);

	wired->req.backoff_ns = backoff_ns < most_ns ? backoff_ns : most_ns;
}

void vb_requester_rearm(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	account(wired);
	if (req->una_psn == req->sent_psn) {
		req->resend_ns = VB_NEVER_NS;
		set_timer(wired);
		return;
	}
	req->stalled_ns = wired->roce->now_ns;
	set_backoff(wired, vb_congestion_patience_now_ns(&req->congestion));
	wait_for_answer(wired);
}

static void silence(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	wired->counters.timeouts++;
	if (!req->probing) {
		req->probing = true;
		req->probe_psn = req->sent_psn;
	}
	vb_congestion_timeout(&req->congestion);
	vb_share_lost(&wired->roce->share, wired->roce->now_ns);
	req->recovering = false;
	vb_requester_go_back(wired, req->una_psn);
	set_backoff(wired, 2 * req->backoff_ns);
	wait_for_answer(wired);
}

static bool peer_ended(const struct vb_wired *wired)
{
	return wired->way.peer && atomic_load(&wired->way.peer->state) == VB_PEER_GONE;
}

void vb_requester_timer(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	uint64_t now_ns = wired->roce->now_ns;
	enum ibv_qp_state state = vb_qp_state(wired->qp);

	/* It has failed already, and what is left is going to be flushed. */
	if (state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return;
	if (req->rnr_ns) {
		if (now_ns < req->rnr_ns) {
			set_timer(wired);
			return;
		}
		req->rnr_ns = 0;
		vb_requester_rearm(wired);
		return;
	}
	if (req->resend_ns == VB_NEVER_NS)
		return;
	if (now_ns < req->resend_ns)
		set_timer(wired);
	else if (peer_ended(wired))
		vb_completer_fail(wired, VB_PEER_ENDED);
	else if (now_ns >= give_up_ns(wired))
		vb_completer_fail(wired, VB_PEER_SILENT);
	else
		silence(wired);
}

/* --- going back --- */

static void drop_reads_from(struct vb_requester *req, uint32_t psn)
{
	while (reads_out(req)) {
		const struct vb_read_request *last =
			&req->reads[(req->reads_tail - 1) % VB_RD_ATOMIC_MAX];

		if (vb_psn_diff(vb_psn_add(last->psn, last->count), psn) <= 0)
			break;
		req->reads_tail--;
	}
}

/* The cursor follows next_psn: to the first WQE that is not sent up to it. */
static void place_cursor(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	const struct vb_sq *sq = &wired->qp->sq;

	for (req->cursor = sq->next; req->cursor != req->begun; req->cursor++) {
		const struct vb_wqe *wqe = vb_sq_wqe(sq, req->cursor);

		if (wqe->psn_count &&
		    vb_psn_diff(req->next_psn, vb_psn_add(wqe->psn, wqe->psn_count)) < 0)
			break;
	}
}

void vb_requester_go_back(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;

	req->next_psn = psn;
	req->timing = false;
	req->unasked = 0;
	req->back_ns = wired->roce->now_ns;
	drop_reads_from(req, psn);
	place_cursor(wired);
	account(wired);
	vb_roce_todo(wired);
}

/* --- the head of the queue --- */

static void complete(struct vb_wired *wired, enum vb_reason reason, struct vb_report *report)
{
	vb_path_complete(wired->qp, reason, report, &wired->notice);
}

static void drained(struct vb_wired *wired)
{
	struct vb_qp *qp = wired->qp;

	if (qp->sq.next != wired->req.begun || wired->req.tried ||
	    vb_qp_state(qp) != IBV_QPS_SQD || !qp->sqd_event_due)
		return;
	qp->sqd_event_due = false;
	vb_qp_raise(qp, IBV_EVENT_SQ_DRAINED);
}

void vb_requester_advance(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	struct vb_sq *sq = &wired->qp->sq;
	struct vb_report report = { 0 };

	while (sq->next != req->begun) {
		const struct vb_wqe *wqe = vb_sq_wqe(sq, sq->next);

		if (wqe->psn_count &&
		    vb_psn_diff(req->una_psn, vb_psn_add(wqe->psn, wqe->psn_count)) < 0)
			break;
		if (req->cursor == sq->next)
			req->cursor++;
		sq->reads_executed += vb_opcode_reads(wqe->opcode);
		complete(wired, VB_OK, &report);
	}
	if (req->stop && sq->next == req->begun)
		vb_completer_fail(wired, req->stop);
	wired->qp->pend.why = sq->next != req->begun ? VB_PEND_WIRE : VB_PEND_NONE;
	drained(wired);
}

/* --- beginning a work request --- */

static enum vb_reason check(struct run *run, const struct vb_wqe *wqe, struct vb_report *report)
{
	bool reads = vb_opcode_reads(wqe->opcode);

	if (wqe->opcode > IBV_WR_SEND_WITH_INV || (!reliable(run->wired) &&
	    (reads || wqe->opcode == IBV_WR_SEND_WITH_INV)))
		return VB_OPCODE_TRANSPORT;
	report->want = VB_MSG_MAX;
	if (wqe->length > VB_MSG_MAX)
		return VB_LENGTH_MAX;
	if (vb_opcode_reads(wqe->opcode) && wqe->opcode != IBV_WR_RDMA_READ && wqe->length != 8)
		return VB_ATOMIC_SGE;
	return VB_OK;
}

static bool check_memory(struct run *run, const struct vb_wqe *wqe, uint32_t index,
			 enum vb_reason *reason, struct vb_report *report)
{
	if (run->checked && run->checked_index == index)
		return true;
	*reason = vb_path_local(run->wired->qp, wqe, 0, run->sge, &run->sge_count, report);
	run->checked = !*reason;
	run->checked_index = index;
	return !*reason;
}

/* Executed here and now; it completes in its turn. */
static bool stay(struct run *run, struct vb_wqe *wqe)
{
	struct vb_requester *req = &run->wired->req;
	enum vb_reason reason;

	req->stop_report = (struct vb_report){ 0 };
	reason = vb_path_stay(run->wired->qp, wqe, &req->stop_report);
	if (reason) {
		req->stop = reason;
		vb_requester_advance(run->wired);
		return false;
	}
	wqe->psn_count = 0;
	req->begun++;
	req->cursor++;
	vb_requester_advance(run->wired);
	return true;
}

/* Of a READ or ATOMIC the remote error wins: it goes out even if its answer cannot be taken in. */
static enum vb_reason check_own(struct run *run, const struct vb_wqe *wqe)
{
	struct vb_requester *req = &run->wired->req;
	enum vb_reason reason = VB_OK;
	struct vb_report report;

	if (!vb_opcode_reads(wqe->opcode)) {
		check_memory(run, wqe, req->begun, &reason, &req->stop_report);
		return reason;
	}
	run->checked = false;
	req->suspect = vb_path_local(run->wired->qp, wqe, IBV_ACCESS_LOCAL_WRITE, run->sge,
				     &run->sge_count, &report);
	return VB_OK;
}

/* What fault rules do to a work request that is about to begin. False: it does not, now. */
static bool fault(struct vb_wired *wired, const struct vb_wqe *wqe, struct vb_fault_verdict *verdict)
{
	struct vb_requester *req = &wired->req;

	if (req->delayed == req->begun + 1ull) /* that was it */
		return true;
	vb_fault_wr(wired->qp->ibv.qp_num, wired->qp->attr.dest_qp_num, wqe->opcode, true, verdict);
	switch (verdict->action) {
	case VB_FAULT_DELAY:
		req->delayed = req->begun + 1ull;
		req->rnr_ns = wired->roce->now_ns + verdict->delay_ns;
		set_timer(wired);
		return false;
	case VB_FAULT_FAIL:
		req->stop = VB_INJECTED_STATUS;
		req->stop_report.status = verdict->status;
		req->stop_report.want = verdict->rule;
		vb_requester_advance(wired);
		return false;
	case VB_FAULT_FATAL:
		wired->roce->fatal = true;
		return false;
	default: /* the others are for packets, or come later */
		return true;
	}
}

/* As if every packet of the message that was just begun had been lost on the way. */
static void lose(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	req->next_psn = req->sent_psn = req->tail_psn;
	req->cursor = req->begun;
	if (!reliable(wired)) {
		req->una_psn = req->next_psn;
		vb_requester_advance(wired);
	} else if (req->resend_ns == VB_NEVER_NS) {
		vb_requester_rearm(wired);
	}
}

static bool begin(struct run *run, struct vb_wqe *wqe)
{
	struct vb_wired *wired = run->wired;
	struct vb_fault_verdict verdict = { 0 };
	struct vb_requester *req = &wired->req;
	enum vb_reason reason;

	if ((vb_qp_state(wired->qp) == IBV_QPS_SQD && !req->tried) || req->stop || req->suspect)
		return false;
	if (wqe->fenced && reads_out(req))
		return false;
	req->stop_report = (struct vb_report){ 0 };
	if (__builtin_expect(vb_fault_any(), 0) && !fault(wired, wqe, &verdict))
		return false;
	if (vb_opcode_stays(wqe->opcode))
		return stay(run, wqe);
	reason = check(run, wqe, &req->stop_report);
	if (!reason)
		reason = check_own(run, wqe);
	if (reason) {
		req->stop = reason;
		vb_requester_advance(wired);
		return false;
	}
	wqe->psn = req->tail_psn;
	wqe->psn_count = vb_opcode_reads(wqe->opcode) && wqe->opcode != IBV_WR_RDMA_READ ?
				 1 :
				 packets_of(wired, wqe->length);
	req->tail_psn = vb_psn_add(req->tail_psn, wqe->psn_count);
	req->begun++;
	req->tried = false;
	wired->qp->pend.why = VB_PEND_WIRE;
	if (verdict.action == VB_FAULT_DROP)
		lose(wired);
	return true;
}

/* --- packets --- */

static void sent(struct vb_wired *wired, uint32_t count, bool asks)
{
	struct vb_requester *req = &wired->req;
	uint32_t psn = req->next_psn;
	bool again = vb_psn_diff(psn, req->sent_psn) < 0;

	req->next_psn = vb_psn_add(psn, count);
	wired->counters.retransmits += again;
	if (vb_psn_diff(req->next_psn, req->sent_psn) > 0)
		req->sent_psn = req->next_psn;
	req->unasked = asks ? 0 : req->unasked + count;
	if (asks && !again && !req->timing) {
		req->timing = true;
		req->timed_psn = vb_psn_add(req->next_psn, VB_PSN_MASK);
		req->timed_ns = wired->roce->now_ns;
	}
	/* Nothing was out before: silence begins now. */
	if (req->resend_ns == VB_NEVER_NS && reliable(wired))
		vb_requester_rearm(wired);
}

/* On to the next that has packets: what stays here was executed when it was begun. */
static void pass_cursor(struct vb_wired *wired, const struct vb_wqe *wqe)
{
	struct vb_requester *req = &wired->req;

	if (vb_psn_diff(req->next_psn, vb_psn_add(wqe->psn, wqe->psn_count)) < 0)
		return;
	do
		req->cursor++;
	while (req->cursor != req->begun && !vb_sq_wqe(&wired->qp->sq, req->cursor)->psn_count);
}

/*
 * Ask on the last packet of a message that somebody waits for, every now and then in between, and
 * always where we cannot go on without an answer.
 */
static bool asks(const struct run *run, const struct vb_wqe *wqe, bool last)
{
	const struct vb_requester *req = &run->wired->req;

	if (!reliable(run->wired))
		return false;
	if (last && (wqe->signaled || req->cursor + 1 == run->end))
		return true;
	return req->unasked + 1 >= ASK_EVERY || run->budget <= 1 || req->rnr_cautious ||
	       in_flight(req) + 1 >= vb_congestion_window(&req->congestion) ||
	       run->wired->roce->share.used_bytes + 2 * run->wired->mtu >=
		       run->wired->roce->share.limit_bytes;
}

static void send_packet(struct run *run, const struct vb_wqe *wqe)
{
	struct vb_wired *wired = run->wired;
	uint32_t index = (uint32_t)vb_psn_diff(wired->req.next_psn, wqe->psn);
	uint64_t offset = (uint64_t)index * wired->mtu;
	bool first = !index, last = index + 1 == wqe->psn_count;
	const struct shape *shape = &shapes[wqe->opcode];
	uint8_t operation = first && last ? shape->only :
			    first	  ? shape->first :
			    last	  ? shape->last :
					    shape->middle;
	struct vb_packet packet = {
		.opcode = (uint8_t)(operation | (reliable(wired) ? VB_TRANSPORT_RC : VB_TRANSPORT_UC)),
		.solicited = last && wqe->solicited,
		.migreq = true,
		.ack_request = asks(run, wqe, last),
		.pkey = 0xffff,
		.dest_qpn = wired->qp->attr.dest_qp_num,
		.psn = wired->req.next_psn,
		.va = wqe->remote_addr,
		.rkey = wqe->rkey,
		.dma_length = wqe->length,
		.imm = wqe->imm,
		.invalidate_rkey = wqe->imm,
		.payload_length = last ? wqe->length - (uint32_t)offset : wired->mtu,
	};

	vb_path_gather(run->sge, run->sge_count, offset, packet.payload_length,
		       vb_tx_begin(&wired->roce->tx, &wired->way, &packet));
	vb_tx_end(&wired->roce->tx);
	sent(wired, 1, packet.ack_request);
	pass_cursor(wired, wqe);
	run->budget--;
}

static void note_read(struct vb_requester *req, uint32_t count)
{
	req->reads[req->reads_tail++ % VB_RD_ATOMIC_MAX] =
		(struct vb_read_request){ req->next_psn, count };
}

/* The request that next_psn was first asked for with; NULL: it never was. */
static struct vb_read_asked *asked_before(struct vb_requester *req)
{
	for (uint32_t i = req->asked_head; i != req->asked_tail; i++) {
		struct vb_read_asked *asked = &req->asked[i % VB_RD_ATOMIC_MAX];

		if (vb_psn_diff(req->next_psn, asked->psn) >= 0 &&
		    vb_psn_diff(req->next_psn, asked->end_psn) < 0)
			return asked;
	}
	return NULL;
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

/* Unsolicited or not, READs and ATOMICs are always answered. */
static void send_request(struct run *run, const struct vb_wqe *wqe, uint32_t count)
{
	struct vb_wired *wired = run->wired;
	uint64_t offset = (uint64_t)vb_psn_diff(wired->req.next_psn, wqe->psn) * wired->mtu;
	uint64_t rest = wqe->length - offset, part = (uint64_t)count * wired->mtu;
	struct vb_packet packet = {
		.opcode = (uint8_t)(shapes[wqe->opcode].only | VB_TRANSPORT_RC),
		.migreq = true,
		.ack_request = true,
		.pkey = 0xffff,
		.dest_qpn = wired->qp->attr.dest_qp_num,
		.psn = wired->req.next_psn,
		.va = wqe->remote_addr + offset,
		.rkey = wqe->rkey,
		.dma_length = (uint32_t)(part < rest ? part : rest),
		.compare = wqe->operand[0],
		.swap_add = wqe->operand[1],
	};

	if (wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		packet.swap_add = wqe->operand[0];
		packet.compare = 0;
	}
	/* Its answer cannot be taken in, so it must not change anything; but it is checked there. */
	if (wired->req.suspect && wired->req.cursor + 1 == wired->req.begun &&
	    wqe->opcode != IBV_WR_RDMA_READ) {
		packet.opcode = VB_OP_FETCH_ADD | VB_TRANSPORT_RC;
		packet.swap_add = packet.compare = 0;
	}
	vb_tx_packet(&wired->roce->tx, &wired->way, &packet);
	if (wqe->opcode == IBV_WR_RDMA_READ)
		note_asked(&wired->req, count);
	note_read(&wired->req, count);
	sent(wired, count, true);
	pass_cursor(wired, wqe);
	run->budget--;
}

/* A part of this request was asked for again, and the answer is not there. */
static bool part_out(const struct vb_requester *req, const struct vb_read_asked *asked)
{
	return reads_out(req) && vb_psn_diff(req->reads[(req->reads_tail - 1) % VB_RD_ATOMIC_MAX].psn,
					     asked->psn) >= 0;
}

/* Either request may be the one that arrived first: a repetition is a part of both. */
static uint32_t repeatable(const struct vb_requester *req, const struct vb_read_asked *asked)
{
	bool cut = vb_psn_diff(req->next_psn, asked->cut_psn) < 0;

	return (uint32_t)vb_psn_diff(cut ? asked->cut_psn : asked->end_psn, req->next_psn);
}

/*
 * A long READ is asked for in pieces that fit into the window: it is the answers that fill the
 * path. Not in tiny ones, for each takes one of the peer's resources.
 */
static uint32_t read_piece(struct vb_wired *wired, const struct vb_wqe *wqe)
{
	struct vb_requester *req = &wired->req;
	uint32_t rest = wqe->psn_count - (uint32_t)vb_psn_diff(req->next_psn, wqe->psn);
	uint32_t window = vb_congestion_window(&req->congestion), out = in_flight(req);
	uint32_t room = window > out ? window - out : 0, least = window / 4 ? window / 4 : 1;
	const struct vb_read_asked *asked = asked_before(req);

	if (asked && part_out(req, asked))
		return 0;
	if (asked)
		rest = repeatable(req, asked);
	if (room >= rest)
		return rest;
	return room >= least ? room : 0;
}

/* Who probes after a long silence has next to nothing on its way, and its time runs. */
static bool may_send(struct run *run)
{
	const struct vb_requester *req = &run->wired->req;

	if (in_flight(req) >= vb_congestion_window(&req->congestion) ||
	    (req->rnr_cautious && in_flight(req)))
		return false;
	run->starved = vb_share_full(&run->wired->roce->share) && !req->probing;
	if (!run->starved)
		account(run->wired);
	return !run->starved;
}

static bool send_read(struct run *run, const struct vb_wqe *wqe)
{
	struct vb_requester *req = &run->wired->req;
	uint32_t most = run->wired->qp->attr.max_rd_atomic, count;

	if (req->reads_tail - req->reads_head >= (most ? most : 1))
		return false;
	count = wqe->opcode == IBV_WR_RDMA_READ ? read_piece(run->wired, wqe) : 1;
	if (!count || !may_send(run))
		return false;
	send_request(run, wqe, count);
	return true;
}

/* UC: sent is done. */
static void forget_sent(struct vb_wired *wired)
{
	wired->req.una_psn = wired->req.next_psn;
	vb_requester_advance(wired);
}

static bool step(struct run *run)
{
	struct vb_wired *wired = run->wired;
	struct vb_requester *req = &wired->req;
	struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, req->cursor);
	struct vb_report report = { 0 };
	enum vb_reason reason = VB_OK;

	if (req->cursor == req->begun)
		return begin(run, wqe);
	if (vb_opcode_reads(wqe->opcode))
		return send_read(run, wqe);
	if (reliable(wired) && !may_send(run))
		return false;
	if (!check_memory(run, wqe, req->cursor, &reason, &report)) {
		/* Deregistered since it was begun: it can never be sent again. */
		req->stop_report = report;
		vb_completer_fail(wired, reason);
		return false;
	}
	send_packet(run, wqe);
	if (!reliable(wired))
		forget_sent(wired);
	return true;
}

static void flush(struct vb_wired *wired, uint32_t end)
{
	struct vb_requester *req = &wired->req;

	vb_path_flush(wired->qp, end, &wired->notice);
	req->cursor = req->begun = wired->qp->sq.next;
	req->una_psn = req->next_psn = req->sent_psn = req->tail_psn;
	req->reads_head = req->reads_tail;
	req->asked_head = req->asked_tail;
	req->stop = VB_OK;
	req->suspect = false;
	req->rnr_ns = 0;
	req->resend_ns = VB_NEVER_NS;
	req->probing = req->recovering = req->timing = false;
	account(wired);
	set_timer(wired);
}

static uint32_t posted(struct vb_qp *qp)
{
	uint32_t tail;

	vb_spin_lock(&qp->sq.lock);
	tail = qp->sq.tail;
	vb_spin_unlock(&qp->sq.lock);
	return tail;
}

bool vb_requester_run(struct vb_wired *wired)
{
	enum ibv_qp_state state = vb_qp_state(wired->qp);
	struct run run; /* not zeroed as a whole: its scatter list is large */

	run.wired = wired;
	run.budget = VB_TURN_PACKETS;
	run.starved = false;
	run.checked = false;
	run.end = posted(wired->qp);
	if (state == IBV_QPS_ERR)
		vb_place_give_back(wired);
	if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
		flush(wired, run.end);
		return false;
	}
	if (!wired->req.started && (state == IBV_QPS_RTS || state == IBV_QPS_SQD))
		start(wired);
	if ((state != IBV_QPS_RTS && state != IBV_QPS_SQD) || wired->req.rnr_ns)
		return false;
	while (run.budget && wired->req.cursor != run.end && step(&run))
		;
	drained(wired);
	account(wired);
	if (run.starved)
		vb_roce_starve(wired);
	return !run.budget && wired->req.cursor != run.end;
}

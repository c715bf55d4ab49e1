/* SPDX-License-Identifier: BSD-2-Clause */
/* WQEs of a connected QP begin here, with checks and PSNs, and end at the queue's head. */
#include "base/adversary.h"
#include "base/clock.h"
#include "base/probe.h"
#include "capture/ring.h"
#include "nic/nic.h"
#include "nic/qp_ext.h"
#include "nic/trace.h"
#include "path/fault/fault.h"
#include "path/roce/requester.h"

/* --- the head of the queue --- */

void vb_requester_drained(struct vb_wired *wired)
{
	struct vb_qp *qp = wired->qp;

	if (qp->sq.next != wired->req.begun || wired->req.tried || vb_qp_state(qp) != IBV_QPS_SQD ||
	    !atomic_exchange(&qp->sqd_event_due, false))
		return;
	vb_path_tell(qp, &wired->notice);
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
		if (vb_captured())
			vb_trace_done(wired->qp, sq->next, sq->next + 1);
		vb_path_complete(wired->qp, VB_OK, &report, &wired->notice);
	}
	/* The suspect WQE is done: its memory came back in time. */
	if (sq->next == req->begun)
		req->suspect = false;
	if (req->stop && sq->next == req->begun)
		vb_completer_fail_as(wired, req->stop, req->stop_report);
	atomic_store_explicit(&wired->qp->pend.why,
			      sq->next != req->begun || req->tried ? VB_PEND_WIRE : VB_PEND_NONE,
			      memory_order_relaxed);
	vb_requester_drained(wired);
}

/* The WQE at begun cannot be sent; it fails once all WQEs before it are done. */
static void stop_next(struct vb_wired *wired, enum vb_reason reason)
{
	wired->req.stop = reason;
	vb_requester_advance(wired);
}

/*
 * The WQE at the cursor, and WQEs behind it, may have begun: they no longer count as begun,
 * whatever packets of them were sent. WQEs before it may still be answered, and complete as usual.
 */
void vb_requester_stop(struct vb_wired *wired, enum vb_reason reason,
		       const struct vb_report *report)
{
	struct vb_requester *req = &wired->req;

	req->begun = req->cursor;
	req->suspect = false;
	req->stop_report = *report;
	stop_next(wired, reason);
}

/* --- beginning a work request --- */

static enum vb_reason wqe_check(const struct vb_wired *wired, const struct vb_wqe *wqe,
				struct vb_report *report)
{
	const struct vb_wr_row *row = vb_wr_row(wqe->opcode);

	if (!vb_wr_on(row, wired->qp->type))
		return VB_WHY_OPCODE_TRANSPORT;
	if (wqe->length > VB_MSG_MAX)
		return VB_WHY_LENGTH_MAX;
	if (row->flags & VB_WR_WORD && wqe->length != 8)
		return row->flags & VB_WR_RETURNS ? VB_WHY_ATOMIC_SGE : VB_WHY_ATOMIC_WRITE_SGE;
	if (__builtin_expect(row->family == VB_FAMILY_MASKED, 0) &&
	    wqe->length != vb_wqe_masked(wqe)->width) {
		report->want = vb_wqe_masked(wqe)->width;
		return VB_WHY_MASKED_SGE;
	}
	return VB_OK;
}

/* For a READ or ATOMIC the remote error wins: it is sent even if its answer cannot be stored. */
static enum vb_reason wqe_check_memory(struct vb_requester_turn *turn, const struct vb_wqe *wqe)
{
	struct vb_requester *req = &turn->wired->req;
	struct vb_report report;
	enum vb_reason reason;

	if (!vb_wr_returns(wqe->opcode)) {
		reason = vb_requester_memory(turn, wqe, req->begun, &req->stop_report);
		if (!reason && !vb_path_present(turn->sge, turn->sge_count, false))
			reason = VB_WHY_LOCAL_MEMORY;
		return reason;
	}
	turn->checked = false;
	req->suspect = vb_path_check_sges(turn->wired->qp, wqe, IBV_ACCESS_LOCAL_WRITE, turn->sge,
					  &turn->sge_count, &report) ||
		       !vb_path_present(turn->sge, turn->sge_count, true);
	return VB_OK;
}

/* The WQE waits for completions of a CQ. It counts as tried, so SQD lets it finish. */
static bool wqe_wait(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	const uint64_t now_ns = wired->roce->now_ns;

	if (!req->tried || req->waited != req->begun + 1ull) {
		req->waited = req->begun + 1ull;
		req->waited_ns = now_ns;
	}
	req->tried = true;
	atomic_store_explicit(&wired->qp->pend.why, VB_PEND_CQE, memory_order_relaxed);
	req->pace_ns = now_ns + vb_cross_pause_ns(now_ns - req->waited_ns);
	vb_requester_set_timer(wired);
	return false;
}

/* Executes a WQE that stays in this process; it completes in post order. */
static bool wqe_stay(struct vb_wired *wired, struct vb_wqe *wqe)
{
	struct vb_requester *req = &wired->req;
	enum vb_reason reason;

	req->stop_report = (struct vb_report){ 0 };
	reason = vb_path_stay(wired->qp, wqe, &req->stop_report);
	if (reason == VB_WHY_CQE_WAIT)
		return wqe_wait(wired);
	req->tried = false;
	if (atomic_load_explicit(&wired->qp->nic->enable_due, memory_order_relaxed))
		vb_nic_ring(wired->qp->nic);
	if (reason) {
		stop_next(wired, reason);
		return false;
	}
	wqe->psn_count = 0;
	req->begun++;
	req->cursor++;
	vb_requester_advance(wired);
	return true;
}

static uint32_t wqe_psns(const struct vb_wired *wired, const struct vb_wqe *wqe)
{
	return wqe->length ? (wqe->length + wired->mtu - 1) / wired->mtu : 1;
}

static void wqe_take_psns(struct vb_wired *wired, struct vb_wqe *wqe)
{
	struct vb_requester *req = &wired->req;

	VB_PROBE(begin, wired->qp->ibv.qp_num, wqe->wr_id);
	wqe->psn = req->tail_psn;
	wqe->psn_count = wqe_psns(wired, wqe);
	req->tail_psn = vb_psn_add(req->tail_psn, wqe->psn_count);
	if (vb_captured())
		vb_path_capture_psns(wired->qp, wqe, req->begun,
				     (struct vb_psn_range){ wqe->psn, wqe->psn_count });
	req->begun++;
	atomic_store_explicit(&wired->qp->pend.why, VB_PEND_WIRE, memory_order_relaxed);
}

/* During the delay earlier packets are acknowledged, or sent again. */
static bool delay_is_over(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	if (wired->roce->now_ns >= req->delayed_ns)
		return true;
	req->pace_ns = req->delayed_ns;
	vb_requester_set_timer(wired);
	return false;
}

/* Holds the WQE at begun. It counts as tried, so SQD lets it finish. True: the time is over. */
static bool wqe_hold(struct vb_wired *wired, uint64_t for_ns)
{
	struct vb_requester *req = &wired->req;

	req->tried = true;
	atomic_store_explicit(&wired->qp->pend.why, VB_PEND_WIRE, memory_order_relaxed);
	req->delayed = req->begun + 1ull;
	req->delayed_ns = wired->roce->now_ns + for_ns;
	return delay_is_over(wired);
}

/* The wait before the next try; 0: there is none, and there is no other path. */
static uint64_t lost_wait_ns(struct vb_wired *wired)
{
	const struct vb_qp *qp = wired->qp;
	const uint64_t timeout_ns = vb_qp_timeout_ns(qp), patience_ns = vb_qp_patience_ns(qp);
	struct vb_requester *req = &wired->req;
	uint64_t wait_ns = vb_fault_lost_wait_ns(req->lost_waited_ns, timeout_ns, patience_ns);

	if (wait_ns || !vb_roce_migrate(wired))
		return wait_ns;
	req->lost_waited_ns = 0;
	return vb_fault_lost_wait_ns(0, timeout_ns, patience_ns);
}

/*
 * A reliable message gets lost before it has PSNs: earlier messages are not held up, and the peer
 * would only drop later ones. For the rules each try is a new one.
 */
static void wqe_lose(struct vb_wired *wired, unsigned rule)
{
	struct vb_requester *req = &wired->req;
	const uint64_t wait_ns = lost_wait_ns(wired);

	if (wait_ns) {
		req->lost_waited_ns += wait_ns;
		wqe_hold(wired, wait_ns);
		return;
	}
	req->tried = false;
	req->stop_report.want = rule;
	stop_next(wired, VB_WHY_INJECTED_LOSS);
}

/* Fault rules judge a WQE that is about to begin. False: the WQE does not begin now. */
static bool wqe_fault(struct vb_wired *wired, const struct vb_wqe *wqe,
		      struct vb_fault_verdict *verdict)
{
	struct vb_requester *req = &wired->req;
	const uint64_t number = req->begun + 1ull;

	if (req->delayed != number)
		req->lost_waited_ns = 0;
	else if (!delay_is_over(wired))
		return false;
	else if (!req->lost_waited_ns)
		return true;
	/* The local path has judged this WQE, before it knew that the WQE goes by wire. */
	if (wired->qp->pend.judged == number)
		return true;
	vb_fault_wr(wired->qp->ibv.qp_num, wired->qp->attr.dest_qp_num, wqe->opcode, true, verdict);
	if (verdict->action == VB_FAULT_NONE && vb_adversary_on())
		vb_fault_adverse_wr(wired->qp, wqe, req->begun, true, verdict);
	if (verdict->action == VB_FAULT_DROP && vb_requester_reliable(wired)) {
		wqe_lose(wired, verdict->rule);
		return false;
	}
	req->lost_waited_ns = 0;
	switch (verdict->action) {
	case VB_FAULT_DELAY:
		return wqe_hold(wired, verdict->delay_ns);
	case VB_FAULT_FAIL:
		req->tried = false;
		req->stop_report.status = verdict->status;
		req->stop_report.want = verdict->rule;
		stop_next(wired, VB_WHY_INJECTED_STATUS);
		return false;
	case VB_FAULT_FATAL:
		wired->roce->fatal = true;
		return false;
	default: /* other actions are for packets, or follow later */
		return true;
	}
}

/* UC: as if the network had lost every packet of the message that has just begun. */
static void wqe_lose_silently(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	req->una_psn = req->next_psn = req->sent_psn = req->tail_psn;
	req->cursor = req->begun;
	vb_requester_advance(wired);
}

static bool wqe_may_begin(const struct vb_wired *wired, const struct vb_wqe *wqe)
{
	const struct vb_requester *req = &wired->req;

	if ((vb_qp_state(wired->qp) == IBV_QPS_SQD && !req->tried) || req->stop || req->suspect)
		return false;
	return !(wqe->fenced && vb_requester_reads_out(req));
}

bool vb_requester_begin(struct vb_requester_turn *turn, struct vb_wqe *wqe)
{
	struct vb_wired *wired = turn->wired;
	struct vb_report *report = &wired->req.stop_report;
	struct vb_fault_verdict verdict = { 0 };
	enum vb_reason reason;

	if (!wqe_may_begin(wired, wqe))
		return false;
	*report = (struct vb_report){ 0 };
	if (__builtin_expect(vb_fault_any(), 0) && !wqe_fault(wired, wqe, &verdict))
		return false;
	if (vb_wr_stays(wqe->opcode))
		return wqe_stay(wired, wqe);
	wired->req.tried = false; /* the WQE begins or fails now: begun and stop tell the rest */
	reason = wqe_check(wired, wqe, report);
	if (!reason)
		reason = wqe_check_memory(turn, wqe);
	if (reason) {
		stop_next(wired, reason);
		return false;
	}
	wqe_take_psns(wired, wqe);
	if (verdict.action == VB_FAULT_DROP)
		wqe_lose_silently(wired);
	return true;
}

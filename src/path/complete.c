/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/complete.h"

#include "base/clock.h"
#include "base/probe.h"
#include "capture/ring.h"
#include "nic/comp_cntr.h"
#include "nic/managed.h"
#include "nic/tm.h"
#include "nic/trace.h"
#include "path/bounce.h"
#include "wire/packet.h"

void vb_path_capture_psns(const struct vb_qp *qp, const struct vb_wqe *wqe, uint32_t index,
			  struct vb_psn_range psns)
{
	const struct vb_capture_note note = { .wr_id = wqe->wr_id,
					      .qpn = qp->ibv.qp_num,
					      .psn = psns.first,
					      .psn_count = psns.count,
					      .opcode = wqe->opcode };

	if (vb_captures(VB_WANT_PACKETS))
		vb_capture_tell(VB_CAPTURE_PSNS, &note, NULL);
	if (wqe == vb_sq_wqe(&qp->sq, index))
		vb_trace_begun(qp, wqe, index, vb_psn_add(psns.first, psns.count - 1));
}

/* The CQ has no room for the completion: no other one is overwritten, and the QP fails. */
__attribute__((cold, noinline)) static void cq_overrun(struct vb_qp *qp, const struct vb_wqe *wqe)
{
	qp->sq.hold = VB_SQ_STUCK;
	qp->failure = (struct vb_failure){ vb_now_ns(), wqe->wr_id, VB_WHY_CQ_OVERRUN,
					   IBV_WC_LOC_QP_OP_ERR, wqe->opcode };
	vb_path_explain_overrun(qp, wqe);
	vb_peer_attend(qp->nic->self, VB_ATTN_CQ);
	if (vb_qp_enter_error(qp))
		vb_qp_raise(qp, IBV_EVENT_QP_FATAL);
}

/* Stamps and counts the completion of the WQE before next, as its CQ asks. False: CQ overrun. */
static bool completion_account(struct vb_qp *qp, const struct vb_wqe *wqe, uint32_t asks)
{
	struct vb_sq *sq = &qp->sq;

	if (asks & (VB_CQ_ORDERED | VB_CQ_PAIR))
		sq->stamps[(sq->next - 1) & sq->mask] = vb_qp_send_stamp(qp, asks);
	return !(asks & VB_CQ_COUNTS) || wqe->status == IBV_WC_WR_FLUSH_ERR ||
	       vb_cq_account(qp->send_cq->shared);
}

/*
 * The queue is held. True: the WQE before next completes nevertheless. A late one is taken back:
 * the executor meets it again, and vb_path_complete_late ends it.
 */
__attribute__((cold, noinline)) static bool completes_held(struct vb_qp *qp,
							   const struct vb_wqe *wqe)
{
	struct vb_sq *sq = &qp->sq;
	struct vb_pend *pend = &qp->pend;

	if (sq->hold == VB_SQ_STUCK)
		return false;
	sq->hold = VB_SQ_FLOWS;
	if (wqe->status != IBV_WC_SUCCESS)
		return true;
	sq->next--;
	pend->executed = sq->next + 1ull;
	pend->next_ns = vb_now_ns() + pend->late_ns;
	atomic_store_explicit(&pend->why, VB_PEND_DELAYED, memory_order_relaxed);
	return false;
}

/* The steps that few queues need when a work request completes. */
__attribute__((cold, noinline)) static void attend(struct vb_qp *qp, struct vb_wqe *wqe)
{
	if (qp->slow_sends & VB_SENDS_BOUNCED)
		vb_bounce_end(qp, wqe);
	if (qp->slow_sends & VB_SENDS_COUNTED)
		vb_comp_cntr_send(qp, wqe);
}

/*
 * Makes everything before next visible to the poller. True: the WQE has a completion, as `visible`
 * says, and it was published. Inline, because every work request of a list goes through here.
 */
__attribute__((always_inline)) static inline bool publish(struct vb_qp *qp, struct vb_wqe *wqe,
							  bool visible)
{
	struct vb_sq *sq = &qp->sq;
	const uint32_t asks = visible ? vb_cq_own_asks(qp->send_cq) : 0;

	if (__builtin_expect(wqe->internal, 0)) /* before the WQE's place is free */
		vb_tm_rndv_done(qp, wqe);
	if (__builtin_expect(qp->slow_sends, 0))
		attend(qp, wqe);
	VB_PROBE(complete, qp->ibv.qp_num, wqe->wr_id, wqe->status);
	sq->next++;
	atomic_store_explicit(&sq->offset, 0, memory_order_relaxed);
	atomic_store_explicit(&qp->pend.why, VB_PEND_NONE, memory_order_relaxed);
	if (__builtin_expect(sq->hold, 0) && !completes_held(qp, wqe))
		return false;
	if (asks && !completion_account(qp, wqe, asks)) {
		cq_overrun(qp, wqe);
		return false;
	}
	/* Pairs with the load in cq_queue.c. */
	atomic_store_explicit(&sq->done, sq->next, memory_order_release);
	if (asks & VB_CQ_NUMBERS)
		vb_cq_trail_mark(qp->send_cq, sq->stamps[(sq->next - 1) & sq->mask], qp->sends.bit);
	if (__builtin_expect(atomic_load_explicit(&sq->internal, memory_order_relaxed), 0))
		vb_tm_rndv_retire(qp);
	return visible;
}

/* The same for a WQE of any status. */
__attribute__((cold, noinline)) static void publish_any(struct vb_qp *qp, struct vb_wqe *wqe,
							struct vb_notice *notice)
{
	const bool failed = wqe->status != IBV_WC_SUCCESS;

	if (!publish(qp, wqe, wqe->signaled || (failed && !wqe->internal)))
		return;
	notice->due = true;
	notice->error |= failed;
}

void vb_path_tell(struct vb_qp *qp, struct vb_notice *notice)
{
	const struct vb_notice told = *notice;

	*notice = (struct vb_notice){ 0 };
	if (!told.due)
		return;
	/* Between the completions and vb_cq_notify: pairs with the fences in vb_cq_req_notify and
	 * cq_ready.c. */
	atomic_thread_fence(memory_order_seq_cst);
	vb_cq_notify(qp->send_cq, qp->sends.bit, told.error);
}

static inline void count_bytes(struct vb_qp *qp, const struct vb_wqe *wqe)
{
	vb_sq_count(vb_wr_returns(wqe->opcode) ? &qp->sq.bytes_read : &qp->sq.bytes_out,
		    wqe->length);
}

/*
 * Pollers see, in this order: state ERR, the failed completion, flushed receives or
 * LAST_WQE_REACHED. A CQ of many queues has nothing to see before it is told.
 */
__attribute__((cold, noinline)) static void publish_failure(struct vb_qp *qp, struct vb_wqe *wqe,
							    struct vb_notice *notice)
{
	bool held;

	qp->failure = (struct vb_failure){ vb_now_ns(), wqe->wr_id, wqe->reason, wqe->status,
					   wqe->opcode };
	held = vb_qp_reliable(qp) && vb_qp_enter_error_held(qp);

	if (!vb_qp_reliable(qp))
		vb_qp_enter_sqe(qp);
	publish_any(qp, wqe, notice);
	if (!held)
		return;
	vb_path_tell(qp, notice);
	vb_qp_release_flush(qp);
}

/* A WQE with another reason than VB_OK, which has a status of its own. */
__attribute__((cold, noinline)) static void complete_with(struct vb_qp *qp, struct vb_wqe *wqe,
							  enum vb_reason reason,
							  struct vb_report *report,
							  struct vb_notice *notice)
{
	wqe->status = (uint8_t)(reason == VB_WHY_INJECTED_STATUS ? report->status
								 : vb_reason_row(reason)->status);
	wqe->reason = (uint8_t)reason;
	vb_path_explain(qp, reason, report);
	vb_ah_put(wqe->ah);
	wqe->ah = NULL;
	if (wqe->status != IBV_WC_SUCCESS) {
		publish_failure(qp, wqe, notice);
		return;
	}
	count_bytes(qp, wqe);
	publish_any(qp, wqe, notice);
}

void vb_path_complete(struct vb_qp *qp, enum vb_reason reason, struct vb_report *report,
		      struct vb_notice *notice)
{
	struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, qp->sq.next);

	if (__builtin_expect(reason != VB_OK, 0)) {
		complete_with(qp, wqe, reason, report, notice);
		return;
	}
	wqe->status = IBV_WC_SUCCESS;
	wqe->reason = VB_OK;
	if (wqe->ah) {
		vb_ah_put(wqe->ah);
		wqe->ah = NULL;
	}
	count_bytes(qp, wqe);
	notice->due |= publish(qp, wqe, wqe->signaled);
}

void vb_path_complete_late(struct vb_qp *qp, struct vb_notice *notice)
{
	qp->pend.executed = 0;
	publish_any(qp, vb_sq_wqe(&qp->sq, qp->sq.next), notice);
}

void vb_path_flush(struct vb_qp *qp, uint32_t end, struct vb_notice *notice)
{
	if (qp->sq.next != end)
		vb_path_explain_flush(qp);
	while (qp->sq.next != end) {
		struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, qp->sq.next);

		wqe->status = IBV_WC_WR_FLUSH_ERR;
		wqe->reason = VB_OK;
		vb_ah_put(wqe->ah);
		wqe->ah = NULL;
		publish_any(qp, wqe, notice);
	}
	if (qp->slow_sends & VB_SENDS_MANAGED)
		vb_managed_flushed(qp, end);
}

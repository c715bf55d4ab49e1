/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/recv.h"
#include "path/local/step.h"

void vb_step_explain(struct vb_step_context *step, enum vb_reason reason)
{
	const struct vb_wqe *wqe = step->wqe;
	struct vb_report *report = &step->report;

	report->reason = reason;
	report->qpn = step->qp->ibv.qp_num;
	report->wr_id = wqe->wr_id;
	report->opcode = wqe->opcode;
	report->peer_qpn = step->qp->type == IBV_QPT_UD ? wqe->remote_qpn :
							  step->qp->attr.dest_qp_num;
	if (!report->length)
		report->length = wqe->length;
	vb_report_explain(report);
}

/* The completion cannot be delivered: nothing is overwritten, the QP is finished. */
static void overrun(struct vb_step_context *step)
{
	struct vb_qp *qp = step->qp;

	qp->sq.stuck = true;
	vb_step_explain(step, VB_CQ_OVERRUN);
	vb_peer_attend(qp->nic->self, VB_ATTN_CQ);
	if (vb_qp_enter_error(qp))
		vb_qp_raise(qp, IBV_EVENT_QP_FATAL);
}

/* Makes everything before next visible to the poller. */
static void publish(struct vb_step_context *step, const struct vb_wqe *wqe)
{
	struct vb_sq *sq = &step->qp->sq;
	bool visible = wqe->signaled || wqe->status != IBV_WC_SUCCESS;

	sq->next++;
	sq->offset = 0;
	step->qp->pend.why = VB_PEND_NONE;
	if (sq->stuck)
		return;
	if (visible && wqe->status != IBV_WC_WR_FLUSH_ERR &&
	    !vb_cq_account(step->qp->send_cq->shared)) {
		overrun(step);
		return;
	}
	/* Pairs with the load in poll_sq. */
	atomic_store_explicit(&sq->done, sq->next, memory_order_release);
	step->run->notify |= visible;
	step->run->notify_error |= wqe->status != IBV_WC_SUCCESS;
}

static void fail_qp(struct vb_qp *qp)
{
	if (qp->type == IBV_QPT_RC)
		vb_qp_enter_error(qp);
	else
		vb_qp_enter_sqe(qp);
}

enum vb_step vb_step_complete(struct vb_step_context *step, enum vb_reason reason)
{
	struct vb_wqe *wqe = step->wqe;

	wqe->status = (uint8_t)vb_reason_row(reason)->status;
	wqe->reason = (uint8_t)reason;
	if (wqe->ah) {
		vb_ah_put(wqe->ah);
		wqe->ah = NULL;
	}
	if (__builtin_expect(reason != VB_OK, 0)) {
		vb_step_explain(step, reason);
		if (wqe->status != IBV_WC_SUCCESS) {
			fail_qp(step->qp);
			vb_step_leave(step);
		}
	}
	publish(step, wqe);
	return VB_STEP_NEXT;
}

enum vb_step vb_step_refuse(struct vb_step_context *step, enum vb_reason reason, bool quiet)
{
	struct vb_remote *remote = &step->qp->remote;

	/* UC and UD have no way to tell the sender: the message is dropped and counted. */
	if (step->qp->type != IBV_QPT_RC) {
		atomic_fetch_add(&remote->entry->dropped, 1);
		vb_step_explain(step, reason);
		if (reason == VB_RECV_KEY || reason == VB_RECV_MEMORY ||
		    reason == VB_TARGET_CQ_OVERRUN)
			vb_target_fail(remote, reason, quiet);
		return vb_step_complete(step, VB_OK);
	}
	vb_target_fail(remote, reason, quiet);
	return vb_step_complete(step, reason);
}

void vb_step_flush(struct vb_step_context *step)
{
	struct vb_sq *sq = &step->qp->sq;

	while (sq->next != step->run->end) {
		step->wqe = vb_sq_wqe(sq, sq->next);
		step->wqe->status = IBV_WC_WR_FLUSH_ERR;
		step->wqe->reason = VB_OK;
		vb_ah_put(step->wqe->ah);
		step->wqe->ah = NULL;
		publish(step, step->wqe);
	}
}

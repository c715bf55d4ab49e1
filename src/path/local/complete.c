/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a WQE on the local path, for both sides. */
#include "exec/recv.h"
#include "exec/served.h"
#include "path/local/step.h"

enum vb_step vb_step_complete(struct vb_step_context *step, enum vb_reason reason)
{
	if (__builtin_expect(reason == VB_OK, 1)) {
		vb_step_succeed(step);
		return VB_STEP_NEXT;
	}
	if (vb_captured())
		vb_step_capture(step, reason);
	vb_path_complete(step->qp, reason, &step->report, &step->run->notice);
	if (vb_reason_row(reason)->status != IBV_WC_SUCCESS)
		vb_step_leave(step);
	return VB_STEP_NEXT;
}

void vb_local_wake_target(struct vb_qp *qp, bool solicited)
{
	struct vb_cq *cq = qp->send_cq;
	const struct vb_cq_page *pages;

	if (!atomic_load_explicit(&qp->remote.cq->armed, memory_order_relaxed))
		return;
	pages = atomic_load_explicit(&cq->ready_pages, memory_order_acquire);
	if (pages) {
		/* vb_path_tell comes after the whole queue, with the fence and the ready bit. */
		atomic_thread_fence(memory_order_seq_cst);
		vb_cq_set_own_ready(cq, pages, qp->sends.bit);
	}
	vb_recv_raise_event(&qp->remote, solicited);
}

static void refusal_count(const struct vb_step_context *step)
{
	const struct vb_remote *remote = &step->qp->remote;

	switch (vb_wr_row(step->wqe->opcode)->wc_opcode) {
	case IBV_WC_RDMA_READ:
		vb_served_refused(remote->entry, remote->lent, VB_SERVED_READ);
		break;
	case IBV_WC_RDMA_WRITE:
		vb_served_refused(remote->entry, remote->lent, VB_SERVED_WRITE);
		break;
	}
}

enum vb_step vb_step_refuse(struct vb_step_context *step, enum vb_reason reason, bool quiet)
{
	struct vb_remote *remote = &step->qp->remote;

	/* UC and UD have no way to tell the sender: the message is dropped and counted. */
	if (!vb_qp_reliable(step->qp)) {
		atomic_fetch_add(&remote->lent->dropped, 1);
		if (!step->aside)
			vb_path_explain(step->qp, reason, &step->report);
		if (reason == VB_WHY_RECV_KEY || reason == VB_WHY_RECV_MEMORY ||
		    reason == VB_WHY_TARGET_CQ_OVERRUN)
			vb_target_fail(remote, reason, quiet);
		if (step->aside && vb_captured())
			vb_step_capture(step, VB_OK);
		return step->aside ? VB_STEP_NEXT : vb_step_complete(step, VB_OK);
	}
	refusal_count(step);
	vb_target_refuse(remote, reason, quiet, step->report.key,
			 vb_wr_row(step->wqe->opcode)->access);
	if (__builtin_expect(vb_reason_row(reason)->status != IBV_WC_SUCCESS, 1))
		return vb_step_complete(step, reason);
	/* For this reason the sender succeeds. */
	vb_path_explain(step->qp, reason, &step->report);
	return vb_step_complete(step, VB_OK);
}

enum vb_step vb_step_ended(struct vb_step_context *step)
{
	const struct vb_remote *remote = &step->qp->remote;

	return remote->home == remote->peer ? vb_step_complete(step, VB_WHY_PEER_ENDED)
					    : vb_step_refuse(step, VB_WHY_SRQ_UNKNOWN, false);
}

enum vb_step vb_step_denied(struct vb_step_context *step)
{
	struct vb_qp *qp = step->qp;
	struct vb_remote *remote = &qp->remote;

	if (remote->home == remote->peer)
		atomic_store(&remote->peer->denied, true);
	if (atomic_load_explicit(&qp->sq.offset, memory_order_relaxed))
		qp->pend.why = VB_PEND_WIRE; /* the WQE has begun: SQD lets it finish */
	atomic_store_explicit(&qp->sq.offset, 0, memory_order_relaxed);
	return vb_step_not_here(step,
				vb_step_by_packets(step, remote->peer, VB_WHY_PEER_UNTOUCHABLE));
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* FLUSH on a connected QP. Earlier work requests of the queue are done: their bytes are written. */
#include "exec/flush.h"

#include "path/local/step.h"

static enum vb_reason flush_apply(struct vb_step_context *step)
{
	struct vb_remote *remote = &step->qp->remote;
	const struct vb_wqe *wqe = step->wqe;
	const struct vb_flush flush = {
		.feth = (uint32_t)wqe->operand[1],
		.rkey = wqe->rkey,
		.va = wqe->remote_addr,
		.length = wqe->operand[0],
		.qp_access = atomic_load_explicit(&remote->entry->access, memory_order_relaxed),
	};

	step->report.key = flush.rkey;
	step->report.addr = flush.va;
	step->report.length = (uint32_t)flush.length;
	return vb_flush_apply(remote->home, &remote->key_cache, remote->pd, remote->entry->qpn,
			      &flush);
}

enum vb_step vb_step_flush(struct vb_step_context *step)
{
	enum vb_verdict verdict = vb_step_bind(step);
	enum vb_reason reason;

	if (verdict)
		return vb_step_not_here(step, verdict);
	reason = vb_step_depth(step);
	if (!reason)
		reason = flush_apply(step);
	if (reason)
		return vb_step_refuse(step, reason, false);
	return vb_step_complete(step, VB_OK);
}

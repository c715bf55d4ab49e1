/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault rules on WQEs of the local path. */
#include "path/fault/fault.h"

#include "base/adversary.h"
#include "base/clock.h"
#include "path/local/step.h"

static enum vb_step wqe_hold(struct vb_step_context *step, uint64_t until_ns)
{
	struct vb_pend *pend = &step->qp->pend;

	vb_step_leave(step);
	pend->next_ns = until_ns;
	atomic_store(&pend->wake_ns, until_ns);
	return VB_STEP_PEND;
}

static enum vb_step delay(struct vb_step_context *step, uint64_t delay_ns)
{
	step->qp->pend.why = VB_PEND_DELAYED;
	return wqe_hold(step, vb_now_ns() + delay_ns);
}

/* The next steps flush the WQEs that are left in the queue, this one included. */
static enum vb_step fatal(struct vb_step_context *step)
{
	vb_step_leave(step);
	vb_fault_device_fatal(step->qp->nic);
	vb_qp_enter_error(step->qp);
	return VB_STEP_NEXT;
}

static bool apply(struct vb_step_context *step, const struct vb_fault_verdict *verdict,
		  enum vb_step *next)
{
	step->report.want = verdict->rule;
	step->report.status = verdict->status;
	switch (verdict->action) {
	case VB_FAULT_DROP:
		*next = vb_step_lost(step);
		return true;
	case VB_FAULT_DELAY:
		*next = delay(step, verdict->delay_ns);
		return true;
	case VB_FAULT_FAIL:
		*next = vb_step_complete(step, VB_WHY_INJECTED_STATUS);
		return true;
	case VB_FAULT_FATAL:
		*next = fatal(step);
		return true;
	case VB_FAULT_NONE:
	case VB_FAULT_DUPLICATE: /* these actions are for packets: this path has none */
	case VB_FAULT_REORDER:
	case VB_FAULT_CORRUPT:
	case VB_FAULT_ACTION_COUNT:
		break;
	}
	return false;
}

/* Binds as the operation is going to: the verdict tells the path, or that it is not known yet. */
static enum vb_verdict look_ahead(struct vb_step_context *step)
{
	const struct vb_wqe *wqe = step->wqe;

	if (vb_wr_stays(wqe->opcode) || (step->qp->type == IBV_QPT_UD && !wqe->ah))
		return VB_VERDICT_HERE;
	if (step->qp->type != IBV_QPT_UD)
		return vb_step_bind(step);
	return vb_step_bind_datagram(step, wqe->remote_qpn);
}

/* False: the wire judges the WQE, or its path is not known yet. */
static bool is_to_be_judged(struct vb_step_context *step, bool *wire)
{
	const enum vb_verdict verdict = look_ahead(step);

	step->report = (struct vb_report){ 0 };
	*wire = vb_step_by_wire(step, verdict);
	/* The wire judges the WQEs of a QP that it adopts, beginning with this one. */
	return !(*wire && step->qp->type != IBV_QPT_UD) && !vb_step_is_attaching(step, verdict);
}

bool vb_step_fault(struct vb_step_context *step, enum vb_step *next)
{
	struct vb_qp *qp = step->qp;
	struct vb_pend *pend = &qp->pend;
	const struct vb_wqe *wqe = step->wqe;
	const uint64_t number = qp->sq.next + 1ull;
	struct vb_fault_verdict verdict;
	bool wire;

	if ((pend->why == VB_PEND_DELAYED || pend->why == VB_PEND_LOST) &&
	    vb_now_ns() < pend->next_ns) {
		*next = wqe_hold(step, pend->next_ns);
		return true;
	}
	if (pend->executed == number) {
		vb_path_complete_late(qp, &step->run->notice);
		*next = VB_STEP_NEXT;
		return true;
	}
	if (pend->judged == number || !is_to_be_judged(step, &wire))
		return false;
	vb_fault_wr(qp->ibv.qp_num, qp->type == IBV_QPT_UD ? wqe->remote_qpn : qp->attr.dest_qp_num,
		    wqe->opcode, wire, &verdict);
	if (verdict.action == VB_FAULT_NONE && vb_adversary_on())
		vb_fault_adverse_wr(qp, wqe, qp->sq.next, wire, &verdict);
	if (verdict.late_ns) {
		qp->sq.hold = VB_SQ_LATE;
		pend->late_ns = verdict.late_ns;
	}
	/* The rules see each try of a message that gets lost, and any other WQE once. */
	pend->judged = verdict.action == VB_FAULT_DROP ? 0 : number;
	if (apply(step, &verdict, next))
		return true;
	if (pend->why == VB_PEND_LOST)
		pend->why = VB_PEND_NONE;
	return false;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The executor: takes work requests from the send queue in post order. */
#include "base/clock.h"
#include "base/probe.h"
#include "nic/grace.h"
#include "path/fault/fault.h"
#include "path/local/step.h"

typedef enum vb_step (*operation)(struct vb_step_context *step);

/* True: a peer may be using the window as it was. A bind of type 2 finds it unbound. */
static bool window_was_bound(const struct vb_wqe *wqe)
{
	return wqe->opcode == IBV_WR_LOCAL_INV || wqe->bind.mw->ibv.type == IBV_MW_TYPE_1;
}

/* The memory of the window as it was until now. */
static struct vb_ending window_ending(struct vb_nic *nic, const struct vb_wqe *wqe)
{
	const struct vb_key_entry *entry = wqe->opcode == IBV_WR_BIND_MW
						   ? wqe->bind.mw->entry
						   : vb_peer_key(nic->self, wqe->imm, true);

	return entry ? vb_ending_memory(entry->addr, entry->length) : vb_ending_memory(0, 0);
}

/* BIND_MW and LOCAL_INV, in post order, without a peer. Once they complete no peer uses the window
 * as it was. This thread leaves its own hazard before it waits for that. */
static enum vb_step wqe_stay(struct vb_step_context *step)
{
	const struct vb_wqe *wqe = step->wqe;
	const struct vb_ending ending = window_ending(step->qp->nic, wqe);
	enum vb_reason reason;
	uint32_t slot;

	vb_step_leave(step);
	reason = vb_path_stay(step->qp, wqe, &step->report);
	if (!reason && window_was_bound(wqe) && vb_grace_pass(step->qp->nic, &ending, &slot) < 0)
		reason = wqe->opcode == IBV_WR_LOCAL_INV ? VB_WHY_WINDOW_INVALID
							 : VB_WHY_WINDOW_BIND;
	return vb_step_complete(step, reason);
}

/* Those that no peer has to be waited for. */
static enum vb_step wqe_stay_alone(struct vb_step_context *step)
{
	return vb_step_complete(step, vb_path_stay(step->qp, step->wqe, &step->report));
}

/* The engine lets the queues go on that were enabled, once this one has stopped. */
static enum vb_step wqe_enable(struct vb_step_context *step)
{
	vb_step_leave(step);
	step->run->enables = true;
	return wqe_stay_alone(step);
}

static enum vb_step wqe_wait(struct vb_step_context *step)
{
	enum vb_reason reason;

	vb_step_leave(step); /* the CQ is polled, which may take a while */
	reason = vb_path_stay(step->qp, step->wqe, &step->report);
	return reason == VB_WHY_CQE_WAIT ? vb_step_wait_cqe(step) : vb_step_complete(step, reason);
}

static const operation operations[VB_WR_ROWS] = {
	[IBV_WR_SEND] = vb_step_send,
	[IBV_WR_SEND_WITH_IMM] = vb_step_send,
	[IBV_WR_SEND_WITH_INV] = vb_step_send,
	[IBV_WR_RDMA_WRITE] = vb_step_rdma,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = vb_step_write_imm,
	[IBV_WR_RDMA_READ] = vb_step_rdma,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = vb_step_atomic,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = vb_step_atomic,
	[IBV_WR_ATOMIC_WRITE] = vb_step_atomic_write,
	[IBV_WR_FLUSH] = vb_step_flush,
	[IBV_WR_BIND_MW] = wqe_stay,
	[IBV_WR_LOCAL_INV] = wqe_stay,
	[VB_WR_MASKED_CMP_AND_SWP] = vb_step_masked,
	[VB_WR_MASKED_FETCH_AND_ADD] = vb_step_masked,
	[VB_WR_UMR] = wqe_stay_alone,
	[VB_WR_NOP] = wqe_stay_alone,
	[VB_WR_SEND_ENABLE] = wqe_enable,
	[VB_WR_RECV_ENABLE] = wqe_enable,
	[VB_WR_CQE_WAIT] = wqe_wait,
};

/* NULL: the transport does not have the operation, which is LOC_QP_OP_ERR. */
static operation operation_find(enum ibv_qp_type type, uint8_t opcode)
{
	if (!vb_wr_on(vb_wr_row(opcode), type))
		return NULL;
	return type == IBV_QPT_UD && !vb_wr_stays(opcode) ? vb_step_datagram : operations[opcode];
}

static enum vb_step wqe_execute(struct vb_step_context *step)
{
	operation run = operation_find(step->qp->type, step->wqe->opcode);
	enum vb_step next;

	VB_PROBE(begin, step->qp->ibv.qp_num, step->wqe->wr_id);
	if (vb_captured())
		step->begun_ns = vb_now_ns();
	if (vb_fault_any() && vb_step_fault(step, &next))
		return next;
	if (!run)
		return vb_step_complete(step, VB_WHY_OPCODE_TRANSPORT);
	if (step->wqe->length > VB_MSG_MAX)
		return vb_step_complete(step, VB_WHY_LENGTH_MAX);
	return run(step);
}

/* SQD: a WQE that has begun is finished, no other one begins. RESET: a thread waits for the
 * token. */
static bool qp_stops(const struct vb_qp *qp)
{
	enum ibv_qp_state state = vb_qp_state(qp);

	return state == IBV_QPS_RESET || (state == IBV_QPS_SQD && !vb_qp_has_begun(qp));
}

static bool qp_flushes(const struct vb_qp *qp)
{
	enum ibv_qp_state state = vb_qp_state(qp);

	return state == IBV_QPS_ERR || state == IBV_QPS_SQE;
}

static enum vb_run_verdict run_queue(struct vb_step_context *step)
{
	struct vb_run *run = step->run;
	struct vb_sq *sq = &step->qp->sq;

	while (sq->next != run->end) {
		if (qp_flushes(step->qp)) {
			vb_path_flush(step->qp, run->end, &run->notice);
			break;
		}
		if (qp_stops(step->qp))
			break;
		if (run->budget_bytes <= 0)
			return VB_RUN_MORE;
		step->wqe = vb_sq_wqe(sq, sq->next);
		step->report = (struct vb_report){ 0 };
		switch (wqe_execute(step)) {
		case VB_STEP_PEND:
			return VB_RUN_PEND;
		case VB_STEP_WIRE:
			return VB_RUN_WIRE;
		case VB_STEP_NEXT:
		case VB_STEP_AGAIN:
			break;
		}
	}
	return VB_RUN_IDLE;
}

enum vb_run_verdict vb_local_run(struct vb_run *run)
{
	struct vb_step_context step; /* not zeroed as a whole: its list of elements is large */
	enum vb_run_verdict verdict;

	step.run = run;
	step.qp = run->qp;
	step.aside = NULL;
	step.inside = NULL;
	step.since_hazard = 0;
	verdict = run_queue(&step);
	vb_step_leave(&step);
	if (__builtin_expect(run->qp->remote.holds_taken, 0) &&
	    (!run->qp->sq.offset || qp_flushes(run->qp)))
		vb_local_give_back(run->qp);
	return verdict;
}

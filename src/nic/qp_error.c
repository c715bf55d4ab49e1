/* SPDX-License-Identifier: BSD-2-Clause */
/* How a QP fails: the gate closes, the threads inside leave, the queues flush. */
#include <errno.h>

#include "base/barrier.h"
#include "base/log.h"
#include "nic/managed.h"

/* Does the QP have receives of its own to flush? */
static bool has_receives(const struct vb_qp *qp)
{
	return !qp->srq && qp->type != IBV_QPT_XRC_RECV;
}

static void set_flush_ready(struct vb_qp *qp, uint32_t ready)
{
	uint32_t before = atomic_exchange(&qp->receives.flush_ready, ready);

	if (has_receives(qp) && before != ready)
		atomic_fetch_add(&qp->recv_cq->flushing, ready - before);
}

static void flush_ready(struct vb_qp *qp)
{
	set_flush_ready(qp, 1);
	/* This QP does not flush receives of an SRQ; the event says that it takes no more. */
	if (!has_receives(qp)) {
		vb_qp_raise(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
		return;
	}
	vb_managed_release_all(qp);
	/* A post stores its receive and looks at flush_ready without a fence (vb_rq_take_waiting):
	 * the barrier is for both. The fence pairs as the one in vb_path_tell. */
	vb_barrier_others();
	atomic_thread_fence(memory_order_seq_cst);
	if (!vb_rq_empty(qp->rq))
		vb_cq_notify(qp->recv_cq, qp->receives.bit, true);
}

/* Under state_lock. */
static void set_state(struct vb_qp *qp, enum ibv_qp_state state)
{
	atomic_store(&qp->state, state);
	qp->ibv.state = state;
	atomic_store(&qp->entry->gate, vb_qp_gate_in(qp, state));
}

/* True: receives may be flushed at once. Under state_lock. */
static bool flush_begin(struct vb_qp *qp, bool held)
{
	const struct vb_ending ending = vb_ending_qp(qp->ibv.qp_num);
	bool over;

	vb_grace_begin(qp->nic, &qp->flush_grace, &ending, true);
	over = !held && vb_grace_over(&qp->flush_grace);
	qp->flush_pending = !over;
	qp->flush_held = held;
	if (!over)
		vb_nic_flush_count(qp->nic, 1);
	return over;
}

static bool enter_error(struct vb_qp *qp, bool held)
{
	enum ibv_qp_state before;
	bool over;

	vb_spin_lock(&qp->state_lock);
	before = vb_qp_state(qp);
	if (before == IBV_QPS_ERR || before == IBV_QPS_RESET) {
		vb_spin_unlock(&qp->state_lock);
		return false;
	}
	set_state(qp, IBV_QPS_ERR);
	over = flush_begin(qp, held);
	vb_spin_unlock(&qp->state_lock);
	if (over)
		flush_ready(qp);
	return true;
}

bool vb_qp_enter_error(struct vb_qp *qp)
{
	return enter_error(qp, false);
}

bool vb_qp_enter_error_held(struct vb_qp *qp)
{
	return enter_error(qp, true);
}

void vb_qp_release_flush(struct vb_qp *qp)
{
	vb_spin_lock(&qp->state_lock);
	qp->flush_held = false;
	vb_spin_unlock(&qp->state_lock);
	vb_qp_flush_check(qp);
}

/* Posted receives stay where they are, for as long as a thread may write there. */
static void close_failed(struct vb_qp *qp)
{
	vb_spin_lock(&qp->state_lock);
	set_state(qp, IBV_QPS_ERR);
	if (!qp->flush_pending && !atomic_load(&qp->receives.flush_ready))
		flush_begin(qp, false);
	vb_spin_unlock(&qp->state_lock);
}

int vb_qp_close(struct vb_qp *qp, enum ibv_qp_state state)
{
	const struct vb_ending ending = vb_ending_qp(qp->ibv.qp_num);
	uint32_t slot;
	int err;

	vb_spin_lock(&qp->state_lock);
	set_state(qp, state);
	vb_spin_unlock(&qp->state_lock);
	err = vb_grace_pass(qp->nic, &ending, &slot);
	qp->inside = err;
	if (err >= 0)
		return 0;
	close_failed(qp);
	vb_explain(
		"QP 0x%06x: the process with slot %u is stopped while it copies to or from memory "
		"through the QP; continue or end it, then try again",
		qp->ibv.qp_num, slot);
	return -EBUSY;
}

void vb_qp_flush_check(struct vb_qp *qp)
{
	bool over;

	vb_spin_lock(&qp->state_lock);
	over = qp->flush_pending && !qp->flush_held && vb_grace_settled(&qp->flush_grace);
	if (over) {
		qp->flush_pending = false;
		vb_nic_flush_count(qp->nic, -1);
	}
	vb_spin_unlock(&qp->state_lock);
	if (over)
		flush_ready(qp);
}

void vb_qp_flush_cancel(struct vb_qp *qp)
{
	vb_spin_lock(&qp->state_lock);
	if (qp->flush_pending) {
		vb_grace_drop(&qp->flush_grace);
		qp->flush_pending = false;
		vb_nic_flush_count(qp->nic, -1);
	}
	set_flush_ready(qp, 0);
	atomic_store(&qp->flush_posted, true); /* the next flush gets a new stamp */
	vb_spin_unlock(&qp->state_lock);
}

void vb_qp_enter_sqe(struct vb_qp *qp)
{
	vb_spin_lock(&qp->state_lock);
	if (vb_qp_state(qp) == IBV_QPS_RTS || vb_qp_state(qp) == IBV_QPS_SQD) {
		set_state(qp, IBV_QPS_SQE);
	}
	vb_spin_unlock(&qp->state_lock);
}

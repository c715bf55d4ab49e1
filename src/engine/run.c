/* SPDX-License-Identifier: BSD-2-Clause */
/* Executes a send queue: chooses the path, gives the token back, and does the follow-up work. */
#include <sched.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/wire/wire.h"
#include "path/local/local.h"
#include "path/raw/raw.h"

enum {
	ASIDE_LOOK_NS = 100000,  /* time until targets of datagrams are looked at again */
	ASIDE_END_NS = 20000000, /* time that the end of a QP waits for them */
};

static void raise_if_drained(struct vb_run *run)
{
	struct vb_qp *qp = run->qp;

	if (vb_qp_state(qp) != IBV_QPS_SQD || !atomic_exchange(&qp->sqd_event_due, false))
		return;
	vb_path_tell(qp, &run->notice);
	vb_qp_raise(qp, IBV_EVENT_SQ_DRAINED);
}

/* Gives the token back. False: more was posted meanwhile, and the caller keeps the token. */
static bool release_token(struct vb_run *run, enum vb_run_verdict verdict)
{
	struct vb_sq *sq = &run->qp->sq;
	uint32_t end;
	bool more;

	vb_spin_lock(&sq->lock);
	end = vb_qp_sends_end(run->qp);
	more = verdict == VB_RUN_IDLE && sq->next == run->end && end != run->end;
	run->end = end;
	if (!more) {
		if (verdict == VB_RUN_IDLE)
			raise_if_drained(run);
		sq->executing = false;
	}
	vb_spin_unlock(&sq->lock);
	return !more;
}

static void follow_up(struct vb_run *run, enum vb_run_verdict verdict)
{
	struct vb_qp *qp = run->qp;
	struct vb_nic *nic = qp->nic;

	if (verdict == VB_RUN_MORE)
		atomic_store(&qp->pend.wake_ns, vb_now_ns());
	if (verdict != VB_RUN_IDLE)
		vb_engine_pend(nic->engine, qp);
	if (run->attach_slot)
		vb_attach_start(nic, run->attach_slot);
}

/* A datagram waits until an attach has begun, not until it has ended. */
static bool attach_now(struct vb_run *run)
{
	const uint32_t slot = run->attach_slot;

	if (!slot || run->qp->type != IBV_QPT_UD)
		return false;
	run->attach_slot = 0;
	run->asked_slot = slot;
	vb_attach_start(run->qp->nic, slot);
	return true;
}

static enum vb_run_verdict run_locally(struct vb_run *run)
{
	enum vb_run_verdict verdict;

	do
		verdict = vb_local_run(run);
	while (verdict == VB_RUN_PEND && attach_now(run));
	return verdict;
}

/* Before the work requests that were posted for the same targets. */
static void run_aside(struct vb_run *run)
{
	while (vb_local_run_aside(run) == VB_RUN_WIRE &&
	       vb_wire_aside(run->qp, &run->wire_aside->wqe, run->wire_peer))
		vb_sq_drop_aside(&run->qp->sq, run->wire_aside);
}

/* Each datagram has a target of its own. A connection goes to the wire with its token. */
static enum vb_run_verdict run_here(struct vb_run *run)
{
	enum vb_run_verdict verdict;

	if (run->qp->type == IBV_QPT_RAW_PACKET)
		return vb_raw_run(run);
	if (vb_sq_has_aside(&run->qp->sq))
		run_aside(run);
	while ((verdict = run_locally(run)) == VB_RUN_WIRE) {
		if (run->qp->type == IBV_QPT_UD) {
			uint64_t wait_ns =
				vb_wire_datagrams(run->qp, run->wire_peer, run->end, &run->notice);

			if (wait_ns) {
				atomic_store(&run->qp->pend.wake_ns, wait_ns);
				return VB_RUN_PEND;
			}
		} else if (!vb_wire_adopt(run->qp, run->wire_peer)) {
			vb_wire_kick(run->qp);
			return verdict;
		} else {
			run->no_wire = true;
		}
	}
	return verdict;
}

void vb_engine_execute(struct vb_qp *qp, uint32_t end, bool service)
{
	struct vb_run run = {
		.qp = qp,
		.thread = vb_thread_get(),
		.end = end,
		.budget_bytes = VB_POST_BUDGET,
		.service = service,
	};
	struct vb_nic *nic = qp->nic;
	struct vb_cq *cq = qp->send_cq;
	uint32_t bit = qp->sends.bit;
	enum vb_run_verdict verdict;
	bool aside;

	vb_cq_prefetch_number(cq->shared, vb_cq_own_asks(cq));
	do {
		verdict = run.thread ? run_here(&run) : VB_RUN_MORE;
		aside = verdict == VB_RUN_IDLE && vb_sq_has_aside(&qp->sq);
		if (aside)
			atomic_store(&qp->pend.wake_ns, vb_now_ns() + ASIDE_LOOK_NS);
	} while (verdict != VB_RUN_WIRE && !release_token(&run, verdict));
	/* Between the completions and this look; the atomic operation is the lock in release_token,
	 * or that of the wire. Pairs as the fence in vb_path_tell. */
	if (run.notice.due) {
		vb_fence_after_rmw();
		vb_cq_notify(cq, bit, run.notice.error);
	}
	if (verdict == VB_RUN_PEND || verdict == VB_RUN_MORE)
		follow_up(&run, verdict);
	else if (aside)
		vb_engine_pend(nic->engine, qp);
	if (__builtin_expect(run.enables, 0))
		vb_engine_go_on(nic);
	if (__builtin_expect(atomic_load_explicit(&nic->seg.lent->attention, memory_order_relaxed),
			     0))
		vb_engine_attend(nic, service);
}

void vb_engine_kick(struct vb_qp *qp)
{
	uint32_t end;

	if (vb_qp_on_wire(qp))
		vb_wire_kick(qp);
	else if (vb_qp_token_take(qp, &end))
		vb_engine_execute(qp, end, false);
}

/*
 * The program has seen the completions of these datagrams, and the last one may be its last word. A
 * live target answers in less than ASIDE_END_NS.
 */
void vb_engine_settle_aside(struct vb_qp *qp)
{
	const uint64_t end_ns = vb_now_ns() + ASIDE_END_NS;

	while (vb_sq_has_aside(&qp->sq) && vb_now_ns() < end_ns) {
		vb_engine_kick(qp);
		sched_yield();
	}
}

static bool has_any_aside(struct vb_nic *nic)
{
	bool any = false;

	if (pthread_mutex_trylock(&nic->lock)) /* a thread that has ended may hold the lock */
		return false;
	vb_list_for(qp, &nic->qps, struct vb_qp, node)
		any |= vb_sq_has_aside(&qp->sq);
	pthread_mutex_unlock(&nic->lock);
	return any;
}

void vb_engine_settle_all(struct vb_nic *nic)
{
	const uint64_t end_ns = vb_now_ns() + ASIDE_END_NS;

	while (has_any_aside(nic) && vb_now_ns() < end_ns)
		sched_yield(); /* the service thread sends them */
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* WQEs that wait for a peer, with the patience that the QP's attributes ask for. */
#include <limits.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/probe.h"
#include "nic/cross.h"
#include "nic/migrate.h"
#include "nic/trace.h"
#include "path/fault/fault.h"
#include "path/local/step.h"
#include "path/no_receive.h"
#include "wire/rnr.h"

enum {
	WIRE_NS = 2000000,       /* time for which a datagram "is on the wire" before it is dropped:
				    its receiver may wait for a CPU */
	LOOK_AGAIN_NS = 1000000, /* the service thread tries at least this often */
	LOOK_SOON_NS = 50000,    /* its first try, if no poller tried before */
};

static void wait_trace(const struct vb_qp *qp, enum vb_pend_why why)
{
	static const uint8_t waits[] = {
		[VB_PEND_NONE] = VB_TRACE_GOES_ON,   [VB_PEND_UNREADY] = VB_TRACE_PEER,
		[VB_PEND_RNR] = VB_TRACE_NO_RECEIVE, [VB_PEND_WIRE] = VB_TRACE_BUSY,
		[VB_PEND_BUSY] = VB_TRACE_BUSY,      [VB_PEND_DELAYED] = VB_TRACE_RULE,
		[VB_PEND_LOST] = VB_TRACE_RULE,      [VB_PEND_CQE] = VB_TRACE_BUSY,
		[VB_PEND_ATTACH] = VB_TRACE_PEER
	};

	vb_trace_waits(qp, waits[why]);
}

static void wait_begin(struct vb_qp *qp, enum vb_pend_why why, uint64_t now_ns)
{
	struct vb_pend *pend = &qp->pend;

	VB_PROBE(wait, qp->ibv.qp_num, why);
	if (vb_captured())
		wait_trace(qp, why);
	pend->why = why;
	pend->since_ns = now_ns;
	pend->told = false;
}

/* A wait of a second is explained, once. */
static void wait_explain(struct vb_step_context *step, enum vb_reason reason)
{
	struct vb_pend *pend = &step->qp->pend;

	pend->reason = (uint8_t)reason;
	if (!vb_config_explain() || pend->told || vb_now_ns() - pend->since_ns < VB_LONG_WAIT_NS)
		return;
	pend->told = true;
	vb_path_explain_wait(step->qp, reason, &step->report);
}

static uint64_t after(uint64_t now_ns, uint64_t wait_ns)
{
	return wait_ns == VB_NEVER_NS ? VB_NEVER_NS : now_ns + wait_ns;
}

static uint64_t sooner(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

bool vb_step_waited_long(struct vb_qp *qp, enum vb_pend_why why, uint64_t wait_ns)
{
	struct vb_pend *pend = &qp->pend;
	uint64_t now_ns = vb_now_ns();

	if (pend->why != why) {
		wait_begin(qp, why, now_ns);
		pend->give_up_ns = after(now_ns, wait_ns);
		atomic_store(&pend->wake_ns, sooner(pend->give_up_ns, now_ns + LOOK_SOON_NS));
		return false;
	}
	atomic_store(&pend->wake_ns, sooner(pend->give_up_ns, now_ns + LOOK_AGAIN_NS));
	return now_ns >= pend->give_up_ns;
}

static enum vb_step drop(struct vb_step_context *step, enum vb_reason reason)
{
	struct vb_remote *remote = &step->qp->remote;

	if (remote->lent && remote->gate)
		atomic_fetch_add(&remote->lent->dropped, 1);
	vb_path_explain(step->qp, reason, &step->report);
	return vb_step_complete(step, VB_OK);
}

/* The peer does not answer on this path. True: the QP goes on with its alternate path. */
static bool migrate(struct vb_qp *qp)
{
	if (!vb_migrate(qp))
		return false;
	qp->pend.why = VB_PEND_NONE;
	vb_qp_follow_path(qp);
	vb_migrate_tell(qp);
	return true;
}

/* True: the target of a datagram was asked to attach, and still has time to answer. */
static bool is_asked(const struct vb_step_context *step)
{
	const struct vb_remote *remote = &step->qp->remote;

	return remote->peer && remote->slot == step->wqe->remote_qpn >> VB_QP_INDEX_BITS &&
	       atomic_load(&remote->peer->state) != VB_PEER_GONE &&
	       vb_now_ns() - remote->peer->asked_ns < VB_PEER_ANSWER_NS;
}

/* UC waits for its peer. UD waits until the target was asked. Fault rules need the path first. */
static enum vb_step attaching(struct vb_step_context *step)
{
	struct vb_qp *qp = step->qp;

	if (qp->type != IBV_QPT_UD || vb_fault_count())
		return vb_step_waited_long(qp, VB_PEND_WIRE, VB_PEER_ANSWER_NS)
			       ? drop(step, VB_WHY_PEER_ATTACHING)
			       : VB_STEP_PEND;
	if (step->run->attach_slot)
		return VB_STEP_PEND;
	return is_asked(step) ? vb_step_set_aside(step) : drop(step, VB_WHY_PEER_ATTACHING);
}

/*
 * The peer's process answers an attach once it gets a CPU, and that is no matter of the QP: on a
 * NIC nobody waits for it. So the QP's own patience begins behind it. Where no process is, attaches
 * are begun and refused by turns: they do not end the wait that has begun.
 */
static bool is_over(struct vb_qp *qp, enum vb_reason reason)
{
	const uint64_t patience_ns = vb_qp_patience_ns(qp);

	if (reason != VB_WHY_PEER_ATTACHING || qp->pend.why == VB_PEND_UNREADY)
		return vb_step_waited_long(qp, VB_PEND_UNREADY, patience_ns);
	return vb_step_waited_long(qp, VB_PEND_ATTACH,
				   patience_ns < VB_PEER_ANSWER_NS ? VB_PEER_ANSWER_NS
								   : patience_ns);
}

enum vb_step vb_step_unanswered(struct vb_step_context *step, enum vb_reason reason)
{
	struct vb_qp *qp = step->qp;

	if (vb_reason_row(reason)->target_fails) /* XRC: the peer answers, with a NAK */
		return vb_step_refuse(step, reason, false);
	vb_step_leave(step);
	if (!vb_qp_reliable(qp))
		return reason == VB_WHY_PEER_ATTACHING ? attaching(step) : drop(step, reason);
	/* Only a process that has ended is known never to answer. */
	if (reason == VB_WHY_PEER_ENDED || is_over(qp, reason))
		return migrate(qp) ? VB_STEP_AGAIN : vb_step_complete(step, reason);
	wait_explain(step, reason);
	return VB_STEP_PEND;
}

enum vb_step vb_step_not_here(struct vb_step_context *step, enum vb_verdict verdict)
{
	struct vb_qp *qp = step->qp;

	if (verdict == VB_VERDICT_BUSY)
		return vb_step_busy(step);
	if (!vb_step_by_wire(step, verdict))
		return vb_step_unanswered(step, step->why);
	vb_step_leave(step);
	/* The peer then takes packets, although it may touch this process's memory. */
	if (step->why == VB_WHY_PEER_UNTOUCHABLE && qp->type != IBV_QPT_UD)
		atomic_fetch_or(&qp->entry->by_packets, VB_BY_PACKETS_DENIED);
	return VB_STEP_WIRE;
}

/* A rule has lost the message, and maybe its earlier tries. */
enum vb_step vb_step_lost(struct vb_step_context *step)
{
	struct vb_qp *qp = step->qp;
	struct vb_pend *pend = &qp->pend;
	uint64_t wait_ns;

	vb_step_leave(step);
	if (!vb_qp_reliable(qp))
		return drop(step, VB_WHY_INJECTED_LOSS);
	if (pend->why != VB_PEND_LOST)
		pend->lost_waited_ns = 0;
	wait_ns = vb_fault_lost_wait_ns(pend->lost_waited_ns, vb_qp_timeout_ns(qp),
					vb_qp_patience_ns(qp));
	if (!wait_ns)
		return migrate(qp) ? VB_STEP_AGAIN : vb_step_complete(step, VB_WHY_INJECTED_LOSS);
	pend->why = VB_PEND_LOST;
	pend->lost_waited_ns += wait_ns;
	pend->next_ns = vb_now_ns() + wait_ns;
	atomic_store(&pend->wake_ns, pend->next_ns);
	return VB_STEP_PEND;
}

/* Tries that count are min_rnr_timer apart. Tries in between find a receive that was posted
 * since. */
static bool rnr_exhausted(struct vb_step_context *step)
{
	struct vb_qp *qp = step->qp;
	struct vb_pend *pend = &qp->pend;
	uint64_t now_ns = vb_now_ns();
	uint64_t wait_ns = vb_rnr_timer_ns(qp->remote.entry->min_rnr_timer);

	if (pend->why != VB_PEND_RNR) {
		wait_begin(qp, VB_PEND_RNR, now_ns);
		vb_no_receive_tell(qp->ibv.qp_num);
		pend->rnr_tries = 0;
		pend->rnr_looked_again = false;
		pend->next_ns = now_ns + vb_rnr_grace_ns();
		atomic_store(&pend->wake_ns, now_ns + LOOK_SOON_NS);
		return false;
	}
	while (now_ns >= pend->next_ns) {
		if (qp->attr.rnr_retry != VB_RNR_RETRY_FOREVER &&
		    pend->rnr_tries++ >= qp->attr.rnr_retry)
			return true;
		pend->next_ns += wait_ns;
		if (pend->next_ns <= now_ns) /* no thread tried for long: no burst of tries */
			pend->next_ns = now_ns + wait_ns;
		atomic_store(&pend->wake_ns, sooner(pend->next_ns, now_ns + LOOK_SOON_NS));
		return false;
	}
	atomic_store(&pend->wake_ns, pend->next_ns);
	return false;
}

enum vb_step vb_step_no_receive(struct vb_step_context *step)
{
	unsigned tries;
	bool exhausted;

	step->report.want = step->qp->attr.rnr_retry + 1u;
	if (!vb_qp_reliable(step->qp)) {
		const struct vb_rq_shared *rq = step->qp->remote.rq;
		bool never_posted = rq->many && !atomic_load(&rq->tail);

		vb_step_leave(step);
		if (step->aside)
			return vb_step_aside_late(step);
		/* A receiver that has posted before gets some time, one that never posted does
		 * not. */
		if (never_posted || vb_step_waited_long(step->qp, VB_PEND_WIRE, WIRE_NS))
			return drop(step, VB_WHY_DROP_NO_RECEIVE);
		return VB_STEP_PEND;
	}
	tries = step->qp->pend.why == VB_PEND_RNR ? step->qp->pend.rnr_tries : UINT_MAX;
	exhausted = rnr_exhausted(step);
	if (vb_captured() && !exhausted && tries != step->qp->pend.rnr_tries)
		vb_step_capture_rnr(step);
	if (exhausted) {
		/* This thread may have lost its CPU after it found no receive: one look comes after
		 * the time is over. */
		if (step->qp->pend.rnr_looked_again)
			return vb_step_complete(step, VB_WHY_NO_RECEIVE);
		step->qp->pend.rnr_looked_again = true;
		return VB_STEP_AGAIN;
	}
	wait_explain(step, VB_WHY_NO_RECEIVE);
	/* No thread polls here: the owner is asked to ring when it posts a receive. Then try
	 * again. */
	if (step->run->service && !atomic_exchange(&step->qp->remote.rq_lent->waiting, 1)) {
		if (vb_barrier_others()) /* pairs with vb_rq_take_waiting */
			return VB_STEP_AGAIN;
		/* The owner may have posted before it could see the request. A CPU keeps a store to
		 * itself for less than a microsecond: a later look finds the receive. */
		atomic_store(&step->qp->pend.wake_ns, vb_now_ns() + LOOK_SOON_NS);
	}
	vb_step_leave(step);
	return VB_STEP_PEND;
}

enum vb_step vb_step_busy(struct vb_step_context *step)
{
	vb_step_leave(step);
	step->qp->pend.why = VB_PEND_BUSY;
	atomic_store(&step->qp->pend.wake_ns, vb_now_ns() + LOOK_SOON_NS);
	return VB_STEP_PEND;
}

enum vb_step vb_step_wait_cqe(struct vb_step_context *step)
{
	struct vb_pend *pend = &step->qp->pend;
	const uint64_t now_ns = vb_now_ns();

	if (pend->why != VB_PEND_CQE)
		wait_begin(step->qp, VB_PEND_CQE, now_ns);
	atomic_store(&pend->wake_ns, now_ns + vb_cross_pause_ns(now_ns - pend->since_ns));
	wait_explain(step, VB_WHY_CQE_WAIT);
	return VB_STEP_PEND;
}

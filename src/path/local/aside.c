/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams whose target is about to be attached. Their send queue does not wait for the attach:
 * any user of this host can hold a slot that never answers. Such datagrams are copied, completed
 * and put aside. After the attach they take the path of its verdict, before later ones for the same
 * slot.
 *
 * An attach that succeeds takes less than a millisecond, once the target has a CPU. So a datagram
 * that finds no room waits for as long as a busy machine may make the target wait. Then the oldest
 * one that was put aside is dropped: it waits in vain.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "exec/recv.h"
#include "path/fault/fault.h"
#include "path/local/step.h"

enum {
	ASIDE_MAX = 128,     /* datagrams of one QP */
	FULL_NS = 200000000, /* time for which the send queue waits for room */
	LATE_NS = 2000000,   /* time for which a datagram waits for a receive, as in pend.c */
};

static uint32_t slot_of(const struct vb_wqe *wqe)
{
	return wqe->remote_qpn >> VB_QP_INDEX_BITS;
}

/* True: a datagram before end is for the same slot. end: NULL for one that is not in the list. */
static bool has_ahead(const struct vb_sq *sq, uint32_t slot, const struct vb_aside *end)
{
	for (const struct vb_aside *aside = sq->aside; aside != end; aside = aside->next)
		if (slot_of(&aside->wqe) == slot)
			return true;
	return false;
}

bool vb_step_is_behind(const struct vb_step_context *step)
{
	return has_ahead(&step->qp->sq, slot_of(step->wqe), NULL);
}

static struct vb_aside *copy(const struct vb_step_context *step)
{
	const struct vb_wqe *wqe = step->wqe;
	struct vb_aside *aside = malloc(sizeof(*aside) + wqe->length);

	if (!aside)
		return NULL;
	aside->next = NULL;
	aside->until_ns = vb_now_ns() + VB_PEER_ANSWER_NS;
	aside->late_ns = 0;
	aside->ah.av = wqe->ah->av;
	aside->wqe = *wqe;
	aside->wqe.ah = &aside->ah;
	aside->wqe.inlined = true;
	aside->wqe.sge_count = 0;
	return aside;
}

static void append(struct vb_sq *sq, struct vb_aside *aside)
{
	struct vb_aside **end = &sq->aside;

	while (*end)
		end = &(*end)->next;
	*end = aside;
	atomic_fetch_add_explicit(&sq->aside_count, 1, memory_order_relaxed);
}

/* A QP with a rate puts one datagram aside: its completions must keep to the rate, too. */
static bool is_full(const struct vb_qp *qp)
{
	const uint32_t most =
		atomic_load_explicit(&qp->rate_kbps, memory_order_relaxed) ? 1 : ASIDE_MAX;

	return atomic_load_explicit(&qp->sq.aside_count, memory_order_relaxed) >= most;
}

enum vb_step vb_step_set_aside(struct vb_step_context *step)
{
	struct vb_sq *sq = &step->qp->sq;
	struct vb_aside *aside;

	if (is_full(step->qp)) {
		if (!vb_step_waited_long(step->qp, VB_PEND_WIRE, FULL_NS))
			return VB_STEP_PEND;
		vb_sq_drop_aside(sq, sq->aside);
	}
	aside = copy(step);
	if (aside && !vb_step_gather(step, aside->wqe.bytes)) {
		free(aside);
		return vb_step_complete(step, VB_WHY_LOCAL_MEMORY);
	}
	if (aside)
		append(sq, aside);
	/* Without memory the datagram is lost, as on a wire. It is captured when it leaves. */
	vb_path_complete(step->qp, VB_OK, &step->report, &step->run->notice);
	return VB_STEP_NEXT;
}

enum vb_step vb_step_aside_late(struct vb_step_context *step)
{
	struct vb_aside *aside = step->aside;
	const uint64_t now_ns = vb_now_ns();

	if (!aside->late_ns)
		aside->late_ns = now_ns + LATE_NS;
	if (now_ns < aside->late_ns)
		return VB_STEP_PEND;
	atomic_fetch_add(&step->qp->remote.lent->dropped, 1);
	return VB_STEP_NEXT;
}

/* NEXT: the datagram is done, or lost. */
static enum vb_step try(struct vb_step_context *step)
{
	const struct vb_wqe *wqe = &step->aside->wqe;
	enum vb_verdict verdict;

	if (has_ahead(&step->qp->sq, slot_of(wqe), step->aside))
		return VB_STEP_PEND;
	step->wqe = &step->aside->wqe;
	step->report = (struct vb_report){ 0 };
	step->begun_ns = vb_captured() ? vb_now_ns() : 0;
	(void)vb_step_local(step, wqe, 0); /* inlined: there is no key to check */
	verdict = vb_step_bind_datagram(step, wqe->remote_qpn);
	if (verdict == VB_VERDICT_HERE)
		return vb_step_to_target(step);
	vb_step_leave(step);
	if (vb_step_by_wire(step, verdict))
		return VB_STEP_WIRE;
	return vb_step_is_attaching(step, verdict) && vb_now_ns() < step->aside->until_ns
		       ? VB_STEP_PEND
		       : VB_STEP_NEXT;
}

static bool is_ending(const struct vb_qp *qp)
{
	enum ibv_qp_state state = vb_qp_state(qp);

	return state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_SQE;
}

enum vb_run_verdict vb_local_run_aside(struct vb_run *run)
{
	struct vb_sq *sq = &run->qp->sq;
	struct vb_step_context step;
	enum vb_step next = VB_STEP_NEXT;

	step.run = run;
	step.qp = run->qp;
	step.inside = NULL;
	step.since_hazard = 0;
	for (struct vb_aside *aside = sq->aside, *behind; aside && next != VB_STEP_WIRE;
	     aside = behind) {
		behind = aside->next;
		step.aside = aside;
		next = is_ending(run->qp) ? VB_STEP_NEXT : try(&step);
		if (next == VB_STEP_WIRE)
			run->wire_aside = aside;
		else if (next != VB_STEP_PEND)
			vb_sq_drop_aside(sq, aside);
	}
	vb_step_leave(&step);
	run->attach_slot = 0; /* a slot that did not answer is not asked again for these */
	if (next == VB_STEP_WIRE)
		return VB_RUN_WIRE;
	return vb_sq_has_aside(sq) ? VB_RUN_PEND : VB_RUN_IDLE;
}

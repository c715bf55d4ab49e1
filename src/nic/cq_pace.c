/* SPDX-License-Identifier: BSD-2-Clause */
/* The pace of a poller (cq_pace.h). */
#include "base/clock.h"
#include "nic/qp.h"

enum { WAIT_NS = 512 };

/* A peer reads it before each SEND: it is written only if it changes. */
static void tell(struct vb_cq *cq, bool caught_up)
{
	if (cq->pace.told == caught_up)
		return;
	cq->pace.told = caught_up;
	atomic_store_explicit(&cq->shared->caught_up, caught_up, memory_order_relaxed);
}

void vb_pace_end(struct vb_cq *cq)
{
	cq->pace.quick = 0;
	tell(cq, false);
}

/* Sends may complete at the same time: a wait more or less does no harm. */
static bool is_one_way(struct vb_cq_queue *queue)
{
	uint64_t before = queue->sends;

	if (queue->kind != VB_CQ_RECEIVES)
		return false;
	queue->sends = atomic_load_explicit(&queue->qp->sq.done, memory_order_relaxed);
	return queue->sends == before;
}

bool vb_pace_wait(struct vb_cq *cq)
{
	uint64_t until_ns;

	if (cq->last >= cq->queue_count || !is_one_way(cq->queues[cq->last])) {
		vb_pace_end(cq);
		return false;
	}
	tell(cq, true);
	until_ns = vb_now_ns() + WAIT_NS;
	do
		vb_cpu_relax();
	while (vb_now_ns() < until_ns);
	return true;
}

void vb_pace_waited(struct vb_cq *cq, bool found)
{
	struct vb_pace *pace = &cq->pace;

	if (found && pace->needed > VB_PACE_NEEDED)
		pace->needed /= 2;
	if (found)
		return;
	vb_pace_end(cq);
	if (pace->needed < VB_PACE_NEEDED_MAX)
		pace->needed *= 2;
}

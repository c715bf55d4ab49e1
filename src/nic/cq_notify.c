/* SPDX-License-Identifier: BSD-2-Clause */
/* The steps behind a completion: the overrun count, ready bits, events. */
#include "nic/cq.h"

bool vb_cq_account(struct vb_cq_shared *shared)
{
	if (!(vb_cq_asks(shared) & VB_CQ_COUNTS))
		return true;
	if (atomic_load(&shared->overrun))
		return false;
	if (atomic_fetch_add(&shared->count, 1) < atomic_load(&shared->cqe))
		return true;
	atomic_fetch_sub(&shared->count, 1);
	atomic_store(&shared->overrun, 1);
	return false;
}

bool vb_cq_disarm(struct vb_cq_shared *shared, bool solicited)
{
	uint32_t armed = atomic_load_explicit(&shared->armed, memory_order_relaxed);

	if (armed == VB_CQ_UNARMED || (armed == VB_CQ_ARMED_SOLICITED && !solicited))
		return false;
	return atomic_compare_exchange_strong(&shared->armed, &armed, VB_CQ_UNARMED);
}

void vb_cq_fire(struct vb_cq *cq, uint32_t events)
{
	if (__builtin_expect(vb_cq_moderated(cq), 0)) {
		vb_cq_hold(cq, events);
		return;
	}
	atomic_fetch_add(&cq->events_pending, events);
	vb_channel_signal(cq->channel, events);
}

void vb_cq_notify(struct vb_cq *cq, uint32_t ready_bit, bool solicited)
{
	const struct vb_cq_page *pages =
		atomic_load_explicit(&cq->ready_pages, memory_order_acquire);

	/* The caller's fence pairs with those in vb_cq_req_notify and cq_ready.c. */
	if (pages)
		vb_cq_set_own_ready(cq, pages, ready_bit);
	if (cq->channel && vb_cq_disarm(cq->shared, solicited))
		vb_cq_fire(cq, 1);
}

int vb_cq_req_notify(struct vb_cq *cq, bool solicited_only)
{
	uint32_t want = solicited_only ? VB_CQ_ARMED_SOLICITED : VB_CQ_ARMED_ANY;
	uint32_t now = atomic_load(&cq->shared->armed);

	/* A wider arm that is not used up stays. */
	if (now > want)
		want = now;
	if (want > VB_CQ_ARMED_ANY)
		want = VB_CQ_ARMED_ANY;
	atomic_store_explicit(&cq->arm_kind, want, memory_order_relaxed);
	atomic_fetch_add_explicit(&cq->armed_count, 1, memory_order_relaxed);
	atomic_exchange(&cq->shared->armed, want);
	/* Before the re-poll. Pairs with the fence of each thread that completes: cell_commit,
	 * vb_local_send_fast, vb_path_tell, vb_engine_execute, vb_cq_push. */
	vb_fence_after_rmw();
	return 0;
}

void vb_cq_collect_fired(struct vb_cq *cq)
{
	uint32_t fired =
		atomic_load(&cq->shared->fired) ? atomic_exchange(&cq->shared->fired, 0) : 0;
	uint32_t armed = fired ? atomic_exchange(&cq->armed_count, 0) : 0;

	/* Each event takes an arm: peers cannot make more events than there were arms. */
	if (fired > armed)
		fired = armed;
	if (fired && cq->channel)
		vb_cq_fire(cq, fired);
	if (atomic_load(&cq->shared->overrun) && !atomic_exchange(&cq->overrun_told, 1))
		vb_async_raise(cq->ibv.context, IBV_EVENT_CQ_ERR, &cq->ibv, &cq->async_taken);
}

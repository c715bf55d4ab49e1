/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moderation: one event for several completions. The first completion that takes the arm starts a
 * period. The CQ stays armed in the period, so that later completions are noticed. When enough of
 * them came, or the period is over, the application gets one event and the arm is gone, as if a
 * single completion had taken it.
 */
#include "base/clock.h"
#include "nic/cq.h"

/* The service thread looks at due_ns at the latest. */
static void due_at(struct vb_nic *nic, uint64_t due_ns)
{
	uint64_t first_ns = atomic_load(&nic->event_due_ns);

	while ((!first_ns || due_ns < first_ns) &&
	       !atomic_compare_exchange_weak(&nic->event_due_ns, &first_ns, due_ns))
		;
}

/* Under hold_lock. Disarms before the event: a thread that arms later re-polls, and finds all that
 * completed before. */
static void make_event(struct vb_cq *cq)
{
	cq->holding = false;
	atomic_exchange(&cq->shared->armed, VB_CQ_UNARMED);
	atomic_fetch_add(&cq->events_pending, 1);
	vb_channel_signal(cq->channel, 1);
}

void vb_cq_hold(struct vb_cq *cq, uint32_t completions)
{
	bool first;

	vb_spin_lock(&cq->hold_lock);
	first = !cq->holding;
	if (first) {
		cq->holding = true;
		cq->held = 0;
		cq->held_until_ns = vb_now_ns() + 1000ull * atomic_load(&cq->moderate_period_us);
	}
	cq->held += completions;
	if (cq->held >= atomic_load(&cq->moderate_count)) {
		make_event(cq);
		first = false;
	} else {
		/* The end of the period reports completions that found the CQ unarmed. */
		atomic_fetch_add(&cq->armed_count, 1);
		atomic_exchange(&cq->shared->armed, atomic_load(&cq->arm_kind));
		due_at(cq->nic, cq->held_until_ns);
	}
	vb_spin_unlock(&cq->hold_lock);
	if (first)
		vb_nic_ring(cq->nic);
}

void vb_cq_moderate(struct vb_cq *cq, uint16_t count, uint16_t period_us)
{
	bool on = count > 1 && period_us;

	vb_spin_lock(&cq->hold_lock);
	atomic_store(&cq->moderate_period_us, period_us);
	atomic_store(&cq->moderate_count, on ? count : 0);
	/* An event that waits under the old rule does not wait under the new one. */
	if (cq->holding)
		make_event(cq);
	vb_spin_unlock(&cq->hold_lock);
}

static void release_if_due(struct vb_cq *cq, uint64_t now_ns)
{
	vb_spin_lock(&cq->hold_lock);
	if (cq->holding && cq->held_until_ns <= now_ns)
		make_event(cq);
	else if (cq->holding)
		due_at(cq->nic, cq->held_until_ns);
	vb_spin_unlock(&cq->hold_lock);
}

void vb_cq_release_due(struct vb_nic *nic, uint64_t now_ns)
{
	uint64_t due_ns = atomic_load_explicit(&nic->event_due_ns, memory_order_relaxed);

	if (!due_ns || due_ns > now_ns)
		return;
	pthread_mutex_lock(&nic->lock);
	atomic_store(&nic->event_due_ns, 0); /* CQs that still hold an event set it again */
	vb_list_for(cq, &nic->cqs, struct vb_cq, node)
		release_if_due(cq, now_ns);
	pthread_mutex_unlock(&nic->lock);
}

uint64_t vb_cq_next_due_ns(struct vb_nic *nic)
{
	uint64_t due_ns = atomic_load(&nic->event_due_ns);

	return due_ns ? due_ns : VB_NEVER_NS;
}

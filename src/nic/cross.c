/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/cross.h"

#include "nic/nic.h"
#include "nic/waiters.h"

enum {
	PAUSE_NS_MIN = 20000,
	PAUSE_NS_MAX = 1000000,
	PAUSE_PART = 8, /* of the time that it has waited */
};

static uint32_t higher(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void move_on(uint32_t *from, uint32_t *ahead, bool last)
{
	if (!last)
		return;
	*from += *ahead;
	*ahead = 0;
}

static uint32_t sends_posted(struct vb_qp *qp, const struct vb_sq *own)
{
	uint32_t tail;

	if (&qp->sq == own) /* its lock is held */
		return own->tail;
	vb_spin_lock(&qp->sq.lock);
	tail = qp->sq.tail;
	vb_spin_unlock(&qp->sq.lock);
	return tail;
}

static bool plan_enable(const struct vb_cross_spec *spec, const struct vb_sq *own, uint32_t *index)
{
	struct vb_managed *managed = spec->managed;
	struct vb_managed_queue *queue = spec->receives ? &managed->receives : &managed->sends;
	const uint32_t posted =
		spec->receives ? managed->held_tail : sends_posted(managed->qp, own);

	*index = spec->count ? queue->next + spec->count : posted;
	if ((int32_t)(posted - *index) < 0)
		return false;
	queue->ahead = spec->count ? higher(queue->ahead, spec->count) : posted - queue->next;
	move_on(&queue->next, &queue->ahead, spec->last);
	return true;
}

bool vb_cross_plan(const struct vb_cross_spec *spec, const struct vb_sq *own,
		   struct vb_cross *cross)
{
	struct vb_ledger *ledger = spec->ledger;

	*cross = (struct vb_cross){ .receives = spec->receives };
	if (!ledger) {
		if (!plan_enable(spec, own, &cross->index))
			return false;
		vb_managed_get(spec->managed);
		cross->managed = spec->managed;
		return true;
	}
	cross->index = ledger->awaited + spec->count;
	ledger->ahead = higher(ledger->ahead, spec->count);
	move_on(&ledger->awaited, &ledger->ahead, spec->last);
	vb_ledger_get(ledger);
	cross->ledger = ledger;
	return true;
}

void vb_cross_drop(struct vb_cross *cross)
{
	vb_ledger_put(cross->ledger);
	vb_managed_put(cross->managed);
	*cross = (struct vb_cross){ 0 };
}

/* Under cross_lock, so the QP is not destroyed before it is in the list. */
static void enable_sends(struct vb_managed *managed, uint32_t end)
{
	struct vb_qp *qp = managed->qp;

	if ((int32_t)(end - atomic_load(&managed->sends.enabled)) <= 0)
		return;
	/* Pairs with the load in vb_managed_sends_end. */
	atomic_store(&managed->sends.enabled, end);
	atomic_store(&qp->pend.wake_ns, 0);
	vb_waiters_add(qp);
	atomic_fetch_or(&qp->nic->enable_due, VB_ENABLE_SENDS);
}

bool vb_cross_enable(struct vb_nic *nic, const struct vb_cross *cross)
{
	struct vb_managed *managed = cross->managed;
	bool there;

	vb_spin_lock(&nic->cross_lock);
	there = !managed->is_closed;
	if (there && !cross->receives)
		enable_sends(managed, cross->index);
	else if (there && vb_managed_release(managed, cross->index))
		atomic_fetch_or(&nic->enable_due, VB_ENABLE_WAKE);
	vb_spin_unlock(&nic->cross_lock);
	return there;
}

uint64_t vb_cross_pause_ns(uint64_t waited_ns)
{
	const uint64_t pause_ns = waited_ns / PAUSE_PART;

	return pause_ns < PAUSE_NS_MIN   ? PAUSE_NS_MIN
	       : pause_ns > PAUSE_NS_MAX ? PAUSE_NS_MAX
					 : pause_ns;
}

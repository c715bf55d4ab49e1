/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/waiters.h"

#include <sched.h>

#include "base/clock.h"
#include "nic/nic.h"
#include "nic/qp.h"

void vb_waiters_init(struct vb_waiters *waiters)
{
	vb_list_init(&waiters->qps);
	vb_list_init(&waiters->node);
}

/* The CQ was not in the list a moment ago. Another thread may have put it there meanwhile. */
static void enlist(struct vb_nic *nic, struct vb_waiters *waiters)
{
	vb_spin_lock(&nic->waiting_lock);
	vb_spin_lock(&waiters->lock);
	if (!waiters->is_listed) {
		waiters->is_listed = true;
		vb_list_append(&nic->waiting_cqs, &waiters->node);
		atomic_fetch_add(&nic->waiting, 1);
	}
	vb_spin_unlock(&waiters->lock);
	vb_spin_unlock(&nic->waiting_lock);
}

void vb_waiters_add(struct vb_qp *qp)
{
	struct vb_waiters *waiters = &qp->send_cq->waiters;
	bool is_listed;

	vb_spin_lock(&waiters->lock);
	if (!qp->pend.listed) {
		qp->pend.listed = true;
		vb_list_append(&waiters->qps, &qp->pend.node);
		atomic_store(&waiters->count, atomic_load(&waiters->count) + 1);
	}
	is_listed = waiters->is_listed;
	vb_spin_unlock(&waiters->lock);
	if (!is_listed)
		enlist(qp->nic, waiters);
}

static void take_out(struct vb_waiters *waiters, struct vb_qp *qp)
{
	if (!qp->pend.listed)
		return;
	qp->pend.listed = false;
	vb_list_remove(&qp->pend.node);
	atomic_store(&waiters->count, atomic_load(&waiters->count) - 1);
}

void vb_waiters_remove(struct vb_qp *qp)
{
	struct vb_waiters *waiters = &qp->send_cq->waiters;

	vb_spin_lock(&waiters->lock);
	take_out(waiters, qp);
	vb_spin_unlock(&waiters->lock);
}

struct vb_qp *vb_waiters_pop(struct vb_waiters *waiters)
{
	struct vb_qp *qp = NULL;

	vb_spin_lock(&waiters->lock);
	if (!vb_list_empty(&waiters->qps)) {
		qp = vb_container(waiters->qps.next, struct vb_qp, pend.node);
		take_out(waiters, qp);
	}
	vb_spin_unlock(&waiters->lock);
	return qp;
}

uint64_t vb_waiters_next_ns(struct vb_waiters *waiters)
{
	uint64_t next_ns = VB_NEVER_NS;

	vb_spin_lock(&waiters->lock);
	vb_list_for(qp, &waiters->qps, struct vb_qp, pend.node) {
		uint64_t wake_ns = atomic_load(&qp->pend.wake_ns);

		if (wake_ns < next_ns)
			next_ns = wake_ns;
	}
	vb_spin_unlock(&waiters->lock);
	return next_ns;
}

/* Under waiting_lock. */
static void unlist(struct vb_nic *nic, struct vb_waiters *waiters)
{
	vb_spin_lock(&waiters->lock);
	if (waiters->is_listed && !atomic_load(&waiters->count)) {
		waiters->is_listed = false;
		vb_list_remove(&waiters->node);
		atomic_fetch_sub(&nic->waiting, 1);
	}
	vb_spin_unlock(&waiters->lock);
}

struct vb_waiters *vb_waiters_walk(struct vb_nic *nic, struct vb_waiters *last, bool leaves)
{
	struct vb_waiters *next;

	vb_spin_lock(&nic->waiting_lock);
	next = vb_list_element(last ? last->node.next : nic->waiting_cqs.next, &nic->waiting_cqs,
			       struct vb_waiters, node);
	if (next)
		next->pins++;
	if (last) {
		last->pins--;
		if (leaves)
			unlist(nic, last);
	}
	vb_spin_unlock(&nic->waiting_lock);
	return next;
}

void vb_waiters_end(struct vb_cq *cq)
{
	struct vb_nic *nic = cq->nic;
	bool is_pinned;

	do {
		vb_spin_lock(&nic->waiting_lock);
		is_pinned = cq->waiters.pins;
		if (!is_pinned)
			unlist(nic, &cq->waiters);
		vb_spin_unlock(&nic->waiting_lock);
		if (is_pinned)
			sched_yield();
	} while (is_pinned);
}

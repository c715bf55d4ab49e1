/* SPDX-License-Identifier: BSD-2-Clause */
/* Send queues that wait: for a peer, for a receive, or for the next part of a long transfer. */
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/wire/wire.h"

void vb_engine_pend(struct vb_engine *engine, struct vb_qp *qp)
{
	uint64_t wake_ns = atomic_load(&qp->pend.wake_ns);

	vb_spin_lock(&engine->pending_lock);
	if (!qp->pend.listed) {
		qp->pend.listed = true;
		vb_list_append(&engine->pending, &qp->pend.node);
		atomic_fetch_add(&engine->pending_count, 1);
		atomic_fetch_add(&engine->nic->waiting, 1);
	}
	vb_spin_unlock(&engine->pending_lock);
	/* Pairs with sleep_time: the service thread says when it wakes, then reads the version. */
	atomic_fetch_add(&engine->pending_version, 1);
	if (wake_ns < atomic_load(&engine->service_wake_ns))
		vb_nic_ring(engine->nic);
}

static void unlist(struct vb_engine *engine, struct vb_qp *qp)
{
	if (!qp->pend.listed)
		return;
	qp->pend.listed = false;
	vb_list_remove(&qp->pend.node);
	atomic_fetch_sub(&engine->pending_count, 1);
	atomic_fetch_sub(&engine->nic->waiting, 1);
}

void vb_engine_unpend(struct vb_engine *engine, struct vb_qp *qp)
{
	vb_spin_lock(&engine->pending_lock);
	unlist(engine, qp);
	vb_spin_unlock(&engine->pending_lock);
}

static struct vb_qp *pop(struct vb_engine *engine)
{
	struct vb_qp *qp = NULL;

	vb_spin_lock(&engine->pending_lock);
	if (!vb_list_empty(&engine->pending)) {
		qp = vb_container(engine->pending.next, struct vb_qp, pend.node);
		unlist(engine, qp);
	}
	vb_spin_unlock(&engine->pending_lock);
	return qp;
}

unsigned vb_engine_retry(struct vb_engine *engine, unsigned most, bool service)
{
	unsigned count = atomic_load(&engine->pending_count), i;

	for (i = 0; i < count && i < most; i++) {
		struct vb_qp *qp = pop(engine);
		uint32_t end;

		if (!qp)
			break;
		/* If another thread has the token, it puts the QP back if that still waits. */
		if (vb_qp_on_wire(qp))
			vb_wire_kick(qp);
		else if (vb_qp_token_take(qp, &end))
			vb_engine_execute(qp, end, service);
	}
	return i;
}

uint64_t vb_engine_next_wake_ns(struct vb_engine *engine)
{
	uint64_t next_ns = VB_NEVER_NS;

	vb_spin_lock(&engine->pending_lock);
	vb_list_for(qp, &engine->pending, struct vb_qp, pend.node) {
		uint64_t wake_ns = atomic_load(&qp->pend.wake_ns);

		if (wake_ns < next_ns)
			next_ns = wake_ns;
	}
	vb_spin_unlock(&engine->pending_lock);
	return next_ns;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process has ended. Connections to it fail and are destroyed. But a UD QP, and the ways that the
 * wire remembers, may never be used again, and would keep its sockets and segment open.
 */
#include "engine/engine.h"
#include "engine/wire/wire_impl.h"

static bool has_ended(const struct vb_peer *peer)
{
	return peer && atomic_load(&peer->state) == VB_PEER_GONE;
}

/* False: another thread executes the QP. */
static bool qp_lets_go(struct vb_engine *engine, struct vb_qp *qp)
{
	bool left;

	if (qp->type != IBV_QPT_UD)
		return true;
	if (!vb_qp_token_try(qp))
		return false;
	if (has_ended(qp->remote.peer))
		vb_remote_unbind(&qp->remote);
	vb_spin_lock(&qp->sq.lock);
	qp->sq.executing = false;
	left = qp->sq.next != qp->sq.tail;
	vb_spin_unlock(&qp->sq.lock);
	/* A thread that posted or retried meanwhile found the token taken, and left. */
	if (left) {
		atomic_store(&qp->pend.wake_ns, 0);
		vb_engine_pend(engine, qp);
	}
	return true;
}

/* nic->lock is only tried: a thread that destroys a QP may hold it while it waits. */
static bool qps_let_go(struct vb_nic *nic)
{
	bool all = true;

	if (pthread_mutex_trylock(&nic->lock))
		return false;
	vb_list_for(qp, &nic->qps, struct vb_qp, node)
		all &= qp_lets_go(nic->engine, qp);
	pthread_mutex_unlock(&nic->lock);
	return all;
}

static bool lane_lets_go(struct vb_lane *lane)
{
	if (!vb_wire_try_lock(lane))
		return false;
	if (vb_wire_begin(lane))
		vb_roce_forget_ended(&lane->roce);
	vb_wire_unlock(lane);
	return true;
}

void vb_engine_let_go(struct vb_engine *engine)
{
	struct vb_nic *nic = engine->nic;
	bool all = true;

	if (__builtin_expect(!atomic_load_explicit(&engine->peer_ended, memory_order_relaxed), 1))
		return;
	/* Cleared before the look: another process may end meanwhile. */
	atomic_store(&engine->peer_ended, false);
	vb_lanes_for(lane, nic) all &= lane_lets_go(lane);
	all &= qps_let_go(nic);
	if (!all)
		atomic_store(&engine->peer_ended, true);
}

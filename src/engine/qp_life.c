/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/qp_life.h"

#include <errno.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/raw_port.h"
#include "engine/wire/migrate.h"
#include "engine/wire/wire.h"
#include "nic/managed.h"
#include "nic/rate.h"
#include "path/local/local.h"

/* --- create --- */

int vb_qp_life_create(struct vb_pd *pd, struct ibv_qp_init_attr *attr, struct vb_qp **out)
{
	int err = vb_engine_start(pd->nic);

	if (!err)
		err = vb_qp_create(pd, attr, out);
	if (err)
		return err;
	err = vb_engine_start(pd->nic); /* watches a new slot as well */
	if (err)
		vb_qp_life_destroy(*out);
	return err;
}

/* --- modify, and the consequences of a change of state --- */

static void entered_rtr(struct vb_qp *qp)
{
	if (qp->type == IBV_QPT_RAW_PACKET) /* it has no peer */
		return;
	vb_wire_enter(qp);
	if (qp->type != IBV_QPT_UD) {
		vb_attach_qp(qp);
		if (qp->av.local)
			vb_map_connected(qp->pd);
	}
	/* A peer may have been sending to this QP already. */
	if (atomic_exchange(&qp->lent->waiting, 0))
		vb_engine_wake_waiters(qp->nic);
}

static int modify_locked(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int err;

	pthread_mutex_lock(&qp->nic->lock);
	err = vb_qp_modify(qp, attr, mask);
	pthread_mutex_unlock(&qp->nic->lock);
	return err;
}

/* No thread executes while the queues are emptied, and no QP waits for them afterwards. */
static int reset_qp(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int err = vb_qp_modify_check(qp, attr, mask);

	if (err)
		return err;
	vb_wire_stop(qp, true);
	vb_local_give_back(qp);
	/* First without nic->lock: vb_qp_close waits for a stopped thread of a peer inside. */
	err = vb_qp_close(qp, IBV_QPS_RESET);
	if (!err)
		err = modify_locked(qp, attr,
				    /* other attributes were checked, and mean nothing in RESET */
				    IBV_QP_STATE);
	vb_qp_token_release(qp);
	if (err)
		vb_engine_kick(qp); /* the QP is in ERR: flushes the posted work requests */
	if (!err) {
		vb_waiters_remove(qp);
		vb_qp_limit_rate(qp, 0, 0);
	}
	return err;
}

int vb_qp_life_modify(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state before = vb_qp_state(qp), after;
	int err;

	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET)
		return reset_qp(qp, attr, mask);
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_SQD)
		vb_wire_settle(qp);
	err = modify_locked(qp, attr, mask);
	if (err)
		return err;
	after = vb_qp_state(qp);
	if (before == IBV_QPS_INIT && after == IBV_QPS_RTR)
		entered_rtr(qp);
	else if (mask & (IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE))
		vb_engine_follow_path(qp);
	/*
	 * In RTS, SQD or ERR there may be something to send, to report or to flush. In RTS the
	 * queue may wait for the old rate.
	 */
	if ((after != before && after != IBV_QPS_INIT && after != IBV_QPS_RTR) ||
	    mask & IBV_QP_RATE_LIMIT)
		vb_engine_kick(qp);
	return 0;
}

void vb_qp_life_limit_rate(struct vb_qp *qp, uint32_t kbps, uint32_t burst_bytes)
{
	vb_qp_limit_rate(qp, kbps, burst_bytes);
	vb_engine_kick(qp); /* the queue may wait for the old rate */
}

/* --- destroy --- */

static int check_idle(const struct vb_qp *qp)
{
	const uint32_t flows = qp->raw ? atomic_load(&qp->raw->flows) : 0;

	if (flows) {
		vb_explain("ibv_destroy_qp: %u flows end at QP 0x%06x", flows, qp->ibv.qp_num);
		return -EBUSY;
	}
	if (qp->mcast_groups && qp->nic == vb_nic_current()) {
		vb_explain("ibv_destroy_qp: QP 0x%06x is attached to %u multicast groups",
			   qp->ibv.qp_num, qp->mcast_groups);
		return -EBUSY;
	}
	return 0;
}

/* No thread runs the QP afterwards, and no thread finds it. */
static int stop_qp(struct vb_qp *qp)
{
	struct vb_engine *engine = qp->nic->engine;
	struct vb_waiters *waiters = &qp->send_cq->waiters;
	int err;

	vb_engine_settle_aside(qp);
	err = vb_qp_close(qp, IBV_QPS_RESET);
	/* An XRC_RECV QP reaches only memory of SRQs, and each SRQ waits for its own senders. */
	if (err && qp->type != IBV_QPT_XRC_RECV) {
		vb_engine_kick(qp); /* the QP is in ERR: flushes the posted work requests */
		return err;
	}
	vb_managed_close(qp); /* no ENABLE puts the QP into a list again */
	/* Under these locks no list leads to the QP. With the token no thread runs it. */
	vb_spin_lock(&engine->progress_lock);
	vb_spin_lock(&waiters->retry_lock);
	vb_wire_stop(qp, false);
	vb_local_give_back(qp);
	vb_waiters_remove(qp);
	vb_qp_withdraw(qp);
	vb_spin_unlock(&waiters->retry_lock);
	vb_spin_unlock(&engine->progress_lock);
	return 0;
}

int vb_qp_life_destroy(struct vb_qp *qp)
{
	struct vb_raw_qp *raw = qp->raw;
	const struct vb_nic *nic = qp->nic;
	int err = check_idle(qp);

	if (!err && nic == vb_nic_current())
		err = stop_qp(qp);
	if (err)
		return err;
	vb_qp_destroy(qp);
	vb_raw_leave(raw, nic);
	return 0;
}

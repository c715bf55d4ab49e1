/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/managed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "capture/ring.h"
#include "nic/nic.h"
#include "nic/trace.h"

struct vb_managed_recv {
	uint64_t wr_id;
	int num_sge;
	struct ibv_sge sge[];
};

static struct vb_managed_recv *held_at(const struct vb_managed *managed, uint32_t index)
{
	return (void *)((uint8_t *)managed->held +
			(index % managed->qp->rq->depth) * managed->held_stride);
}

static int check(const struct vb_qp *qp, bool sends, bool receives)
{
	if (qp->type == IBV_QPT_RAW_PACKET || (sends && qp->type == IBV_QPT_XRC_RECV) ||
	    (sends && qp->srq && qp->srq->tm)) {
		vb_explain("ibv_exp_create_qp: no managed queues for raw packets, XRC_RECV and "
			   "tag matching");
		return -EOPNOTSUPP;
	}
	if (receives && (qp->srq || !qp->rq->depth)) {
		vb_explain(
			"ibv_exp_create_qp: MANAGED_RECV, and the QP has no receives of its own");
		return -EINVAL;
	}
	return 0;
}

static int held_make(struct vb_managed *managed, struct vb_rq *rq)
{
	managed->held_stride =
		sizeof(*managed->held) + (size_t)rq->sge_max * sizeof(managed->held->sge[0]);
	managed->held = calloc(rq->depth, managed->held_stride);
	if (!managed->held)
		return -ENOMEM;
	rq->managed = managed;
	rq->open_max = 0;
	return 0;
}

int vb_managed_make(struct vb_qp *qp, bool sends, bool receives)
{
	int err = check(qp, sends, receives);
	struct vb_managed *managed = err ? NULL : calloc(1, sizeof(*managed));

	if (!managed)
		return err ? err : -ENOMEM;
	atomic_store(&managed->refs, 1);
	managed->qp = qp;
	managed->sends.is_managed = sends;
	managed->receives.is_managed = receives;
	err = receives ? held_make(managed, qp->rq) : 0;
	if (err) {
		free(managed);
		return err;
	}
	qp->managed = managed;
	if (sends)
		qp->slow_sends |= VB_SENDS_MANAGED;
	return 0;
}

void vb_managed_get(struct vb_managed *managed)
{
	atomic_fetch_add(&managed->refs, 1);
}

void vb_managed_put(struct vb_managed *managed)
{
	if (!managed || atomic_fetch_sub(&managed->refs, 1) != 1)
		return;
	free(managed->held);
	free(managed);
}

void vb_managed_close(struct vb_qp *qp)
{
	if (!qp->managed)
		return;
	vb_spin_lock(&qp->nic->cross_lock);
	qp->managed->is_closed = true;
	vb_spin_unlock(&qp->nic->cross_lock);
}

static void queue_reset(struct vb_managed_queue *queue)
{
	queue->next = queue->ahead = 0;
	atomic_store(&queue->enabled, 0);
}

void vb_managed_reset(struct vb_qp *qp)
{
	struct vb_managed *managed = qp->managed;

	if (!managed)
		return;
	vb_spin_lock(&qp->nic->cross_lock);
	queue_reset(&managed->sends);
	queue_reset(&managed->receives);
	managed->held_tail = managed->held_head = 0;
	vb_spin_unlock(&qp->nic->cross_lock);
}

/* --- sends --- */

uint32_t vb_managed_sends_end(const struct vb_qp *qp)
{
	const enum ibv_qp_state state = vb_qp_state(qp);

	return state == IBV_QPS_ERR || state == IBV_QPS_SQE
		       ? qp->sq.tail
		       : atomic_load(&qp->managed->sends.enabled);
}

void vb_managed_flushed(struct vb_qp *qp, uint32_t end)
{
	struct vb_managed_queue *sends = &qp->managed->sends;

	vb_spin_lock(&qp->nic->cross_lock);
	if ((int32_t)(end - atomic_load(&sends->enabled)) > 0)
		atomic_store(&sends->enabled, end);
	if ((int32_t)(end - sends->next) > 0)
		sends->next = end;
	vb_spin_unlock(&qp->nic->cross_lock);
}

/* --- receives --- */

uint32_t vb_managed_held(const struct vb_rq *rq)
{
	const struct vb_managed *managed = rq->managed;
	uint32_t count;

	if (!managed)
		return 0;
	vb_spin_lock(&rq->nic->cross_lock);
	count = managed->held_tail - managed->held_head;
	vb_spin_unlock(&rq->nic->cross_lock);
	return count;
}

/* Under rq->lock. There is room: the receive had a place before. */
static void post_one(struct vb_rq *rq, const struct vb_managed_recv *held)
{
	const struct ibv_recv_wr wr = {
		.wr_id = held->wr_id,
		.sg_list = (struct ibv_sge *)held->sge,
		.num_sge = held->num_sge,
	};

	vb_rq_post(rq, &wr);
}

bool vb_managed_release(struct vb_managed *managed, uint32_t end)
{
	struct vb_rq *rq = managed->qp->rq;
	uint32_t first;

	if ((int32_t)(end - managed->held_head) <= 0)
		return false;
	vb_spin_lock(&rq->lock);
	first = rq->tail;
	rq->open_max = rq->depth;
	for (; managed->held_head != end; managed->held_head++)
		post_one(rq, held_at(managed, managed->held_head));
	rq->open_max = 0;
	if (vb_captured())
		vb_trace_recv_posted(rq, first, rq->tail);
	vb_spin_unlock(&rq->lock);
	atomic_store(&managed->receives.enabled, end);
	return vb_rq_take_waiting(rq);
}

void vb_managed_release_all(struct vb_qp *qp)
{
	if (!qp->rq || !qp->rq->managed)
		return;
	vb_spin_lock(&qp->nic->cross_lock);
	vb_managed_release(qp->managed, qp->managed->held_tail);
	qp->managed->receives.next = qp->managed->held_tail;
	vb_spin_unlock(&qp->nic->cross_lock);
}

static bool has_room(const struct vb_managed *managed, const struct vb_rq *rq)
{
	const uint32_t open =
		rq->many ? vb_rq_held(rq) : rq->tail - (uint32_t)atomic_load(&rq->head);

	return managed->held_tail - managed->held_head + open < rq->depth;
}

static int hold(struct vb_managed *managed, const struct ibv_recv_wr *wr)
{
	struct vb_rq *rq = managed->qp->rq;
	struct vb_managed_recv *held;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->sge_max)
		return -EINVAL;
	if (!has_room(managed, rq))
		return -ENOMEM;
	held = held_at(managed, managed->held_tail++);
	held->wr_id = wr->wr_id;
	held->num_sge = wr->num_sge;
	if (wr->num_sge)
		memcpy(held->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(held->sge[0]));
	return 0;
}

int vb_managed_post_recv(struct vb_rq *rq, struct ibv_recv_wr **wr)
{
	struct vb_managed *managed = rq->managed;
	int err = 0;

	vb_spin_lock(&rq->nic->cross_lock);
	for (; *wr; *wr = (*wr)->next) {
		err = hold(managed, *wr);
		if (err)
			break;
	}
	vb_spin_unlock(&rq->nic->cross_lock);
	/* After the receives were put there: the thread that fails the QP looks after it did so. */
	if (vb_qp_state(managed->qp) == IBV_QPS_ERR)
		vb_managed_release_all(managed->qp);
	return err;
}

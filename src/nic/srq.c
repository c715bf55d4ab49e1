/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "base/annotate.h"
#include "base/log.h"
#include "nic/call_wait.h"
#include "nic/fact.h"
#include "nic/tm.h"
#include "nic/xrcd.h"

static int check_attr(const struct ibv_srq_attr *attr)
{
	const uint32_t wr_max = vb_fact_u32(VB_FACT_MAX_SRQ_WR);
	const uint32_t sge_max = vb_fact_u32(VB_FACT_MAX_SRQ_SGE);

	if (!vb_fact(VB_FACT_MAX_SRQ)) {
		vb_explain("ibv_create_srq: the device has no SRQs");
		return -EOPNOTSUPP;
	}
	/* The man page says that srq_limit is ignored here. */
	if (attr->max_wr < 1 || attr->max_wr > wr_max) {
		vb_explain("ibv_create_srq: max_wr %u must be 1 to %u", attr->max_wr, wr_max);
		return -EINVAL;
	}
	if (attr->max_sge > sge_max) {
		vb_explain("ibv_create_srq: max_sge %u is more than the device's %u", attr->max_sge,
			   sge_max);
		return -EINVAL;
	}
	return 0;
}

static int number_take(struct vb_nic *nic, struct vb_srq *srq)
{
	int err = -ENOMEM;

	pthread_mutex_lock(&nic->lock);
	if (nic->srq_count < vb_fact(VB_FACT_MAX_SRQ)) {
		nic->srq_count++;
		srq->number = ++nic->next_srq;
		vb_list_append(&nic->srqs, &srq->node);
		err = 0;
	}
	pthread_mutex_unlock(&nic->lock);
	return err;
}

int vb_srq_create(struct vb_pd *pd, struct ibv_srq_init_attr *attr, struct vb_srq **out)
{
	int err = check_attr(&attr->attr);
	struct vb_srq *srq = err ? NULL : aligned_alloc(64, (sizeof(*srq) + 63) & ~63ul);

	if (!srq)
		return err ? err : -ENOMEM;
	*srq = (struct vb_srq){ 0 };
	vb_tell_filled(srq, sizeof(*srq));
	srq->pd = pd;
	srq->rq.consumer_lock = &srq->rq.drain_lock; /* other threads use it from vb_rq_init on */
	srq->rq.srq = srq;
	err = vb_rq_init(&srq->rq, pd, attr->attr.max_wr, attr->attr.max_sge, true);
	if (err) {
		free(srq);
		return err;
	}
	err = number_take(pd->nic, srq);
	if (err) {
		vb_rq_fini(&srq->rq);
		free(srq);
		return err;
	}
	srq->ibv.context = pd->ibv.context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = &pd->ibv;
	srq->ibv.handle = srq->number;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	atomic_fetch_add(&pd->users, 1);
	*out = srq;
	return 0;
}

static int resize(struct vb_srq *srq, uint32_t max_wr)
{
	if (max_wr < 1 || max_wr > vb_fact(VB_FACT_MAX_SRQ_WR) || max_wr < vb_rq_held(&srq->rq)) {
		vb_explain("ibv_modify_srq: SRQ %u: max_wr %u must be 1 to %u, and no less than "
			   "the %u receives that are posted",
			   srq->number, max_wr, vb_fact_u32(VB_FACT_MAX_SRQ_WR),
			   vb_rq_held(&srq->rq));
		return -EINVAL;
	}
	if (max_wr > (srq->rq.mask + 1) / 2)
		return vb_rq_grow(&srq->rq, max_wr);
	srq->rq.depth = srq->rq.open_max = max_wr;
	return 0;
}

static void watch_again(struct vb_cq_queue *queue)
{
	vb_spin_lock(&queue->cq->poll_lock);
	vb_cq_queue_watch(queue);
	vb_spin_unlock(&queue->cq->poll_lock);
}

/* CQs watch cells of the old ring, whose memory may soon have another use. */
static void leave_old_ring(struct vb_srq *srq)
{
	vb_list_for(qp, &srq->rq.nic->qps, struct vb_qp, node)
		if (qp->srq == srq)
			watch_again(&qp->receives);
	if (srq->cq)
		watch_again(&srq->receives);
}

/* The CQ must know how many receives may complete there. */
static int resize_and_tell(struct vb_srq *srq, uint32_t max_wr)
{
	int err = resize(srq, max_wr);

	if (!err)
		leave_old_ring(srq);
	if (!err && srq->cq)
		vb_cq_queue_resized(&srq->receives, srq->rq.depth);
	if (!err && srq->tm)
		vb_tm_resized(srq->tm);
	return err;
}

/* Counts receives that are posted, and that no message has taken. */
static uint32_t receives_left(struct vb_rq *rq)
{
	uint32_t count = 0;

	vb_spin_lock(rq->consumer_lock);
	vb_rq_for_open(twin, rq)
	{
		unsigned state = vb_cell_state(atomic_load(&vb_rq_cell(rq, twin->index)->word));

		count += state == VB_CELL_POSTED || state == VB_CELL_RETURNED;
	}
	vb_spin_unlock(rq->consumer_lock);
	return count;
}

int vb_srq_modify(struct vb_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	int err = 0;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) {
		vb_explain("ibv_modify_srq: SRQ %u: srq_attr_mask 0x%x names more than MAX_WR and "
			   "LIMIT",
			   srq->number, (unsigned)mask);
		return -EINVAL;
	}
	if (mask & IBV_SRQ_MAX_WR &&
	    !vb_fact_has(VB_FACT_DEVICE_CAP_FLAGS, IBV_DEVICE_SRQ_RESIZE)) {
		vb_explain("ibv_modify_srq: the device does not resize SRQs");
		return -EOPNOTSUPP;
	}
	if (mask & IBV_SRQ_LIMIT &&
	    attr->srq_limit > (mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->rq.depth)) {
		vb_explain("ibv_modify_srq: SRQ %u: srq_limit %u exceeds its max_wr %u",
			   srq->number, attr->srq_limit,
			   mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->rq.depth);
		return -EINVAL;
	}
	if (mask & IBV_SRQ_MAX_WR) {
		pthread_mutex_lock(&srq->rq.nic->lock);
		err = resize_and_tell(srq, attr->max_wr);
		pthread_mutex_unlock(&srq->rq.nic->lock);
	}
	if (err || !(mask & IBV_SRQ_LIMIT))
		return err;
	atomic_store(&srq->rq.lent->limit, attr->srq_limit);
	/* The queue is below the limit already: the event is due now. */
	if (attr->srq_limit && receives_left(&srq->rq) < attr->srq_limit &&
	    atomic_exchange(&srq->rq.lent->limit, 0)) {
		atomic_store(&srq->rq.lent->limit_reached, 1);
		vb_srq_collect_limit(srq);
	}
	return 0;
}

void vb_srq_query(struct vb_srq *srq, struct ibv_srq_attr *attr)
{
	attr->max_wr = srq->rq.depth;
	attr->max_sge = srq->rq.sge_max;
	attr->srq_limit = atomic_load(&srq->rq.lent->limit);
}

void vb_srq_collect_limit(struct vb_srq *srq)
{
	if (atomic_exchange(&srq->rq.lent->limit_reached, 0))
		vb_async_raise(srq->ibv.context, IBV_EVENT_SRQ_LIMIT_REACHED, &srq->ibv,
			       &srq->async_taken);
}

void vb_srq_damaged(struct vb_srq *srq)
{
	uint8_t sound = VB_SRQ_SOUND;

	if (!atomic_compare_exchange_strong(&srq->damage, &sound, VB_SRQ_DAMAGED))
		return;
	vb_peer_attend(srq->rq.nic->self, VB_ATTN_SRQ);
	vb_nic_ring(srq->rq.nic);
}

void vb_srq_collect_damage(struct vb_srq *srq)
{
	uint8_t damaged = VB_SRQ_DAMAGED;

	if (!atomic_compare_exchange_strong(&srq->damage, &damaged, VB_SRQ_DAMAGE_TOLD))
		return;
	vb_explain_work(
		"SRQ %u: a posted receive is lost: a process that shares its memory has damaged it",
		srq->number);
	vb_async_raise(srq->ibv.context, IBV_EVENT_SRQ_ERR, &srq->ibv, &srq->async_taken);
}

static void wait_for_acks(struct vb_srq *srq)
{
	int place = -1;

	vb_async_purge(srq->ibv.context, &srq->ibv);
	pthread_mutex_lock(&srq->ibv.mutex);
	while (srq->ibv.events_completed != atomic_load(&srq->async_taken)) {
		if (place < 0)
			place = vb_call_wait_begin("ibv_destroy_srq",
						   "asynchronous events that were not acknowledged "
						   "(ibv_ack_async_event)",
						   srq->number,
						   atomic_load(&srq->async_taken) -
							   srq->ibv.events_completed);
		pthread_cond_wait(&srq->ibv.cond, &srq->ibv.mutex);
	}
	vb_call_wait_end(place);
	vb_tell_acquire(&srq->ibv);
	pthread_mutex_unlock(&srq->ibv.mutex);
}

int vb_srq_destroy(struct vb_srq *srq)
{
	struct vb_nic *nic = srq->rq.nic;

	if (nic == vb_nic_current()) {
		int err = srq->xrcd ? vb_srq_leave_xrcd(srq) : 0;

		if (err)
			return err;
		pthread_mutex_lock(&nic->lock);
		if (atomic_load(&srq->users)) {
			pthread_mutex_unlock(&nic->lock);
			vb_explain("ibv_destroy_srq: %u QPs still use the SRQ",
				   atomic_load(&srq->users));
			return -EBUSY;
		}
		nic->srq_count--;
		vb_list_remove(&srq->node);
		vb_rq_fini(&srq->rq);
		pthread_mutex_unlock(&nic->lock);
		wait_for_acks(srq);
	}
	vb_tm_destroy(srq);
	vb_pd_release(srq->pd, nic);
	free(srq);
	return 0;
}

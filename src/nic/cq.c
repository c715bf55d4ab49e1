/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/cq.h"
#include "base/log.h"
#include "nic/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int check(const struct vb_nic *nic, const struct vb_cq_spec *spec)
{
	if (spec->channel && spec->channel->nic != nic) {
		vb_explain("ibv_create_cq: the completion channel belongs to the parent process");
		return -EINVAL;
	}
	if (spec->cqe < 1 || spec->cqe > VB_CQE_MAX) {
		vb_explain("ibv_create_cq: cqe %d must be 1 to %d", spec->cqe, VB_CQE_MAX);
		return -EINVAL;
	}
	if (spec->comp_vector < 0 || spec->comp_vector >= VB_COMP_VECTORS) {
		vb_explain("ibv_create_cq: comp_vector %d must be below %d", spec->comp_vector,
			   VB_COMP_VECTORS);
		return -EINVAL;
	}
	return 0;
}

static void channel_join(struct vb_cq *cq)
{
	if (!cq->channel)
		return;
	pthread_mutex_lock(&cq->channel->events->lock);
	cq->channel->ibv.refcnt++;
	vb_list_append(&cq->channel->cqs, &cq->channel_node);
	pthread_mutex_unlock(&cq->channel->events->lock);
}

static int enlist(struct vb_nic *nic, struct vb_cq *cq)
{
	int err = -ENOMEM;

	pthread_mutex_lock(&nic->lock);
	if (nic->cq_count < VB_CQ_MAX) {
		nic->cq_count++;
		vb_list_append(&nic->cqs, &cq->node);
		err = 0;
	}
	pthread_mutex_unlock(&nic->lock);
	return err;
}

static int cq_make(struct vb_cq *cq, struct vb_nic *nic, const struct vb_cq_spec *spec)
{
	int err;

	cq->nic = nic;
	cq->channel = spec->channel;
	vb_list_init(&cq->channel_node);
	vb_list_init(&cq->stray);
	vb_list_init(&cq->xrc_srqs);
	cq->shared_offset = vb_segment_lend(&nic->seg, sizeof(*cq->shared));
	if (!cq->shared_offset)
		return -ENOMEM;
	cq->shared = vb_segment_at(&nic->seg, cq->shared_offset);
	atomic_store(&cq->shared->cqe, (uint32_t)spec->cqe);
	cq->stamped = spec->stamped;
	atomic_store(&cq->shared->asks, cq->stamped ? VB_CQ_STAMPS : 0);
	cq->single_threaded = spec->single_threaded;
	cq->ignore_overrun = spec->ignore_overrun;
	err = enlist(nic, cq);
	if (err)
		vb_segment_free(&nic->seg, cq->shared_offset, sizeof(*cq->shared));
	return err;
}

int vb_cq_create(struct ibv_context *ctx, const struct vb_cq_spec *spec, struct vb_cq **out)
{
	struct vb_nic *nic = vb_nic_get();
	int err = nic ? check(nic, spec) : -errno;
	struct vb_cq *cq = err ? NULL : vb_buffer_alloc(spec->pd, sizeof(*cq), VB_BUFFER_CQ);

	if (!cq)
		return err ? err : -ENOMEM;
	cq->pd = spec->pd;
	err = cq_make(cq, nic, spec);
	if (err) {
		vb_buffer_free(spec->pd, cq, VB_BUFFER_CQ);
		return err;
	}
	if (cq->pd)
		atomic_fetch_add(&cq->pd->users, 1);
	cq->ibv.context = ctx;
	cq->ibv.channel = spec->channel ? &spec->channel->ibv : NULL;
	cq->ibv.cq_context = spec->cq_context;
	cq->ibv.cqe = spec->cqe;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	channel_join(cq);
	atomic_fetch_add(&vb_context(ctx)->objects, 1);
	*out = cq;
	return 0;
}

/* Events that were not taken from the channel go with the CQ; its counts too. */
static void channel_leave(struct vb_cq *cq)
{
	if (!cq->channel)
		return;
	pthread_mutex_lock(&cq->channel->events->lock);
	vb_list_remove(&cq->channel_node);
	cq->channel->ibv.refcnt--;
	for (uint32_t n = atomic_exchange(&cq->events_pending, 0); n; n--)
		vb_event_fd_uncount(cq->channel->events);
	pthread_mutex_unlock(&cq->channel->events->lock);
}

static void wait_for_acks(struct vb_cq *cq)
{
	vb_async_purge(cq->ibv.context, &cq->ibv);
	pthread_mutex_lock(&cq->ibv.mutex);
	while (cq->ibv.comp_events_completed != cq->events_taken ||
	       cq->ibv.async_events_completed != atomic_load(&cq->async_taken))
		pthread_cond_wait(&cq->ibv.cond, &cq->ibv.mutex);
	pthread_mutex_unlock(&cq->ibv.mutex);
}

static void stray_drop_all(struct vb_cq *cq)
{
	vb_list_for(stray, &cq->stray, struct vb_wc_node, node)
		free(stray);
}

static void free_object(struct vb_cq *cq)
{
	struct vb_pd *pd = cq->pd;
	struct vb_nic *nic = cq->nic;

	vb_buffer_free(pd, cq, VB_BUFFER_CQ);
	if (pd)
		vb_pd_release(pd, nic);
}

int vb_cq_destroy(struct vb_cq *cq)
{
	struct vb_nic *nic = cq->nic;

	if (nic == vb_nic_current()) {
		pthread_mutex_lock(&nic->lock);
		if (atomic_load(&cq->users)) {
			pthread_mutex_unlock(&nic->lock);
			vb_explain("ibv_destroy_cq: %u queues of QPs still complete here",
				   atomic_load(&cq->users));
			return -EBUSY;
		}
		nic->cq_count--;
		vb_list_remove(&cq->node);
		vb_nic_free_later(nic, 0, cq->shared_offset, sizeof(*cq->shared));
		pthread_mutex_unlock(&nic->lock);
		channel_leave(cq); /* in a child its lock and its count are the parent's */
		wait_for_acks(cq);
	}
	atomic_fetch_sub(&vb_context(cq->ibv.context)->objects, 1);
	stray_drop_all(cq);
	free(cq->qps);
	free(cq->by_bit);
	free(cq->bit_first);
	free_object(cq);
	return 0;
}

/* --- attached queue pairs; under nic->lock --- */

/* Completions that wait in the attached queues; under the poll lock. */
static uint32_t waiting(struct vb_cq *cq)
{
	uint32_t count = atomic_load(&cq->stray_count);

	for (uint32_t i = 0; i < cq->qp_count; i++)
		count += vb_cq_waiting_of(cq, cq->qps[i]);
	vb_list_for(srq, &cq->xrc_srqs, struct vb_srq, cq_node)
		count += vb_cq_waiting_of_srq(srq);
	return count;
}

void vb_cq_look_again(struct vb_cq *cq)
{
	uint32_t count;

	vb_spin_lock(&cq->poll_lock);
	count = waiting(cq);
	vb_spin_unlock(&cq->poll_lock);
	if (!count)
		return;
	for (uint16_t bit = 1; bit < VB_READY_BITS && atomic_load(&cq->shared->use_ready); bit++)
		vb_cq_set_ready(cq->shared, bit);
	vb_cq_notify(cq, 0, true);
}

/* Counting costs an atomic per completion: only where the queue could overrun at all. */
static void counted_update(struct vb_cq *cq)
{
	bool counts = cq->attached_depth > (uint64_t)cq->ibv.cqe && !cq->ignore_overrun;
	uint32_t asks = (counts ? VB_CQ_COUNTS : 0) | (cq->stamped ? VB_CQ_STAMPS : 0);

	if (asks == atomic_load(&cq->shared->asks))
		return;
	atomic_store(&cq->shared->count, waiting(cq));
	atomic_store(&cq->shared->asks, asks);
}

static int list_add(struct vb_cq *cq, struct vb_qp *qp)
{
	if (cq->qp_count == cq->qp_room) {
		uint32_t room = cq->qp_room ? 2 * cq->qp_room : 4;
		struct vb_qp **more = realloc(cq->qps, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		cq->qps = more;
		cq->qp_room = room;
	}
	cq->qps[cq->qp_count++] = qp;
	return 0;
}

int vb_cq_index_bits(struct vb_cq *cq)
{
	uint32_t *first = calloc(VB_READY_BITS + 1, sizeof(*first));
	struct vb_qp **sorted = malloc((cq->qp_count + 1) * sizeof(*sorted));

	if (!first || !sorted) {
		free(first);
		free(sorted);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < cq->qp_count; i++)
		first[cq->qps[i]->ibv.qp_num % VB_READY_BITS]++;
	for (uint32_t bit = 1; bit <= VB_READY_BITS; bit++)
		first[bit] += first[bit - 1];
	/* Now first[bit] is the end of the bit; filling from behind turns it into the start. */
	for (uint32_t i = cq->qp_count; i-- > 0;)
		sorted[--first[cq->qps[i]->ibv.qp_num % VB_READY_BITS]] = cq->qps[i];
	free(cq->bit_first);
	free(cq->by_bit);
	cq->bit_first = first;
	cq->by_bit = sorted;
	cq->by_bit_stale = false;
	return 0;
}

int vb_cq_attach(struct vb_cq *cq, struct vb_qp *qp, uint32_t depth, uint16_t *ready_bit)
{
	int err = 0;

	vb_spin_lock(&cq->poll_lock);
	/* Both queues of a QP may complete here: it is looked at once. The last one in the list
	 * is the only candidate: send and receive side attach one after the other. */
	if (!cq->qp_count || cq->qps[cq->qp_count - 1] != qp)
		err = list_add(cq, qp);
	if (!err) {
		*ready_bit = (uint16_t)(qp->ibv.qp_num % VB_READY_BITS);
		cq->attached_depth += depth;
		cq->by_bit_stale = true;
		counted_update(cq);
		atomic_fetch_add(&cq->users, 1);
		if (cq->qp_count > VB_CQ_FEW && !atomic_load(&cq->shared->use_ready)) {
			/* Whoever published without a ready bit did so before this store. */
			atomic_store(&cq->shared->use_ready, 1);
			for (uint32_t i = 0; i < cq->qp_count; i++)
				vb_cq_set_ready(cq->shared,
						(uint16_t)(cq->qps[i]->ibv.qp_num % VB_READY_BITS));
		}
	}
	vb_spin_unlock(&cq->poll_lock);
	return err;
}

/* Of both sides at once: the second time it is not found in the list. Those in an SRQ are purged. */
static void forget_own(struct vb_cq *cq, const struct vb_qp *qp)
{
	if (qp->send_cq == cq)
		vb_cq_forget_sq(cq, &qp->sq);
	if (qp->recv_cq == cq && !qp->srq)
		vb_cq_forget_rq(cq, qp->rq);
}

void vb_cq_detach(struct vb_cq *cq, struct vb_qp *qp, uint32_t depth)
{
	vb_spin_lock(&cq->poll_lock);
	for (uint32_t i = 0; i < cq->qp_count; i++) {
		if (cq->qps[i] != qp)
			continue;
		memmove(&cq->qps[i], &cq->qps[i + 1],
			(cq->qp_count - i - 1) * sizeof(struct vb_qp *));
		cq->qp_count--;
		cq->by_bit_stale = true;
		forget_own(cq, qp);
		break;
	}
	cq->attached_depth -= depth;
	counted_update(cq);
	atomic_fetch_sub(&cq->users, 1);
	vb_spin_unlock(&cq->poll_lock);
}

void vb_cq_attach_srq(struct vb_cq *cq, struct vb_srq *srq)
{
	vb_spin_lock(&cq->poll_lock);
	vb_list_append(&cq->xrc_srqs, &srq->cq_node);
	cq->attached_depth += srq->rq.depth;
	counted_update(cq);
	atomic_fetch_add(&cq->users, 1);
	vb_spin_unlock(&cq->poll_lock);
}

void vb_cq_detach_srq(struct vb_cq *cq, struct vb_srq *srq)
{
	vb_spin_lock(&cq->poll_lock);
	vb_list_remove(&srq->cq_node);
	vb_cq_forget_rq(cq, &srq->rq);
	cq->attached_depth -= srq->rq.depth;
	counted_update(cq);
	atomic_fetch_sub(&cq->users, 1);
	vb_spin_unlock(&cq->poll_lock);
}

void vb_cq_srq_resized(struct vb_cq *cq, uint32_t before, uint32_t after)
{
	vb_spin_lock(&cq->poll_lock);
	cq->attached_depth += (uint64_t)after - before;
	counted_update(cq);
	vb_spin_unlock(&cq->poll_lock);
}

int vb_cq_resize(struct vb_cq *cq, int cqe)
{
	int err = 0;

	if (cqe < 1 || cqe > VB_CQE_MAX)
		return -EINVAL;
	pthread_mutex_lock(&cq->nic->lock);
	vb_spin_lock(&cq->poll_lock);
	if (waiting(cq) > (uint32_t)cqe) {
		vb_explain("ibv_resize_cq: %u completions wait, more than the new size %d",
			   waiting(cq), cqe);
		err = -EINVAL;
	} else {
		cq->ibv.cqe = cqe;
		atomic_store(&cq->shared->cqe, (uint32_t)cqe);
		counted_update(cq);
	}
	vb_spin_unlock(&cq->poll_lock);
	pthread_mutex_unlock(&cq->nic->lock);
	return err;
}

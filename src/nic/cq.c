/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/annotate.h"
#include "base/log.h"
#include "nic/call_wait.h"
#include "nic/fact.h"
#include "nic/ledger.h"
#include "nic/qp.h"

static int spec_check(const struct vb_nic *nic, const struct vb_cq_spec *spec)
{
	if (spec->channel && spec->channel->nic != nic) {
		vb_explain("ibv_create_cq: the completion channel belongs to the parent process");
		return -EINVAL;
	}
	if (spec->cqe < 1 || (unsigned)spec->cqe > vb_fact(VB_FACT_MAX_CQE)) {
		vb_explain("ibv_create_cq: cqe %d must be 1 to %u", spec->cqe,
			   vb_fact_u32(VB_FACT_MAX_CQE));
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

static int cq_enlist(struct vb_nic *nic, struct vb_cq *cq)
{
	int err = -ENOMEM;

	pthread_mutex_lock(&nic->lock);
	if (nic->cq_count < vb_fact(VB_FACT_MAX_CQ)) {
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
	vb_waiters_init(&cq->waiters);
	cq->shared_offset = vb_segment_lend(&nic->seg, sizeof(*cq->shared));
	if (!cq->shared_offset)
		return -ENOMEM;
	cq->shared = vb_segment_at(&nic->seg, cq->shared_offset);
	atomic_store(&cq->shared->cqe, (uint32_t)spec->cqe);
	atomic_store(&cq->shared->number, VB_CQ_NUMBER_FIRST);
	cq->stamped = spec->stamped;
	atomic_store(&cq->asks, cq->stamped ? VB_CQ_STAMPS : 0);
	atomic_store(&cq->shared->asks, vb_cq_own_asks(cq));
	vb_cq_watches_describe(cq);
	cq->single_threaded = spec->single_threaded;
	cq->ignore_overrun = spec->ignore_overrun;
	err = cq_enlist(nic, cq);
	if (err)
		vb_segment_free(&nic->seg, cq->shared_offset, sizeof(*cq->shared));
	return err;
}

/* Without a parent domain the application's pointer is the one that free takes: librdmacm keeps a
 * CQ for ever, and tools that look for leaks look for such pointers. */
static struct vb_cq *memory_alloc(struct vb_pd *pd)
{
	struct vb_cq *cq;

	if (pd)
		return vb_buffer_alloc(pd, sizeof(*cq), VB_BUFFER_CQ);
	cq = aligned_alloc(64, (sizeof(*cq) + 63) & ~63ul);
	if (!cq)
		return NULL;
	memset(cq, 0, sizeof(*cq));
	vb_tell_filled(cq, sizeof(*cq));
	return cq;
}

static void memory_free(struct vb_pd *pd, struct vb_cq *cq)
{
	if (pd)
		vb_buffer_free(pd, cq, VB_BUFFER_CQ);
	else
		free(cq);
}

int vb_cq_create(struct ibv_context *ctx, const struct vb_cq_spec *spec, struct vb_cq **out)
{
	struct vb_nic *nic = vb_nic_get();
	int err = nic ? spec_check(nic, spec) : -errno;
	struct vb_cq *cq = err ? NULL : memory_alloc(spec->pd);

	if (!cq)
		return err ? err : -ENOMEM;
	cq->pd = spec->pd;
	cq->pace.needed = VB_PACE_NEEDED;
	err = cq_make(cq, nic, spec);
	if (err) {
		memory_free(spec->pd, cq);
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

/* Drops the CQ's events that were not taken from the channel, and their counts. */
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

/* Under ibv.mutex. */
static int wait_note(const struct vb_cq *cq)
{
	const uint32_t events = cq->events_taken - cq->ibv.comp_events_completed;
	const uint32_t number = (uint32_t)(cq->shared_offset / 64);

	if (events)
		return vb_call_wait_begin("ibv_destroy_cq",
					  "completion events that were not acknowledged "
					  "(ibv_ack_cq_events)",
					  number, events);
	return vb_call_wait_begin(
		"ibv_destroy_cq",
		"asynchronous events that were not acknowledged (ibv_ack_async_event)", number,
		atomic_load(&cq->async_taken) - cq->ibv.async_events_completed);
}

static void wait_for_acks(struct vb_cq *cq)
{
	int place = -1;

	vb_async_purge(cq->ibv.context, &cq->ibv);
	pthread_mutex_lock(&cq->ibv.mutex);
	while (cq->ibv.comp_events_completed != cq->events_taken ||
	       cq->ibv.async_events_completed != atomic_load(&cq->async_taken)) {
		if (place < 0)
			place = wait_note(cq);
		pthread_cond_wait(&cq->ibv.cond, &cq->ibv.mutex);
	}
	vb_call_wait_end(place);
	vb_tell_acquire(&cq->ibv);
	pthread_mutex_unlock(&cq->ibv.mutex);
}

static void free_object(struct vb_cq *cq)
{
	struct vb_pd *pd = cq->pd;
	struct vb_nic *nic = cq->nic;

	memory_free(pd, cq);
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
			vb_explain("ibv_destroy_cq: %u queues still complete in CQ %u",
				   atomic_load(&cq->users), (unsigned)(cq->shared_offset / 64));
			return -EBUSY;
		}
		nic->cq_count--;
		vb_list_remove(&cq->node);
		vb_nic_free_later(nic, 0, cq->shared_offset, sizeof(*cq->shared));
		vb_cq_pages_free(cq);
		vb_cq_trail_free(cq);
		pthread_mutex_unlock(&nic->lock);
		vb_waiters_end(cq);
		vb_ledger_close(cq);
		channel_leave(cq); /* not in a child: lock and count belong to the parent */
		wait_for_acks(cq);
	}
	atomic_fetch_sub(&vb_context(cq->ibv.context)->objects, 1);
	free(cq->queues);
	free(cq->bits);
	free(cq->ready_pages);
	free_object(cq);
	return 0;
}

void vb_cq_ignore_overrun(struct vb_cq *cq)
{
	pthread_mutex_lock(&cq->nic->lock);
	vb_spin_lock(&cq->poll_lock);
	cq->ignore_overrun = true;
	vb_cq_asks_update(cq);
	vb_spin_unlock(&cq->poll_lock);
	pthread_mutex_unlock(&cq->nic->lock);
}

int vb_cq_resize(struct vb_cq *cq, int cqe)
{
	uint32_t waiting;
	int err = 0;

	if (cqe < 1 || (unsigned)cqe > vb_fact(VB_FACT_MAX_CQE)) {
		vb_explain("ibv_resize_cq: cqe %d must be 1 to %u", cqe,
			   vb_fact_u32(VB_FACT_MAX_CQE));
		return -EINVAL;
	}
	pthread_mutex_lock(&cq->nic->lock);
	vb_spin_lock(&cq->poll_lock);
	waiting = vb_cq_waiting(cq) + vb_ledger_count(cq);
	if (waiting > (uint32_t)cqe) {
		vb_explain("ibv_resize_cq: %u completions wait, more than the new size %d", waiting,
			   cqe);
		err = -EINVAL;
	} else {
		cq->ibv.cqe = cqe;
		atomic_store(&cq->shared->cqe, (uint32_t)cqe);
		vb_cq_asks_update(cq);
	}
	vb_spin_unlock(&cq->poll_lock);
	pthread_mutex_unlock(&cq->nic->lock);
	return err;
}

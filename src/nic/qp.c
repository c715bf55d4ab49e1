/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/annotate.h"
#include "base/log.h"
#include "nic/call_wait.h"
#include "nic/comp_cntr.h"
#include "nic/fact.h"
#include "nic/lane.h"
#include "nic/managed.h"
#include "nic/qp_cap.h"
#include "nic/qp_ext.h"
#include "nic/tm.h"
#include "nic/xrcd.h"

static int attr_check(struct ibv_qp_init_attr *attr)
{
	int err = vb_qp_cap_check_type(attr->qp_type);

	if (err)
		return err;
	if (!attr->send_cq || !attr->recv_cq) {
		vb_explain("ibv_create_qp: %s is NULL", attr->send_cq ? "recv_cq" : "send_cq");
		return -EINVAL;
	}
	if (attr->srq && (attr->qp_type == IBV_QPT_XRC_SEND || vb_srq(attr->srq)->xrcd)) {
		vb_explain("ibv_create_qp: %s",
			   vb_srq(attr->srq)->xrcd ? "an XRC SRQ takes messages from XRC QPs only"
						   : "an XRC_SEND QP has no shared receive queue");
		return -EINVAL;
	}
	if (attr->srq && vb_srq(attr->srq)->tm && attr->qp_type != IBV_QPT_RC) {
		vb_explain("ibv_create_qp: tags are matched on RC QPs only");
		return -EINVAL;
	}
	return vb_qp_cap_check(attr);
}

/* Completions that the QP's own receive queue can bring to its CQ; an SRQ counts as none. */
static uint32_t recv_depth(const struct vb_qp *qp)
{
	return qp->srq ? 0 : qp->rq->depth;
}

static int queues_make(struct vb_qp *qp, const struct ibv_qp_cap *cap)
{
	int err;

	qp->sq.pd = qp->pd;
	if (qp->srq && qp->srq->tm)
		err = vb_tm_sq_init(&qp->sq, cap);
	else
		err = vb_sq_init(&qp->sq, cap->max_send_wr, cap->max_send_sge,
				 cap->max_inline_data);
	if (err)
		return err;
	if (qp->srq) {
		qp->rq = &qp->srq->rq;
		return 0;
	}
	qp->rq = &qp->own_rq;
	qp->own_rq.consumer_lock = &qp->recv_cq->poll_lock;
	err = vb_rq_init(qp->rq, qp->pd, cap->max_recv_wr, cap->max_recv_sge,
			 qp->type == IBV_QPT_UD || qp->type == IBV_QPT_RAW_PACKET);
	if (err)
		vb_sq_fini(&qp->sq);
	return err;
}

static void queues_free(struct vb_qp *qp)
{
	vb_qp_ext_free(qp);
	vb_managed_put(qp->managed);
	vb_sq_fini(&qp->sq);
	if (!qp->srq)
		vb_rq_fini(qp->rq);
}

static void entry_make(struct vb_qp *qp)
{
	struct vb_qp_entry *entry = vb_peer_qp(qp->nic->self, qp->ibv.qp_num);

	qp->entry = entry;
	qp->lent = vb_peer_qp_lent(qp->nic->self, entry);
	entry->qpn = qp->ibv.qp_num;
	entry->type = qp->type;
	entry->pd = qp->pd->id;
	entry->rq = qp->rq->shared_offset;
	entry->recv_cq = qp->recv_cq->shared_offset;
	entry->ready_bit = qp->receives.bit;
	entry->has_srq = qp->srq != NULL;
	entry->by_packets = (uint8_t)((qp->srq && qp->srq->tm ? VB_BY_PACKETS_TAGS : 0) |
				      (qp->nic->own_hands ? VB_BY_PACKETS_MEMORY : 0));
	atomic_store(&qp->lent->attention, 0);
	atomic_store(&qp->lent->binder, 0);
	atomic_store(&qp->lent->dropped, 0);
	atomic_store(&qp->lent->bad_pkey, 0);
	atomic_store(&qp->lent->bad_qkey, 0);
	atomic_store(&entry->counts, 0);
	qp->epoch = atomic_fetch_add(&qp->nic->next_epoch, 1);
	atomic_store(&qp->pkey, vb_pkey_at(0));
	atomic_store(&entry->gate, vb_qp_gate_in(qp, IBV_QPS_RESET));
}

static int queues_attach(struct vb_qp *qp)
{
	int err;

	qp->sends = (struct vb_cq_queue){
		.kind = VB_CQ_SENDS, .sq = &qp->sq, .qp = qp, .depth = qp->sq.depth
	};
	qp->receives =
		(struct vb_cq_queue){ .kind = qp->rq->many ? VB_CQ_ARRIVALS : VB_CQ_RECEIVES,
				      .rq = qp->rq,
				      .qp = qp,
				      .depth = recv_depth(qp),
				      .arrivals = qp->srq ? &qp->arrivals : &qp->rq->arrivals };
	err = vb_cq_attach(qp->send_cq, &qp->sends);
	if (err)
		return err;
	err = vb_cq_attach(qp->recv_cq, &qp->receives);
	if (err)
		vb_cq_detach(&qp->sends);
	return err;
}

/* Under nic->lock. */
static int qp_enlist(struct vb_qp *qp)
{
	struct vb_nic *nic = qp->nic;
	uint32_t qpn;
	int err;

	if (nic->qp_count >= vb_fact(VB_FACT_MAX_QP))
		return -ENOMEM;
	err = vb_nic_qpn_alloc(nic, qp, vb_lane_choose(qp), &qpn);
	if (err)
		return err;
	qp->ibv.qp_num = qpn;
	qp->ibv.handle = qpn;
	qp->own_rq.qpn = qpn;
	err = queues_attach(qp);
	if (err) {
		vb_nic_qpn_free(nic, qpn);
		return err;
	}
	entry_make(qp);
	vb_lane_join(qp);
	nic->qp_count++;
	vb_list_append(&nic->qps, &qp->node);
	return 0;
}

/* A datagram is one packet, within the port's MTU. */
static uint32_t datagram_max(struct ibv_context *ctx)
{
	struct ibv_port_attr attr;

	if (vb_device_port_attr(vb_context(ctx)->dev, 1, &attr))
		return 0;
	return 128u << attr.active_mtu;
}

static int qp_make(struct vb_qp *qp, struct vb_pd *pd, const struct ibv_qp_init_attr *attr)
{
	int err;

	qp->nic = pd->nic;
	qp->pd = pd;
	qp->ibv.context = pd->ibv.context; /* before enlist: counters of the port read it */
	qp->type = attr->qp_type;
	qp->sig_all = attr->sq_sig_all;
	qp->send_cq = vb_cq(attr->send_cq);
	qp->recv_cq = vb_cq(attr->recv_cq);
	qp->srq = attr->srq ? vb_srq(attr->srq) : NULL;
	qp->cap = attr->cap;
	if (qp->type == IBV_QPT_UD)
		qp->datagram_max = datagram_max(pd->ibv.context);
	vb_list_init(&qp->pend.node);
	vb_list_init(&qp->wire_kick);
	vb_list_init(&qp->handles);
	vb_list_init(&qp->sessions);
	err = queues_make(qp, &attr->cap);
	if (err)
		return err;
	pthread_mutex_lock(&qp->nic->lock);
	vb_nic_quarantine_check(qp->nic);
	err = qp_enlist(qp);
	pthread_mutex_unlock(&qp->nic->lock);
	if (err)
		queues_free(qp);
	return err;
}

static void ibv_fill(struct vb_qp *qp, const struct ibv_qp_init_attr *attr)
{
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = &qp->pd->ibv;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.srq = attr->srq;
	qp->ibv.state = IBV_QPS_RESET;
	qp->ibv.qp_type = attr->qp_type;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
}

int vb_qp_create(struct vb_pd *pd, struct ibv_qp_init_attr *attr, struct vb_qp **out)
{
	int err = attr_check(attr);
	struct vb_qp *qp = err ? NULL : aligned_alloc(64, (sizeof(*qp) + 63) & ~63ul);

	if (!qp)
		return err ? err : -ENOMEM;
	memset(qp, 0, sizeof(*qp));
	vb_tell_filled(qp, sizeof(*qp));
	if (attr->srq) /* ignored: the application gets 0 back */
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
	err = qp_make(qp, pd, attr);
	if (err) {
		free(qp);
		return err;
	}
	ibv_fill(qp, attr);
	atomic_fetch_add(&pd->users, 1);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, 1);
	*out = qp;
	return 0;
}

void (*_Atomic vb_qp_established)(uint32_t qpn);

void vb_qp_raise(struct vb_qp *qp, enum ibv_event_type type)
{
	void (*established)(uint32_t qpn) = atomic_load(&vb_qp_established);

	if (type == IBV_EVENT_COMM_EST && established)
		established(qp->ibv.qp_num);
	if (qp->type == IBV_QPT_XRC_RECV)
		vb_xrc_qp_raise(qp, type);
	else if (qp->wq && type == IBV_EVENT_QP_FATAL)
		vb_async_raise(qp->ibv.context, IBV_EVENT_WQ_FATAL, qp->wq, &qp->async_taken);
	else if (!qp->wq)
		vb_async_raise(qp->ibv.context, type, &qp->ibv, &qp->async_taken);
}

void vb_qp_token_wait(struct vb_qp *qp)
{
	while (!vb_qp_token_try(qp))
		sched_yield();
}

void vb_remote_unbind(struct vb_remote *remote)
{
	atomic_store_explicit(&remote->direct, 0, memory_order_relaxed);
	if (remote->home != remote->peer)
		vb_peer_put(remote->home);
	vb_peer_put(remote->peer);
	memset(&remote->peer, 0, sizeof(*remote) - offsetof(struct vb_remote, peer));
}

static void wait_for_acks(struct vb_qp *qp)
{
	pthread_mutex_t *mutex = qp->wq ? &qp->wq->mutex : &qp->ibv.mutex;
	pthread_cond_t *cond = qp->wq ? &qp->wq->cond : &qp->ibv.cond;
	const uint32_t *completed = qp->wq ? &qp->wq->events_completed : &qp->ibv.events_completed;

	int place = -1;

	vb_async_purge(qp->ibv.context, qp->wq ? (void *)qp->wq : (void *)&qp->ibv);
	pthread_mutex_lock(mutex);
	while (*completed != atomic_load(&qp->async_taken)) {
		if (place < 0)
			place = vb_call_wait_begin("ibv_destroy_qp",
						   "asynchronous events that were not acknowledged "
						   "(ibv_ack_async_event)",
						   qp->ibv.qp_num,
						   atomic_load(&qp->async_taken) - *completed);
		pthread_cond_wait(cond, mutex);
	}
	vb_call_wait_end(place);
	vb_tell_acquire(qp->wq ? (void *)qp->wq : (void *)&qp->ibv);
	pthread_mutex_unlock(mutex);
}

/* A message under way will not end: its sender finds another connection, or none. */
static void return_taken(struct vb_qp *qp, struct vb_rq *rq, struct vb_cell *cell, uint32_t index)
{
	uint64_t word = atomic_load(&cell->word);

	if (vb_cell_state(word) != VB_CELL_TAKEN || qp->inside)
		return;
	atomic_store(&cell->word, vb_cell_word(index, 0, vb_cell_flags(word), VB_CELL_RETURNED));
	atomic_store(&rq->lent->returned, 1);
}

static bool is_numbered(const struct vb_cell *cell)
{
	return cell->stamped && vb_cq_is_number(vb_cq_stamp_of(cell->stamp));
}

/* Drops completed cells of the shared queue that were not polled yet. */
static void purge_shared(struct vb_qp *qp)
{
	struct vb_rq *rq = qp->rq;
	uint32_t gone = 0, numbered = 0;

	vb_spin_lock(&rq->drain_lock);
	for (; atomic_load_explicit(&qp->arrivals.count, memory_order_relaxed); gone++) {
		numbered += is_numbered(vb_rq_cell(rq, qp->arrivals.first));
		vb_rq_consume(rq, &qp->arrivals, qp->arrivals.first);
	}
	vb_rq_for_open(twin, rq)
	{
		struct vb_cell *cell = vb_rq_cell(rq, twin->index);

		/* An ARRIVED receive is in the list of another QP; the cell may lie. */
		if (cell->qpn != qp->ibv.qp_num || atomic_load(&twin->open) == VB_RECV_ARRIVED)
			continue;
		return_taken(qp, rq, cell, twin->index);
		if (vb_cell_state(atomic_load(&cell->word)) != VB_CELL_DONE)
			continue;
		vb_rq_consume(rq, NULL, twin->index);
		numbered += is_numbered(cell);
		gone++;
	}
	vb_rq_collect_returned(rq);
	vb_spin_unlock(&rq->drain_lock);
	vb_cq_forget(qp->recv_cq, gone);
	atomic_fetch_add(&qp->recv_cq->shared->voids, numbered);
}

void vb_qp_purge(struct vb_qp *qp)
{
	if (qp->srq)
		purge_shared(qp);
}

void vb_qp_withdraw(struct vb_qp *qp)
{
	struct vb_nic *nic = qp->nic;

	pthread_mutex_lock(&nic->lock);
	nic->qp_count--;
	vb_lane_leave(qp);
	nic->dropped += atomic_load(&qp->lent->dropped);
	vb_qp_keep_violations(qp);
	vb_list_remove(&qp->node);
	atomic_store(&qp->entry->gate, 0);
	vb_comp_cntr_withdraw(qp);
	vb_nic_qpn_free(nic, qp->ibv.qp_num); /* before the purge: a drain must not find the QP */
	vb_cq_detach(&qp->sends);
	vb_cq_detach(&qp->receives);
	vb_qp_purge(qp);
	vb_qp_flush_cancel(qp);
	if (qp->entry->by_packets)
		vb_tm_rndv_forget(qp);
	queues_free(qp);
	pthread_mutex_unlock(&nic->lock);
}

int vb_qp_destroy(struct vb_qp *qp)
{
	if (qp->nic == vb_nic_current()) {
		vb_remote_unbind(&qp->remote);
		wait_for_acks(qp);
		if (qp->srq)
			atomic_fetch_sub(&qp->srq->users, 1);
	}
	vb_comp_cntr_detach(qp);
	vb_pd_release(qp->pd, qp->nic);
	free(qp);
	return 0;
}

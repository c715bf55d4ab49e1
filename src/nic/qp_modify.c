/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_modify_qp: check everything, then change everything. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "nic/comp_cntr.h"
#include "nic/fact.h"
#include "nic/ledger.h"
#include "nic/managed.h"
#include "nic/migrate.h"
#include "nic/qp.h"
#include "nic/qp_edges.h"
#include "nic/qp_ext.h"
#include "nic/rate.h"
#include "nic/tm.h"

enum {
	QP_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_FLUSH_GLOBAL |
		    IBV_ACCESS_FLUSH_PERSISTENT |
		    /* These mean nothing for a QP, but programs pass the flags of regions. */
		    IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB |
		    IBV_ACCESS_OPTIONAL_RANGE,
	RETRIES_MAX = 7,
	TIMER_MAX = 31,
};

struct range {
	int mask;
	uint32_t value, max;
	const char *name;
};

static int check_ranges(const struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct range ranges[] = {
		{ IBV_QP_PKEY_INDEX, attr->pkey_index, vb_pkey_table_length() - 1, "pkey_index" },
		{ IBV_QP_MAX_QP_RD_ATOMIC, attr->max_rd_atomic,
		  vb_fact_u32(VB_FACT_MAX_QP_INIT_RD_ATOM), "max_rd_atomic" },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic,
		  vb_fact_u32(VB_FACT_MAX_QP_RD_ATOM), "max_dest_rd_atomic" },
		{ IBV_QP_MIN_RNR_TIMER, attr->min_rnr_timer, TIMER_MAX, "min_rnr_timer" },
		{ IBV_QP_TIMEOUT, attr->timeout, TIMER_MAX, "timeout" },
		{ IBV_QP_RETRY_CNT, attr->retry_cnt, RETRIES_MAX, "retry_cnt" },
		{ IBV_QP_RNR_RETRY, attr->rnr_retry, RETRIES_MAX, "rnr_retry" },
		{ IBV_QP_DEST_QPN, attr->dest_qp_num, VB_MASK24, "dest_qp_num" },
		{ IBV_QP_RATE_LIMIT, attr->rate_limit, vb_fact_u32(VB_FACT_QP_RATE_LIMIT_MAX),
		  "rate_limit" },
		{ IBV_QP_ACCESS_FLAGS, attr->qp_access_flags & ~(unsigned)QP_ACCESS, 0,
		  "unknown bits in qp_access_flags" },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
		if (!(mask & ranges[i].mask) || ranges[i].value <= ranges[i].max)
			continue;
		vb_explain("ibv_modify_qp: QP 0x%06x: %s is %u, at most %u is allowed",
			   qp->ibv.qp_num, ranges[i].name, ranges[i].value, ranges[i].max);
		return -EINVAL;
	}
	return 0;
}

static int check_values(const struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_PORT && attr->port_num != 1) {
		vb_explain("ibv_modify_qp: QP 0x%06x: port_num is %u, the device has port 1 only",
			   qp->ibv.qp_num, attr->port_num);
		return -EINVAL;
	}
	if (mask & IBV_QP_PATH_MTU &&
	    (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > vb_fact(VB_FACT_MAX_MTU))) {
		vb_explain("ibv_modify_qp: QP 0x%06x: path_mtu %d is none of IBV_MTU_256 to "
			   "IBV_MTU_%u",
			   qp->ibv.qp_num, attr->path_mtu, 128u << vb_fact(VB_FACT_MAX_MTU));
		return -EINVAL;
	}
	return check_ranges(qp, attr, mask);
}

/* Adopts the attributes that the mask names. */
static void adopt_attr(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *own = &qp->attr;

#define ADOPT(bit, field)                         \
	do {                                      \
		if (mask & (bit))                 \
			own->field = attr->field; \
	} while (0)
	ADOPT(IBV_QP_PKEY_INDEX, pkey_index);
	ADOPT(IBV_QP_PORT, port_num);
	ADOPT(IBV_QP_QKEY, qkey);
	ADOPT(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	ADOPT(IBV_QP_AV, ah_attr);
	ADOPT(IBV_QP_PATH_MTU, path_mtu);
	ADOPT(IBV_QP_DEST_QPN, dest_qp_num);
	ADOPT(IBV_QP_RQ_PSN, rq_psn);
	ADOPT(IBV_QP_SQ_PSN, sq_psn);
	ADOPT(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	ADOPT(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	ADOPT(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	ADOPT(IBV_QP_TIMEOUT, timeout);
	ADOPT(IBV_QP_RETRY_CNT, retry_cnt);
	ADOPT(IBV_QP_RNR_RETRY, rnr_retry);
#undef ADOPT
	/* Only if they are given: the executor reads them meanwhile. */
	if (mask & IBV_QP_RQ_PSN)
		own->rq_psn &= VB_MASK24;
	if (mask & IBV_QP_SQ_PSN)
		own->sq_psn &= VB_MASK24;
}

/*
 * Shows attributes to peers: before the gate opens, or single fields while it is open. Relaxed: the
 * store of the gate releases them, and a single field stands for itself.
 */
static void show_attr(struct vb_qp *qp)
{
	struct vb_qp_entry *entry = qp->entry;

	atomic_store_explicit(&entry->qkey, qp->attr.qkey, memory_order_relaxed);
	atomic_store_explicit(&entry->access, qp->attr.qp_access_flags, memory_order_relaxed);
	atomic_store_explicit(&entry->max_dest_rd_atomic, qp->attr.max_dest_rd_atomic,
			      memory_order_relaxed);
	atomic_store_explicit(&entry->min_rnr_timer, qp->attr.min_rnr_timer, memory_order_relaxed);
	vb_spin_lock(&qp->state_lock);
	vb_qp_follow_pkey(qp);
	vb_spin_unlock(&qp->state_lock);
}

static void show_connection(struct vb_qp *qp)
{
	struct vb_qp_entry *entry = qp->entry;

	entry->dest_qpn = qp->attr.dest_qp_num;
	entry->rq_psn = qp->attr.rq_psn;
	entry->path_mtu = (uint8_t)qp->attr.path_mtu;
	/* A new connection: a sender that was bound to the old one is not bound to this. */
	qp->epoch = atomic_fetch_add(&qp->nic->next_epoch, 1);
	/* The store of the gate releases them. */
	atomic_store_explicit(&qp->lent->binder, 0, memory_order_relaxed);
	atomic_store_explicit(&qp->lent->attention, 0, memory_order_relaxed);
}

/* Forgets all WQEs that are posted, or completed and not polled. */
static int reset_qp(struct vb_qp *qp)
{
	int err = vb_qp_close(qp, IBV_QPS_RESET);

	if (err)
		return err;
	atomic_store(&qp->lent->attention, 0); /* of the connection that is over */
	vb_qp_flush_cancel(qp);
	if (qp->entry->by_packets)
		vb_tm_rndv_forget(qp);
	vb_spin_lock(&qp->send_cq->poll_lock);
	vb_cq_forget_queue(&qp->sends);
	vb_sq_reset(&qp->sq);
	vb_qp_bounces_forget(qp);
	vb_managed_reset(qp);
	qp->failure = (struct vb_failure){ 0 };
	qp->flush_told = false;
	vb_cq_queue_watch(&qp->sends);
	vb_spin_unlock(&qp->send_cq->poll_lock);
	vb_spin_lock(&qp->recv_cq->poll_lock);
	vb_comp_cntr_waiting(qp);
	vb_qp_purge(qp);
	if (qp->srq)
		vb_ledger_forget(qp->recv_cq, qp->ibv.qp_num);
	else
		vb_cq_forget_queue(&qp->receives);
	err = qp->srq ? 0 : vb_rq_reset(qp->rq);
	vb_cq_queue_watch(&qp->receives);
	vb_spin_unlock(&qp->recv_cq->poll_lock);
	atomic_store(&qp->pend.why, VB_PEND_NONE); /* a WQE that waited is gone */
	qp->pend.judged = qp->pend.executed = 0;
	vb_remote_unbind(&qp->remote);
	vb_migrate_forget(qp);
	atomic_fetch_and(&qp->entry->by_packets, (uint8_t)~VB_BY_PACKETS_DENIED);
	memset(&qp->attr, 0, sizeof(qp->attr));
	return err;
}

static void set_state(struct vb_qp *qp, enum ibv_qp_state next)
{
	vb_spin_lock(&qp->state_lock);
	atomic_store_explicit(&qp->state, next, memory_order_release);
	qp->ibv.state = next;
	atomic_store(&qp->entry->gate, vb_qp_gate_in(qp, next));
	vb_spin_unlock(&qp->state_lock);
}

static int apply_attr(struct vb_qp *qp, enum ibv_qp_state cur, enum ibv_qp_state next,
		      const struct ibv_qp_attr *attr, int mask)
{
	adopt_attr(qp, attr, mask);
	if (next == IBV_QPS_ERR) {
		vb_qp_enter_error(qp);
		return 0;
	}
	if (next == IBV_QPS_RESET)
		return reset_qp(qp);
	show_attr(qp);
	if (cur == IBV_QPS_INIT && next == IBV_QPS_RTR)
		show_connection(qp);
	if (next == IBV_QPS_SQD && cur != IBV_QPS_SQD)
		qp->sqd_event_due = mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify;
	if (next != cur)
		set_state(qp, next);
	return 0;
}

static int check_edge(struct vb_qp *qp, enum ibv_qp_state cur, enum ibv_qp_state next,
		      const struct ibv_qp_attr *attr, int mask)
{
	char sentence[200];

	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != cur) {
		vb_explain("ibv_modify_qp: QP 0x%06x is in %s, not in %s as cur_qp_state says",
			   qp->ibv.qp_num, vb_qp_state_str(cur),
			   vb_qp_state_str(attr->cur_qp_state));
		return -EINVAL;
	}
	if (!vb_qp_edge_check(qp->type, cur, next, mask))
		return 0;
	vb_explain("ibv_modify_qp: QP 0x%06x: %s", qp->ibv.qp_num,
		   vb_qp_edge_explain(qp->type, cur, next, mask, sentence, sizeof(sentence)));
	return -EINVAL;
}

/* Programs set the attributes of RC on both halves of XRC: each half ignores those of the other. */
static int without_ignored(const struct vb_qp *qp, int mask)
{
	if (qp->type == IBV_QPT_XRC_SEND)
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (qp->type == IBV_QPT_XRC_RECV)
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	return mask;
}

int vb_qp_modify_check(struct vb_qp *qp, const struct ibv_qp_attr *attr, int all)
{
	int mask = without_ignored(qp, all);
	int err = check_edge(qp, vb_qp_state(qp), attr->qp_state, attr, mask);

	return err ? err : check_values(qp, attr, mask);
}

int vb_qp_modify(struct vb_qp *qp, const struct ibv_qp_attr *attr, int all)
{
	int mask = without_ignored(qp, all);
	enum ibv_qp_state cur = vb_qp_state(qp);
	enum ibv_qp_state next = mask & IBV_QP_STATE ? attr->qp_state : cur;
	struct vb_av av, alternate;
	int err = check_edge(qp, cur, next, attr, mask);

	if (!err)
		err = check_values(qp, attr, mask);
	if (!err && mask & IBV_QP_AV)
		err = vb_device_resolve(vb_context(qp->ibv.context)->dev, &attr->ah_attr, &av);
	if (!err)
		err = vb_migrate_check(qp, attr, mask, &alternate);
	if (err)
		return err;
	if (mask & IBV_QP_AV)
		vb_qp_set_av(qp, &av);
	if (mask & IBV_QP_RATE_LIMIT)
		vb_qp_limit_rate(qp, attr->rate_limit, 0);
	vb_migrate_adopt(qp, attr, mask, &alternate);
	return apply_attr(qp, cur, next, attr, mask);
}

void vb_qp_query(struct vb_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = vb_qp_state(qp);
	attr->cap = qp->cap;
	attr->path_mig_state = vb_mig_state(qp);
	attr->rate_limit = qp->limit_kbps;
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD && vb_qp_has_begun(qp);
	*init = (struct ibv_qp_init_attr){
		.qp_context = qp->ibv.qp_context,
		.send_cq = qp->ibv.send_cq,
		.recv_cq = qp->ibv.recv_cq,
		.srq = qp->ibv.srq,
		.cap = qp->cap,
		.qp_type = qp->ibv.qp_type,
		.sq_sig_all = qp->sig_all,
	};
}

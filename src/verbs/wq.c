/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive work queues: see nic/wq.h for the QP inside. */
#include "nic/wq.h"

#include <stdlib.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/qp_life.h"
#include "nic/fact.h"
#include "nic/given.h"
#include "verbs/ops.h"
#include "verbs/raw.h"
#include "verbs/stale.h"

static uint32_t flags_in_force(void)
{
	const uint64_t caps = vb_fact(VB_FACT_RAW_PACKET_CAPS);

	return (caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING ? IBV_WQ_FLAGS_CVLAN_STRIPPING : 0) |
	       (caps & IBV_RAW_PACKET_CAP_SCATTER_FCS ? IBV_WQ_FLAGS_SCATTER_FCS : 0);
}

static int refuse(int err, const char *call, const char *why)
{
	vb_explain("%s: %s", call, why);
	return err;
}

static int post_recv(struct ibv_wq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	return vb_ops_post_recv(&vb_wq(ibv)->qp->ibv, wr, bad_wr);
}

static int check_attr(struct ibv_context *context, const struct ibv_wq_init_attr *attr)
{
	const uint32_t flags = attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS ? attr->create_flags : 0;

	if (attr->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS || attr->wq_type != IBV_WQT_RQ) {
		vb_explain("ibv_create_wq: wq_type %d must be IBV_WQT_RQ, comp_mask 0x%x at most "
			   "IBV_WQ_INIT_ATTR_FLAGS",
			   (int)attr->wq_type, attr->comp_mask);
		return -EINVAL;
	}
	if (vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_create_wq") ||
	    vb_given_check_in(context, VB_GIVEN_PD, attr->pd, "ibv_create_wq") ||
	    vb_given_check_in(context, VB_GIVEN_CQ, attr->cq, "ibv_create_wq"))
		return -EINVAL;
	if (!vb_fact(VB_FACT_MAX_WQ_TYPE_RQ))
		return refuse(-EOPNOTSUPP, "ibv_create_wq", "the device has no work queues");
	if (vb_context(context)->dev->infiniband)
		return refuse(-EOPNOTSUPP, "ibv_create_wq", "work queues need an Ethernet port");
	if (flags & ~flags_in_force())
		return refuse(-EOPNOTSUPP, "ibv_create_wq",
			      "create_flags other than VLAN stripping and FCS are not supported");
	return 0;
}

static int make_wq(struct ibv_wq_init_attr *attr, struct vb_wq **out)
{
	struct ibv_qp_init_attr basic = {
		.qp_context = attr->wq_context,
		.send_cq = attr->cq,
		.recv_cq = attr->cq,
		.cap = { .max_recv_wr = attr->max_wr, .max_recv_sge = attr->max_sge },
		.qp_type = IBV_QPT_RAW_PACKET,
	};
	struct vb_wq *wq = calloc(1, sizeof(*wq));
	int err = wq ? vb_qp_make(vb_pd(attr->pd), &basic, &wq->qp) : -ENOMEM;

	if (err) {
		free(wq);
		return err;
	}
	if (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS)
		atomic_store(&wq->qp->raw_flags,
			     vb_raw_flags(attr->create_flags & IBV_WQ_FLAGS_CVLAN_STRIPPING,
					  attr->create_flags & IBV_WQ_FLAGS_SCATTER_FCS));
	pthread_mutex_init(&wq->ibv.mutex, NULL);
	pthread_cond_init(&wq->ibv.cond, NULL);
	wq->qp->wq = &wq->ibv;
	attr->max_wr = basic.cap.max_recv_wr;
	attr->max_sge = basic.cap.max_recv_sge;
	*out = wq;
	return 0;
}

struct ibv_wq *vb_ops_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	VB_NO_CANCEL;
	struct vb_wq *wq;
	int err = check_attr(context, attr);

	if (!err)
		err = make_wq(attr, &wq);
	if (err)
		return vb_return_null(err);
	wq->ibv.context = context;
	wq->ibv.wq_context = attr->wq_context;
	wq->ibv.pd = attr->pd;
	wq->ibv.cq = attr->cq;
	wq->ibv.wq_num = wq->qp->ibv.qp_num;
	wq->ibv.handle = wq->qp->ibv.qp_num;
	wq->ibv.state = IBV_WQS_RESET;
	wq->ibv.wq_type = IBV_WQT_RQ;
	wq->ibv.post_recv = post_recv;
	err = vb_given_add(VB_GIVEN_WQ, wq);
	if (err) {
		vb_qp_life_destroy(wq->qp);
		free(wq);
		return vb_return_null(err);
	}
	return &wq->ibv;
}

/* --- states --- */

static int enter_state(struct vb_wq *wq, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1 };

	return vb_qp_life_modify(wq->qp, &attr,
				 IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

static enum ibv_wq_state state_of(const struct vb_wq *wq)
{
	switch (vb_qp_state(wq->qp)) {
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
		return IBV_WQS_RESET;
	case IBV_QPS_ERR:
		return IBV_WQS_ERR;
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_UNKNOWN:
		break;
	}
	return IBV_WQS_RDY;
}

static int change_state(struct vb_wq *wq, enum ibv_wq_state from, enum ibv_wq_state to)
{
	if (to == IBV_WQS_RESET)
		return enter_state(wq, IBV_QPS_RESET);
	if (to == IBV_WQS_ERR && from == IBV_WQS_RDY)
		return enter_state(wq, IBV_QPS_ERR);
	if (to == from && to != IBV_WQS_UNKNOWN)
		return 0;
	if (to == IBV_WQS_RDY && from == IBV_WQS_RESET) {
		int err = enter_state(wq, IBV_QPS_INIT);

		return err ? err : enter_state(wq, IBV_QPS_RTR);
	}
	return refuse(-EINVAL, "ibv_modify_wq",
		      "a WQ goes from RESET to RDY, to ERR, back to RESET");
}

static void set_stripping(struct vb_wq *wq, bool on)
{
	if (on)
		atomic_fetch_or(&wq->qp->raw_flags, VB_RAW_STRIP_VLAN);
	else
		atomic_fetch_and(&wq->qp->raw_flags, ~(uint32_t)VB_RAW_STRIP_VLAN);
}

static int modify_wq(struct vb_wq *wq, struct ibv_wq_attr *attr)
{
	const uint32_t known = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;
	enum ibv_wq_state from = state_of(wq);
	int err = 0;

	if (attr->attr_mask & ~known)
		return refuse(-EINVAL, "ibv_modify_wq", "attr_mask has bits without a meaning");
	if (attr->attr_mask & IBV_WQ_ATTR_CURR_STATE && attr->curr_wq_state != from)
		return refuse(-EINVAL, "ibv_modify_wq", "the WQ is not in curr_wq_state");
	if (attr->attr_mask & IBV_WQ_ATTR_FLAGS &&
	    attr->flags_mask & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING)
		return refuse(-EOPNOTSUPP, "ibv_modify_wq", "only VLAN stripping can be changed");
	if (attr->attr_mask & IBV_WQ_ATTR_STATE)
		err = change_state(wq, from, attr->wq_state);
	if (!err && attr->attr_mask & IBV_WQ_ATTR_FLAGS && attr->flags_mask)
		set_stripping(wq, attr->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING);
	wq->ibv.state = state_of(wq);
	return err;
}

int vb_ops_modify_wq(struct ibv_wq *ibv, struct ibv_wq_attr *attr)
{
	VB_NO_CANCEL;
	struct vb_wq *wq = vb_wq(ibv);
	int err = vb_given_check(VB_GIVEN_WQ, ibv, "ibv_modify_wq");

	if (!err)
		err = vb_stale(wq->qp->nic, "ibv_modify_wq");
	return vb_return_errno(err ? err : modify_wq(wq, attr));
}

static int destroy_wq(struct vb_wq *wq)
{
	uint32_t users = atomic_load(&wq->users);
	int err;

	if (users) {
		vb_explain("ibv_destroy_wq: WQ 0x%06x is in %u entries of indirection tables",
			   wq->ibv.wq_num, users);
		return -EBUSY;
	}
	err = vb_qp_life_destroy(wq->qp);
	if (!err)
		free(wq);
	return err;
}

int vb_ops_destroy_wq(struct ibv_wq *wq)
{
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_WQ, wq, "ibv_destroy_wq");

	if (!err)
		err = vb_given_ended(VB_GIVEN_WQ, wq, destroy_wq(vb_wq(wq)));
	return vb_return_errno(err);
}

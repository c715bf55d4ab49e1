/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/qp.h"

#include "base/adversary.h"
#include "base/annotate.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "engine/engine.h"
#include "engine/qp_life.h"
#include "engine/raw_port.h"
#include "engine/xrc/share.h"
#include "nic/fact.h"
#include "nic/qp_cap.h"
#include "nic/rate.h"
#include "system/forward.h"
#include "verbs/given.h"
#include "verbs/ops.h"
#include "verbs/qp_ex.h"
#include "verbs/raw.h"
#include "verbs/stale.h"
#include "verbs/xrc.h"

int vb_qp_make(struct vb_pd *pd, struct ibv_qp_init_attr *attr, struct vb_qp **qp)
{
	int err = vb_pd_adopt(pd);

	if (!err && attr->qp_type == IBV_QPT_XRC_RECV) {
		vb_explain("ibv_create_qp: an XRC_RECV QP needs a domain: ibv_create_qp_ex");
		return -EINVAL;
	}

	if (!err && attr->send_cq)
		err = vb_stale(vb_cq(attr->send_cq)->nic, "ibv_create_qp");
	if (!err && attr->recv_cq)
		err = vb_stale(vb_cq(attr->recv_cq)->nic, "ibv_create_qp");
	if (!err && attr->srq)
		err = vb_stale(vb_srq(attr->srq)->rq.nic, "ibv_create_qp");
	return err ? err : vb_qp_life_create(pd, attr, qp);
}

/* Parts that are missing are explained where the type is known. */
static int check_parts(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	static const char call[] = "ibv_create_qp";
	int err = vb_given_check(VB_GIVEN_PD, pd, call);

	if (!err && attr->send_cq)
		err = vb_given_check_in(pd->context, VB_GIVEN_CQ, attr->send_cq, call);
	if (!err && attr->recv_cq)
		err = vb_given_check_in(pd->context, VB_GIVEN_CQ, attr->recv_cq, call);
	if (!err && attr->srq)
		err = vb_given_check_in(pd->context, VB_GIVEN_SRQ, attr->srq, call);
	return err;
}

static int destroy_qp(struct vb_qp *qp)
{
	struct vb_builder *builder = qp->builder;
	int err;

	if (qp->type == IBV_QPT_XRC_RECV)
		return vb_xrc_receiver_destroy(qp);
	err = vb_qp_life_destroy(qp);
	if (!err)
		vb_builder_destroy(builder);
	return err;
}

struct ibv_qp *vb_verbs_give_qp(struct vb_qp *qp, int err)
{
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_QP, qp);
	if (err)
		destroy_qp(qp);
	return err ? vb_return_null(err) : &qp->ibv;
}

struct ibv_qp *vb_verbs_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint64_t ops)
{
	struct ibv_cq *recv_cq = attr->recv_cq;
	struct vb_qp *qp;
	int err = check_parts(pd, attr);

	if (err)
		return vb_return_null(err);

	if (attr->qp_type == IBV_QPT_XRC_SEND) { /* it has no receives that could complete */
		attr->recv_cq = attr->send_cq;
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
	}
	err = vb_qp_cap_fit(attr, ops);
	if (!err)
		err = vb_qp_make(vb_pd(pd), attr, &qp);
	vb_tell_filled(&attr->cap, sizeof(attr->cap));
	attr->recv_cq = recv_cq;
	if (err)
		return vb_return_null(err);
	if (vb_adversary_on())
		vb_adversary_meets(qp->ibv.qp_num);
	if (qp->type == IBV_QPT_XRC_SEND)
		qp->ibv.recv_cq = NULL;
	if (qp->type == IBV_QPT_RAW_PACKET)
		err = vb_raw_enter(qp);
	if (err)
		destroy_qp(qp);
	return vb_verbs_give_qp(qp, err);
}

static struct ibv_qp *create_system_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static const char call[] = "ibv_create_qp";
	int err = vb_system_check_part(attr->send_cq, "send CQ", call);

	if (!err)
		err = vb_system_check_part(attr->recv_cq, "receive CQ", call);
	if (!err)
		err = vb_system_check_part(attr->srq, "SRQ", call);
	return err ? vb_return_null(err) : vb_system_ibv_create_qp(pd, attr);
}

VB_PUBLIC struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	VB_NO_CANCEL;
	if (vb_system_has(pd))
		return create_system_qp(pd, attr);

	return vb_verbs_create_qp(pd, attr, 0);
}

/* A peer may have left a failure of the QP. */
static void look_for_failure(struct vb_qp *qp)
{
	const struct vb_xrc_handle *handle = vb_xrc_handle(qp);
	const struct vb_qp *real = handle ? handle->real : qp;

	if (real && real->nic->engine)
		vb_engine_poll(real->send_cq);
}

VB_PUBLIC int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			   struct ibv_qp_init_attr *init)
{
	VB_SYSTEM_PASS(qp, ibv_query_qp, (qp, attr, mask, init));
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_QP, qp, "ibv_query_qp");

	if (!err)
		err = vb_stale(vb_qp(qp)->nic, "ibv_query_qp");
	(void)mask; /* all attributes are known, so all are returned */
	if (!err)
		look_for_failure(vb_qp(qp));
	if (!err && vb_xrc_handle(vb_qp(qp)))
		err = vb_xrc_handle_query(vb_xrc_handle(vb_qp(qp)), attr, init);
	else if (!err)
		vb_qp_query(vb_qp(qp), attr, init);
	if (!err) {
		vb_tell_filled(attr, sizeof(*attr));
		vb_tell_filled(init, sizeof(*init));
	}
	return vb_return_errno(err);
}

VB_PUBLIC int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	VB_SYSTEM_PASS(qp, ibv_modify_qp, (qp, attr, mask));
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_QP, qp, "ibv_modify_qp");

	if (!err)
		err = vb_stale(vb_qp(qp)->nic, "ibv_modify_qp");
	if (!err && vb_xrc_handle(vb_qp(qp)))
		err = vb_xrc_handle_modify(vb_xrc_handle(vb_qp(qp)), attr, mask);
	else if (!err)
		err = vb_qp_life_modify(vb_qp(qp), attr, mask);
	return vb_return_errno(err);
}

/* typical_pkt_sz helps NICs that count packets. Here each packet is charged by its size. */
int vb_ops_modify_qp_rate_limit(struct ibv_qp *ibv, struct ibv_qp_rate_limit_attr *attr)
{
	VB_NO_CANCEL;
	struct vb_qp *qp = vb_qp(ibv);
	int err = vb_given_check(VB_GIVEN_QP, ibv, "ibv_modify_qp_rate_limit");

	if (!err)
		err = vb_stale(qp->nic, "ibv_modify_qp_rate_limit");
	if (!err && attr->comp_mask) {
		vb_explain("ibv_modify_qp_rate_limit: comp_mask 0x%x has bits without a meaning",
			   attr->comp_mask);
		err = -EINVAL;
	}
	if (!err && vb_qp_state(qp) != IBV_QPS_RTS) {
		vb_explain("ibv_modify_qp_rate_limit: QP 0x%06x is not in RTS", ibv->qp_num);
		err = -EINVAL;
	}
	if (!err && !vb_fact_has(VB_FACT_RATE_LIMIT_QP_TYPES, 1u << qp->type)) {
		vb_explain("ibv_modify_qp_rate_limit: not for QPs of type %u", qp->type);
		err = -EOPNOTSUPP;
	}
	if (!err && attr->rate_limit > vb_fact(VB_FACT_QP_RATE_LIMIT_MAX)) {
		vb_explain("ibv_modify_qp_rate_limit: %u kbps exceed the %u of the device",
			   attr->rate_limit, vb_fact_u32(VB_FACT_QP_RATE_LIMIT_MAX));
		err = -EINVAL;
	}
	if (err)
		return vb_return_errno(err);
	vb_qp_life_limit_rate(qp, attr->rate_limit, attr->max_burst_sz);
	return 0;
}

VB_PUBLIC int ibv_destroy_qp(struct ibv_qp *qp)
{
	VB_SYSTEM_PASS(qp, ibv_destroy_qp, (qp));
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_QP, qp, "ibv_destroy_qp");

	if (!err)
		err = vb_given_ended(VB_GIVEN_QP, qp, destroy_qp(vb_qp(qp)));
	return vb_return_errno(err);
}

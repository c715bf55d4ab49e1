/* SPDX-License-Identifier: BSD-2-Clause */
/* Creates QPs with attributes that ibv_create_qp has no arguments for. */
#include "verbs/qp_ex.h"

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/fact.h"
#include "path/raw/tso.h"
#include "system/forward.h"
#include "verbs/given.h"
#include "verbs/ops.h"
#include "verbs/raw.h"
#include "verbs/xrc.h"

enum {
	MASK_SPREAD = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
	MASK_KNOWN = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
		     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
		     MASK_SPREAD,
};

static uint64_t ops_of(enum ibv_qp_type type)
{
	uint64_t ops = 0;

	if (type > IBV_QPT_XRC_RECV) /* the application chooses the value */
		return 0;
	for (unsigned i = 0; i < VB_WR_OPCODE_COUNT; i++)
		if (vb_wr_on(&vb_wr_rows[i], type))
			ops |= vb_wr_rows[i].create_flag;
	return ops;
}

/* The flags for frames that a QP receives into a queue of its own. */
static uint32_t flags_of(const struct ibv_qp_init_attr_ex *attr)
{
	const uint64_t caps = vb_fact(VB_FACT_RAW_PACKET_CAPS);

	if (attr->qp_type != IBV_QPT_RAW_PACKET || attr->comp_mask & MASK_SPREAD)
		return 0;
	return (caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING ? IBV_QP_CREATE_CVLAN_STRIPPING : 0) |
	       (caps & IBV_RAW_PACKET_CAP_SCATTER_FCS ? IBV_QP_CREATE_SCATTER_FCS : 0);
}

static int check_attr(const struct ibv_qp_init_attr_ex *attr)
{
	uint64_t missing =
		attr->send_ops_flags & ~(ops_of(attr->qp_type) & vb_fact(VB_FACT_SEND_OPS));

	if (attr->comp_mask & ~(uint32_t)MASK_KNOWN) {
		vb_explain("ibv_create_qp_ex: comp_mask 0x%x is not supported", attr->comp_mask);
		return -EOPNOTSUPP;
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER &&
	    (attr->qp_type != IBV_QPT_RAW_PACKET || !vb_fact(VB_FACT_MAX_TSO))) {
		vb_explain("ibv_create_qp_ex: only raw packet QPs have large sends, if any");
		return -EOPNOTSUPP;
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	    attr->create_flags & ~flags_of(attr)) {
		vb_explain("ibv_create_qp_ex: create_flags 0x%x are not supported",
			   attr->create_flags);
		return -EOPNOTSUPP;
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && missing) {
		vb_explain("ibv_create_qp_ex: send_ops_flags 0x%llx are no operations of the "
			   "transport",
			   (unsigned long long)missing);
		return -EOPNOTSUPP;
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		vb_explain("ibv_create_qp_ex: a QP needs a PD");
		return -EINVAL;
	}
	return 0;
}

struct ibv_qp *vb_ops_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	VB_NO_CANCEL;
	struct ibv_qp_init_attr basic = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
	};
	struct ibv_qp *qp;
	int err;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return vb_xrc_receiver_create(context, attr);
	err = check_attr(attr);
	if (!err)
		err = vb_given_check_in(context, VB_GIVEN_PD, attr->pd, "ibv_create_qp_ex");
	if (err)
		return vb_return_null(err);
	if (attr->comp_mask & MASK_SPREAD) {
		struct vb_qp *spread = NULL;

		err = vb_raw_create_spread(attr, &spread);
		return vb_verbs_give_qp(spread, err);
	}
	qp = vb_verbs_create_qp(
		attr->pd, &basic,
		attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0);
	if (!qp)
		return NULL;
	attr->cap = basic.cap;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS)
		atomic_store(&vb_qp(qp)->raw_flags,
			     vb_raw_flags(attr->create_flags & IBV_QP_CREATE_CVLAN_STRIPPING,
					  attr->create_flags & IBV_QP_CREATE_SCATTER_FCS));
	if (attr->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER)
		err = vb_tso_enable(vb_qp(qp), attr->max_tso_header);
	if (!err && attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		err = vb_builder_create(vb_qp(qp), attr->send_ops_flags);
	if (err) {
		ibv_destroy_qp(qp);
		return vb_return_null(err);
	}
	return qp;
}

VB_PUBLIC struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	VB_SYSTEM_PASS(qp, ibv_qp_to_qp_ex, (qp));
	if (vb_qp(qp)->builder)
		return &vb_qp(qp)->ex;
	vb_explain("ibv_qp_to_qp_ex: QP 0x%06x was created without send_ops_flags", qp->qp_num);
	return vb_return_null(-EINVAL);
}

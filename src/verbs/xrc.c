/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC: domains, their SRQs, QPs that receive for the SRQs, and handles for these QPs. */
#include "verbs/xrc.h"

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/xrc/share.h"
#include "nic/qp_cap.h"
#include "verbs/given.h"
#include "verbs/ops.h"
#include "verbs/stale.h"

struct ibv_xrcd *vb_ops_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	VB_NO_CANCEL;
	const uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct vb_xrcd *xrcd;
	int err;

	if (attr->comp_mask & ~both) {
		vb_explain("ibv_open_xrcd: comp_mask 0x%x is not supported", attr->comp_mask);
		return vb_return_null(-EOPNOTSUPP);
	}
	if (attr->comp_mask != both) {
		vb_explain("ibv_open_xrcd: comp_mask must name fd and oflags");
		return vb_return_null(-EINVAL);
	}
	err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_open_xrcd");
	if (!err)
		err = vb_qp_cap_check_type(IBV_QPT_XRC_SEND);
	if (!err)
		err = vb_xrcd_open(context, attr->fd, attr->oflags, &xrcd);
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_XRCD, xrcd);
	if (err)
		vb_xrcd_close(xrcd);
	return err ? vb_return_null(err) : &xrcd->ibv;
}

int vb_ops_close_xrcd(struct ibv_xrcd *xrcd)
{
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_XRCD, xrcd, "ibv_close_xrcd");

	if (!err)
		err = vb_given_ended(VB_GIVEN_XRCD, xrcd, vb_xrcd_close(vb_xrcd(xrcd)));
	return vb_return_errno(err);
}

/* --- SRQs --- */

static int srq_check(const struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t needed = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
				IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	if (attr->comp_mask & ~needed) {
		vb_explain("ibv_create_srq_ex: comp_mask 0x%x is not supported for an XRC SRQ",
			   attr->comp_mask);
		return -EOPNOTSUPP;
	}
	if (attr->comp_mask != needed || !attr->pd || !attr->xrcd || !attr->cq) {
		const uint32_t missing = needed & ~attr->comp_mask;

		vb_explain("ibv_create_srq_ex: an XRC SRQ needs a PD, a domain and a CQ: %s",
			   missing & IBV_SRQ_INIT_ATTR_PD     ? "comp_mask lacks the PD"
			   : missing & IBV_SRQ_INIT_ATTR_XRCD ? "comp_mask lacks the XRCD"
			   : missing & IBV_SRQ_INIT_ATTR_CQ   ? "comp_mask lacks the CQ"
			   : !attr->pd                        ? "pd is NULL"
			   : !attr->xrcd                      ? "xrcd is NULL"
							      : "cq is NULL");
		return -EINVAL;
	}
	return 0;
}

static int srq_check_parts(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	static const char call[] = "ibv_create_srq_ex";
	int err = vb_given_check_in(context, VB_GIVEN_PD, attr->pd, call);

	if (!err)
		err = vb_given_check_in(context, VB_GIVEN_XRCD, attr->xrcd, call);
	if (!err)
		err = vb_given_check_in(context, VB_GIVEN_CQ, attr->cq, call);
	return err;
}

static int srq_make(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr,
		    struct vb_srq **srq)
{
	struct ibv_srq_init_attr basic = { attr->srq_context, attr->attr };
	int err = srq_check(attr);

	if (!err)
		err = srq_check_parts(context, attr);
	if (!err)
		err = vb_stale(vb_xrcd(attr->xrcd)->nic, "ibv_create_srq_ex");
	if (!err)
		err = vb_stale(vb_cq(attr->cq)->nic, "ibv_create_srq_ex");
	if (!err)
		err = vb_pd_adopt(vb_pd(attr->pd));
	/* Peers may send to the SRQ even if this process has no QP. */
	if (!err)
		err = vb_engine_start(vb_xrcd(attr->xrcd)->nic);
	if (!err)
		err = vb_srq_create(vb_pd(attr->pd), &basic, srq);
	if (err)
		return err;
	err = vb_srq_join_xrcd(*srq, vb_xrcd(attr->xrcd), vb_cq(attr->cq));
	if (err)
		vb_srq_destroy(*srq);
	else
		attr->attr = basic.attr;
	return err;
}

struct ibv_srq *vb_xrc_srq_create(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct vb_srq *srq = NULL;
	int err = srq_make(context, attr, &srq);

	return vb_verbs_give_srq(srq, err);
}

/* --- QPs that receive --- */

static int receiver_check(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	int err;

	/* Senders' attributes mean nothing here, and programs leave a PD where it does no harm. */
	const uint32_t ignored = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;

	if (attr->comp_mask & ~(IBV_QP_INIT_ATTR_XRCD | ignored) ||
	    (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags)) {
		vb_explain("ibv_create_qp_ex: an XRC_RECV QP has no more than a domain "
			   "(comp_mask 0x%x)",
			   attr->comp_mask);
		return -EOPNOTSUPP;
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd) {
		vb_explain("ibv_create_qp_ex: an XRC_RECV QP needs a domain");
		return -EINVAL;
	}
	err = vb_given_check_in(context, VB_GIVEN_XRCD, attr->xrcd, "ibv_create_qp_ex");
	return err ? err : vb_stale(vb_xrcd(attr->xrcd)->nic, "ibv_create_qp_ex");
}

struct ibv_qp *vb_xrc_receiver_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct vb_qp *qp = NULL;
	int err = receiver_check(context, attr);

	if (!err)
		err = vb_xrc_receiver_make(vb_xrcd(attr->xrcd), attr->qp_context, &qp);
	if (!err)
		attr->cap = (struct ibv_qp_cap){ 0 };
	return vb_verbs_give_qp(qp, err);
}

/* --- handles for such QPs --- */

static int open_check(struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	int err;

	if (attr->comp_mask & ~(needed | IBV_QP_OPEN_ATTR_CONTEXT)) {
		vb_explain("ibv_open_qp: comp_mask 0x%x is not supported", attr->comp_mask);
		return -EOPNOTSUPP;
	}
	if ((attr->comp_mask & needed) != needed || !attr->xrcd ||
	    attr->qp_type != IBV_QPT_XRC_RECV || attr->qp_num > VB_MASK24) {
		vb_explain("ibv_open_qp: a number, a domain and the type XRC_RECV are needed");
		return -EINVAL;
	}
	err = vb_given_check_in(context, VB_GIVEN_XRCD, attr->xrcd, "ibv_open_qp");
	return err ? err : vb_stale(vb_xrcd(attr->xrcd)->nic, "ibv_open_qp");
}

struct ibv_qp *vb_ops_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	VB_NO_CANCEL;
	void *qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
	struct vb_xrc_handle *handle = NULL;
	int err = open_check(context, attr);

	if (!err)
		err = vb_xrc_handle_open(vb_xrcd(attr->xrcd), attr->qp_num, qp_context, &handle);
	if (err == -EINVAL)
		vb_explain("ibv_open_qp: the domain has no XRC_RECV QP 0x%06x", attr->qp_num);
	return vb_verbs_give_qp(handle ? &handle->qp : NULL, err);
}

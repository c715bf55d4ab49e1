/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/srq.h"

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/profile.h"
#include "system/forward.h"
#include "verbs/given.h"
#include "verbs/ops.h"
#include "verbs/stale.h"
#include "verbs/tm.h"
#include "verbs/xrc.h"

struct ibv_srq *vb_verbs_give_srq(struct vb_srq *srq, int err)
{
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_SRQ, srq);
	if (err)
		vb_srq_destroy(srq);
	return err ? vb_return_null(err) : &srq->ibv;
}

VB_PUBLIC struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	VB_SYSTEM_PASS(pd, ibv_create_srq, (pd, attr));
	VB_NO_CANCEL;
	struct vb_srq *srq = NULL;
	int err = vb_verbs_check_pd(pd, "ibv_create_srq");

	if (!err)
		err = vb_profile_check_verb(VB_VERB_CREATE_SRQ, "ibv_create_srq");
	if (!err)
		err = vb_srq_create(vb_pd(pd), attr, &srq);
	vb_tell_filled(&attr->attr, sizeof(attr->attr));
	return vb_verbs_give_srq(srq, err);
}

struct ibv_srq *vb_ops_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	VB_NO_CANCEL;
	struct ibv_srq_init_attr basic = { attr->srq_context, attr->attr };
	uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;

	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC)
		return vb_xrc_srq_create(context, attr);
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_TM)
		return vb_tm_srq_create(context, attr);
	if (attr->comp_mask & ~known || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) ||
	    (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC)) {
		vb_explain("ibv_create_srq_ex: srq_type %d or comp_mask 0x%x is not supported",
			   attr->srq_type, attr->comp_mask);
		return vb_return_null(-EOPNOTSUPP);
	}
	if (vb_given_check_in(context, VB_GIVEN_PD, attr->pd, "ibv_create_srq_ex"))
		return vb_return_null(-EINVAL);
	return ibv_create_srq(attr->pd, &basic);
}

VB_PUBLIC int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	VB_SYSTEM_PASS(srq, ibv_modify_srq, (srq, attr, mask));
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_SRQ, srq, "ibv_modify_srq");

	if (!err)
		err = vb_stale(vb_srq(srq)->rq.nic, "ibv_modify_srq");
	return vb_return_errno(err ? err : vb_srq_modify(vb_srq(srq), attr, mask));
}

VB_PUBLIC int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	VB_SYSTEM_PASS(srq, ibv_query_srq, (srq, attr));
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_SRQ, srq, "ibv_query_srq");

	if (!err)
		err = vb_stale(vb_srq(srq)->rq.nic, "ibv_query_srq");
	if (!err) {
		vb_srq_query(vb_srq(srq), attr);
		vb_tell_filled(attr, sizeof(*attr));
	}
	return vb_return_errno(err);
}

VB_PUBLIC int ibv_destroy_srq(struct ibv_srq *srq)
{
	VB_SYSTEM_PASS(srq, ibv_destroy_srq, (srq));
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_SRQ, srq, "ibv_destroy_srq");

	if (!err)
		err = vb_given_ended(VB_GIVEN_SRQ, srq, vb_srq_destroy(vb_srq(srq)));
	return vb_return_errno(err);
}

int vb_ops_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_SRQ, srq, "ibv_get_srq_num");

	if (!err) {
		*number = vb_srq(srq)->number;
		vb_tell_filled(number, sizeof(*number));
	}
	return vb_return_errno(err);
}

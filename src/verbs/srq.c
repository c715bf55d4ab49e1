/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/srq.h"
#include "base/log.h"
#include "verbs/ops.h"
#include "verbs/tm.h"
#include "verbs/xrc.h"
#include "verbs/result.h"
#include "verbs/stale.h"
#include "verbs/symver.h"

VB_PUBLIC struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct vb_srq *srq;
	int err = vb_pd_adopt(vb_pd(pd));

	if (!err)
		err = vb_srq_create(vb_pd(pd), attr, &srq);
	return err ? vb_return_null(err) : &srq->ibv;
}

struct ibv_srq *vb_ops_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr basic = { attr->srq_context, attr->attr };
	uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;

	(void)context;
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC)
		return vb_xrc_srq_create(attr);
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_TM)
		return vb_tm_srq_create(attr);
	if (attr->comp_mask & ~known || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) ||
	    (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC)) {
		vb_explain("ibv_create_srq_ex: srq_type %d or comp_mask 0x%x is not supported",
			   attr->srq_type, attr->comp_mask);
		return vb_return_null(-EOPNOTSUPP);
	}
	return ibv_create_srq(attr->pd, &basic);
}

VB_PUBLIC int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	int err = vb_stale(vb_srq(srq)->rq.nic, "ibv_modify_srq");

	return vb_return_errno(err ? err : vb_srq_modify(vb_srq(srq), attr, mask));
}

VB_PUBLIC int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	int err = vb_stale(vb_srq(srq)->rq.nic, "ibv_query_srq");

	if (!err)
		vb_srq_query(vb_srq(srq), attr);
	return vb_return_errno(err);
}

VB_PUBLIC int ibv_destroy_srq(struct ibv_srq *srq)
{
	return vb_return_errno(vb_srq_destroy(vb_srq(srq)));
}

int vb_ops_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	*number = vb_srq(srq)->number;
	return 0;
}

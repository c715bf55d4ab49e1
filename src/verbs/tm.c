/* SPDX-License-Identifier: BSD-2-Clause */
/* SRQs that match tags: creates them, and posts operations on their lists. */
#include "nic/tm.h"

#include "base/log.h"
#include "base/result.h"
#include "verbs/given.h"
#include "verbs/ops.h"
#include "verbs/stale.h"
#include "verbs/tm.h"

static int check_attr(struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr)
{
	uint32_t needed = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			  IBV_SRQ_INIT_ATTR_TM;
	int err;

	if (attr->comp_mask != needed || !attr->pd || !attr->cq) {
		vb_explain(
			"ibv_create_srq_ex: an SRQ that matches tags needs a PD, a CQ and tm_cap, "
			"and nothing else (comp_mask 0x%x)",
			attr->comp_mask);
		return -EINVAL;
	}
	err = vb_given_check_in(context, VB_GIVEN_PD, attr->pd, "ibv_create_srq_ex");
	if (!err)
		err = vb_given_check_in(context, VB_GIVEN_CQ, attr->cq, "ibv_create_srq_ex");
	return err ? err : vb_stale(vb_cq(attr->cq)->nic, "ibv_create_srq_ex");
}

struct ibv_srq *vb_tm_srq_create(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr basic = { attr->srq_context, attr->attr };
	struct vb_srq *srq;
	int err = check_attr(context, attr);

	if (!err)
		err = vb_pd_adopt(vb_pd(attr->pd));
	if (!err)
		err = vb_srq_create(vb_pd(attr->pd), &basic, &srq);
	if (err)
		return vb_return_null(err);
	err = vb_tm_create(srq, vb_cq(attr->cq), &attr->tm_cap);
	if (err) {
		vb_srq_destroy(srq);
		return vb_return_null(err);
	}
	return vb_verbs_give_srq(srq, 0);
}

static const char *failure_words(int err)
{
	return err == -ENOMEM ? "the tag list or the queue of operations is full"
			      : "no such operation, flag or handle, or more SGEs than max_sge";
}

int vb_ops_post_srq_ops(struct ibv_srq *ibv, struct ibv_ops_wr *op, struct ibv_ops_wr **bad)
{
	struct vb_srq *srq = vb_srq(ibv);
	int err = vb_stale(srq->rq.nic, "ibv_post_srq_ops");

	if (!err && !srq->tm) {
		vb_explain("ibv_post_srq_ops: the SRQ was not created with IBV_SRQT_TM");
		err = -EINVAL;
	}
	for (; op && !err; op = op->next) {
		err = vb_tm_post(srq->tm, op);
		if (err) {
			vb_explain("ibv_post_srq_ops: SRQ %u wr_id %llu: %s", srq->number,
				   (unsigned long long)op->wr_id, failure_words(err));
			break;
		}
	}
	if (err)
		*bad = op;
	return vb_return_errno(err);
}

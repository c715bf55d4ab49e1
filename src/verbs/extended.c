/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/extended.h"

#include <errno.h>

#include "base/cancel.h"
#include "base/log.h"
#include "engine/engine.h"
#include "nic/qp_ext.h"
#include "nic/trace.h"
#include "verbs/given.h"
#include "verbs/stale.h"

enum { FLAGS_KNOWN = IBV_SEND_FENCE | IBV_SEND_SIGNALED };

int vb_extended_qp(struct ibv_qp *ibv, const struct vb_extended_qp *wanted)
{
	VB_NO_CANCEL;
	const struct vb_qp_ext_spec spec = { .atomic_max = wanted->max_atomic_arg };
	int err = vb_given_check(VB_GIVEN_QP, ibv, "ibv_exp_create_qp");

	return err ? err : vb_qp_ext_make(vb_qp(ibv), &spec);
}

bool vb_extended_device(struct ibv_context *context)
{
	VB_NO_CANCEL;

	return vb_given_has(VB_GIVEN_CONTEXT, context);
}

struct ibv_cq_ex *vb_extended_stamped(struct ibv_cq *cq)
{
	VB_NO_CANCEL;

	return vb_given_has(VB_GIVEN_CQ, cq) && vb_cq(cq)->stamped ? &vb_cq(cq)->ex : NULL;
}

/* --- posting --- */

static int refuse(const struct vb_qp *qp, const struct vb_extended_wr *wr, int err, const char *why)
{
	vb_explain("ibv_exp_post_send: QP 0x%06x wr_id %llu: %s", qp->ibv.qp_num,
		   (unsigned long long)wr->wr_id, why);
	return err;
}

static int check_masked(const struct vb_qp *qp, const struct vb_extended_wr *wr)
{
	if (!qp->ext || !qp->ext->atomic_max)
		return refuse(qp, wr, -EOPNOTSUPP,
			      "the QP was created without IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG");
	if (!vb_masked_has_width(wr->masked.width))
		return refuse(qp, wr, -EINVAL,
			      "log_arg_sz is none of the device's log_atomic_arg_sizes");
	if (wr->masked.width > qp->ext->atomic_max)
		return refuse(qp, wr, -EINVAL, "the operands exceed max_atomic_arg of the QP");
	return 0;
}

static int check_wr(const struct vb_qp *qp, const struct vb_extended_wr *wr)
{
	const enum ibv_qp_state state = vb_qp_state(qp);
	int err = vb_stale(qp->nic, "ibv_exp_post_send");

	if (err)
		return err;
	if (state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_SQE &&
	    state != IBV_QPS_ERR)
		return refuse(qp, wr, -EINVAL, "the QP sends from RTS on");
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.sge_max)
		return refuse(qp, wr, -EINVAL, "more SGEs than max_send_sge of the QP");
	if (wr->send_flags & ~(unsigned)FLAGS_KNOWN)
		return refuse(qp, wr, -EINVAL, "a send flag is not supported");
	return check_masked(qp, wr);
}

static void fill_elements(const struct vb_extended_wr *wr, struct vb_wqe *wqe)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		length += wr->sg_list[i].length;
	}
	wqe->sge_count = (uint8_t)wr->num_sge;
	wqe->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
}

static void fill_wqe(struct vb_qp *qp, const struct vb_extended_wr *wr, struct vb_wqe *wqe)
{
	struct vb_masked *masked = &qp->ext->masked[qp->sq.tail & qp->sq.mask];

	wqe->wr_id = wr->wr_id;
	wqe->ah = NULL;
	wqe->internal = VB_INTERNAL_NOT;
	wqe->opcode = wr->opcode;
	wqe->signaled = qp->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	wqe->solicited = wqe->inlined = wqe->checksum = false;
	wqe->fenced = wr->send_flags & IBV_SEND_FENCE;
	wqe->imm = 0;
	wqe->srqn = 0;
	wqe->remote_addr = wr->remote_addr;
	wqe->rkey = wr->rkey;
	fill_elements(wr, wqe);
	*masked = wr->masked;
	wqe->operand[0] = (uintptr_t)masked;
}

int vb_extended_post(struct ibv_qp *ibv, const struct vb_extended_wr *wr)
{
	struct vb_qp *qp = vb_qp(ibv);
	struct vb_sq *sq = &qp->sq;
	int err = check_wr(qp, wr);

	if (err)
		return err;
	vb_spin_lock(&sq->lock);
	if (vb_sq_full(sq)) {
		vb_spin_unlock(&sq->lock);
		return refuse(qp, wr, -ENOMEM, "all entries (max_send_wr) are in use");
	}
	fill_wqe(qp, wr, vb_sq_wqe(sq, sq->tail));
	sq->tail++;
	if (vb_captured() && vb_captures(VB_WANT_STATIONS))
		vb_trace_posted(qp, sq->tail - 1, sq->tail);
	vb_spin_unlock(&sq->lock);
	vb_engine_kick(qp);
	return 0;
}

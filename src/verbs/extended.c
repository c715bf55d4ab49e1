/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/extended.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/log.h"
#include "engine/engine.h"
#include "nic/ledger.h"
#include "nic/managed.h"
#include "nic/qp_ext.h"
#include "nic/trace.h"
#include "verbs/given.h"
#include "verbs/stale.h"

enum { FLAGS_KNOWN = IBV_SEND_FENCE | IBV_SEND_SIGNALED };

/* Completions of a cross-channel QP may be waited for. */
static int count_completions(struct vb_qp *qp)
{
	int err = vb_ledger_open(qp->send_cq);

	return err ? err : vb_ledger_open(qp->recv_cq);
}

int vb_extended_qp(struct ibv_qp *ibv, const struct vb_extended_qp *wanted)
{
	VB_NO_CANCEL;
	const struct vb_qp_ext_spec spec = { .atomic_max = wanted->max_atomic_arg,
					     .umr = wanted->umr,
					     .parts_max = wanted->max_inline_parts,
					     .cross = wanted->cross };
	const bool managed = wanted->managed_sends || wanted->managed_recvs;
	int err = vb_given_check(VB_GIVEN_QP, ibv, "ibv_exp_create_qp");

	if (!err)
		err = vb_qp_ext_make(vb_qp(ibv), &spec);
	if (!err && managed)
		err = vb_managed_make(vb_qp(ibv), wanted->managed_sends, wanted->managed_recvs);
	if (!err && (managed || wanted->cross))
		err = count_completions(vb_qp(ibv));
	return err;
}

int vb_extended_cq(struct ibv_cq *cq, bool ignore_overrun)
{
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_CQ, cq, "ibv_exp_create_cq");

	if (!err)
		err = vb_stale(vb_cq(cq)->nic, "ibv_exp_create_cq");
	if (!err)
		err = vb_ledger_open(vb_cq(cq));
	if (!err && ignore_overrun)
		vb_cq_ignore_overrun(vb_cq(cq));
	return err;
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

struct ibv_mr *vb_extended_key(struct ibv_pd *pd, uint32_t parts, unsigned access)
{
	VB_NO_CANCEL;
	struct vb_mr *mr = NULL;
	int err = vb_verbs_check_pd(pd, "ibv_exp_create_mr");

	if (!err)
		err = vb_umr_create(vb_pd(pd), parts, access, &mr);
	return vb_verbs_give_mr(mr, err);
}

uint32_t vb_extended_key_room(struct ibv_mr *mr)
{
	VB_NO_CANCEL;

	if (!vb_given_has(VB_GIVEN_MR, mr) || !vb_mr(mr)->indirect)
		return 0;
	return vb_mr(mr)->indirect->room;
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

static int check_umr(const struct vb_qp *qp, const struct vb_extended_wr *wr)
{
	if (!qp->ext || !qp->ext->umrs)
		return refuse(qp, wr, -EOPNOTSUPP,
			      "the QP was created without IBV_EXP_QP_CREATE_UMR");
	if (wr->inlined && wr->umr->count > qp->ext->parts_max)
		return refuse(qp, wr, -EINVAL, "more entries than max_inl_send_klms of the QP");
	if (wr->num_sge)
		return refuse(qp, wr, -EINVAL, "a UMR request has no elements");
	return 0;
}

static int check_cross(const struct vb_qp *qp, const struct vb_extended_wr *wr)
{
	if (!qp->ext || !qp->ext->cross)
		return refuse(qp, wr, -EINVAL,
			      "the QP was created without IBV_EXP_QP_CREATE_CROSS_CHANNEL");
	if (wr->num_sge)
		return refuse(qp, wr, -EINVAL, "a cross-channel request has no elements");
	return wr->count < 0 ? refuse(qp, wr, -EINVAL, "its count is negative") : 0;
}

static int check_wait(const struct vb_qp *qp, const struct vb_extended_wr *wr)
{
	int err = check_cross(qp, wr);

	if (!err &&
	    (!vb_given_has(VB_GIVEN_CQ, wr->wait_cq) || wr->wait_cq->context != qp->ibv.context))
		err = refuse(qp, wr, -EINVAL, "cqe_wait.cq is no CQ of the QP's context");
	return err;
}

static int check_enable(const struct vb_qp *qp, const struct vb_extended_wr *wr)
{
	const bool sends = wr->opcode == VB_WR_SEND_ENABLE;
	const struct vb_managed *managed;
	int err = check_cross(qp, wr);

	if (err)
		return err;
	if (!vb_given_has(VB_GIVEN_QP, wr->enable_qp) || wr->enable_qp->context != qp->ibv.context)
		return refuse(qp, wr, -EINVAL, "wqe_enable.qp is no QP of the QP's context");
	managed = vb_qp(wr->enable_qp)->managed;
	if (!managed || !(sends ? managed->sends : managed->receives).is_managed)
		return refuse(qp, wr, -EINVAL,
			      sends ? "wqe_enable.qp was created without "
				      "IBV_EXP_QP_CREATE_MANAGED_SEND"
				    : "wqe_enable.qp was created without "
				      "IBV_EXP_QP_CREATE_MANAGED_RECV");
	return 0;
}

static int check_kind(const struct vb_qp *qp, const struct vb_extended_wr *wr)
{
	switch (wr->opcode) {
	case VB_WR_MASKED_CMP_AND_SWP:
	case VB_WR_MASKED_FETCH_AND_ADD:
		return check_masked(qp, wr);
	case VB_WR_UMR:
		return check_umr(qp, wr);
	case VB_WR_SEND_ENABLE:
	case VB_WR_RECV_ENABLE:
		return check_enable(qp, wr);
	case VB_WR_CQE_WAIT:
		return check_wait(qp, wr);
	case VB_WR_NOP:
		return wr->num_sge ? refuse(qp, wr, -EINVAL, "a NOP has no elements") : 0;
	}
	return -EINVAL;
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
	return check_kind(qp, wr);
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

/* Operands outside of the WQE, at the same index of a ring. The ones before were used. */
static void fill_operands(struct vb_qp *qp, const struct vb_extended_wr *wr, struct vb_umr *umr,
			  struct vb_wqe *wqe)
{
	const uint32_t at = qp->sq.tail & qp->sq.mask;

	if (umr) {
		free(qp->ext->umrs[at]);
		qp->ext->umrs[at] = umr;
		wqe->operand[0] = (uintptr_t)umr;
	} else if (wr->opcode == VB_WR_MASKED_CMP_AND_SWP ||
		   wr->opcode == VB_WR_MASKED_FETCH_AND_ADD) {
		qp->ext->masked[at] = wr->masked;
		wqe->operand[0] = (uintptr_t)&qp->ext->masked[at];
	}
}

static void fill_wqe(struct vb_qp *qp, const struct vb_extended_wr *wr, struct vb_wqe *wqe)
{
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
}

/* The caller's list may change once it is posted. NULL: there is none, or no memory for it. */
static struct vb_umr *umr_copy(const struct vb_umr *umr)
{
	const size_t size = umr ? sizeof(*umr) + (size_t)umr->count * sizeof(umr->parts[0]) : 0;
	struct vb_umr *copy = size ? malloc(size) : NULL;

	if (copy)
		memcpy(copy, umr, size);
	return copy;
}

static bool is_cross(const struct vb_extended_wr *wr)
{
	return wr->opcode == VB_WR_CQE_WAIT || wr->opcode == VB_WR_SEND_ENABLE ||
	       wr->opcode == VB_WR_RECV_ENABLE;
}

/* Under both locks. False: fewer work requests are posted than it would enable. */
static bool fill_cross(struct vb_qp *qp, const struct vb_extended_wr *wr, struct vb_wqe *wqe)
{
	struct vb_cross *cross = &qp->ext->cross[qp->sq.tail & qp->sq.mask], planned;
	const struct vb_cross_spec spec = {
		.ledger = wr->wait_cq ? vb_cq(wr->wait_cq)->ledger : NULL,
		.managed = wr->enable_qp ? vb_qp(wr->enable_qp)->managed : NULL,
		.receives = wr->opcode == VB_WR_RECV_ENABLE,
		.count = (uint32_t)wr->count,
		.last = wr->last,
	};

	if (!vb_cross_plan(&spec, &qp->sq, &planned))
		return false;
	vb_cross_drop(cross);
	*cross = planned;
	wqe->operand[0] = (uintptr_t)cross;
	return true;
}

/* Under the queue's lock. */
static int append(struct vb_qp *qp, const struct vb_extended_wr *wr, struct vb_umr *umr)
{
	struct vb_sq *sq = &qp->sq;

	if (vb_sq_full(sq))
		return -ENOMEM;
	fill_wqe(qp, wr, vb_sq_wqe(sq, sq->tail));
	if (!is_cross(wr))
		fill_operands(qp, wr, umr, vb_sq_wqe(sq, sq->tail));
	else if (!fill_cross(qp, wr, vb_sq_wqe(sq, sq->tail)))
		return -EINVAL;
	sq->tail++;
	if (vb_captured() && vb_captures(VB_WANT_STATIONS))
		vb_trace_posted(qp, sq->tail - 1, sq->tail);
	return 0;
}

static int append_cross(struct vb_qp *qp, const struct vb_extended_wr *wr)
{
	int err = wr->wait_cq ? vb_ledger_open(vb_cq(wr->wait_cq)) : 0;

	if (err)
		return err;
	vb_spin_lock(&qp->nic->cross_lock);
	vb_spin_lock(&qp->sq.lock);
	err = append(qp, wr, NULL);
	vb_spin_unlock(&qp->sq.lock);
	vb_spin_unlock(&qp->nic->cross_lock);
	return err;
}

static int append_other(struct vb_qp *qp, const struct vb_extended_wr *wr)
{
	struct vb_umr *umr = umr_copy(wr->umr);
	int err;

	if (wr->umr && !umr)
		return -ENOMEM;
	vb_spin_lock(&qp->sq.lock);
	err = append(qp, wr, umr);
	vb_spin_unlock(&qp->sq.lock);
	if (err)
		free(umr);
	return err;
}

int vb_extended_post(struct ibv_qp *ibv, const struct vb_extended_wr *wr)
{
	struct vb_qp *qp = vb_qp(ibv);
	int err = check_wr(qp, wr);

	if (err)
		return err;
	err = is_cross(wr) ? append_cross(qp, wr) : append_other(qp, wr);
	if (err == -EINVAL)
		return refuse(qp, wr, err, "fewer work requests are posted than it would enable");
	if (err)
		return refuse(qp, wr, err, "all entries (max_send_wr) are in use");
	vb_engine_kick(qp);
	return 0;
}

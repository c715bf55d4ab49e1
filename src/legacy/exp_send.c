/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_exp_post_send and ibv_exp_post_task: the requests one by one, in today's form or extended. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "legacy.h"

/* The opcodes of today have their numbers; TSO has no place in struct ibv_exp_send_wr. */
static bool opcode_of(const struct ibv_exp_send_wr *wr, enum ibv_wr_opcode *opcode)
{
	*opcode = (enum ibv_wr_opcode)wr->exp_opcode;
	return (unsigned)wr->exp_opcode <= IBV_WR_SEND_WITH_INV;
}

static void set_target(const struct ibv_exp_send_wr *wr, struct ibv_qp *qp, struct ibv_send_wr *to)
{
	if (to->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || to->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		to->wr.atomic.remote_addr = wr->wr.atomic.remote_addr;
		to->wr.atomic.compare_add = wr->wr.atomic.compare_add;
		to->wr.atomic.swap = wr->wr.atomic.swap;
		to->wr.atomic.rkey = wr->wr.atomic.rkey;
	} else if (qp->qp_type == IBV_QPT_UD) {
		to->wr.ud.ah = wr->wr.ud.ah;
		to->wr.ud.remote_qpn = wr->wr.ud.remote_qpn;
		to->wr.ud.remote_qkey = wr->wr.ud.remote_qkey;
	} else {
		to->wr.rdma.remote_addr = wr->wr.rdma.remote_addr;
		to->wr.rdma.rkey = wr->wr.rdma.rkey;
	}
}

static int set_bind(const struct ibv_exp_send_wr *wr, struct ibv_send_wr *to)
{
	unsigned access;

	if (!legacy_access(wr->bind_mw.bind_info.exp_mw_access_flags, &access))
		return EINVAL;
	to->bind_mw.mw = wr->bind_mw.mw;
	to->bind_mw.rkey = wr->bind_mw.rkey;
	to->bind_mw.bind_info.mr = wr->bind_mw.bind_info.mr;
	to->bind_mw.bind_info.addr = wr->bind_mw.bind_info.addr;
	to->bind_mw.bind_info.length = wr->bind_mw.bind_info.length;
	to->bind_mw.bind_info.mw_access_flags = access;
	return 0;
}

static int post_plain(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	const uint64_t known = IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED |
			       IBV_EXP_SEND_INLINE;
	struct ibv_send_wr today = {
		.wr_id = wr->wr_id,
		.sg_list = wr->sg_list,
		.num_sge = wr->num_sge,
		.send_flags = (unsigned)(wr->exp_send_flags & known),
		.imm_data = wr->ex.imm_data, /* or the rkey, in the same place */
		.qp_type.xrc.remote_srqn = wr->qp_type.xrc.remote_srqn,
	};
	struct ibv_send_wr *bad;
	int err;

	if (!opcode_of(wr, &today.opcode))
		return EOPNOTSUPP;
	if (wr->exp_send_flags & IBV_EXP_SEND_IP_CSUM)
		today.send_flags |= IBV_SEND_IP_CSUM;
	if (wr->exp_send_flags & ~(known | IBV_EXP_SEND_IP_CSUM))
		return EINVAL;
	set_target(wr, qp, &today);
	err = today.opcode == IBV_WR_BIND_MW ? set_bind(wr, &today) : 0;
	return err ? err : ibv_post_send(qp, &today, &bad);
}

/* --- extended requests --- */

/* An operand: the number itself, or the address of a longer one. */
static void put_operand(struct vb_masked *op, enum vb_masked_operand which, uint64_t value)
{
	const void *from = op->width > sizeof(value) ? (const void *)(uintptr_t)value : &value;

	memcpy(op->operand[which], from, op->width);
}

static int fill_masked(const struct ibv_exp_send_wr *wr, struct vb_extended_wr *to)
{
	const struct ibv_exp_cmp_swap *swap =
		&wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
	const struct ibv_exp_fetch_add *add =
		&wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;
	const uint32_t log = wr->ext_op.masked_atomics.log_arg_sz;

	if (!(wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE))
		return EOPNOTSUPP; /* the manual has no other place for operands */
	if (log > 5 || !vb_masked_has_width(1u << log))
		return EINVAL;
	to->masked.width = (uint8_t)(1u << log);
	to->masked.compare_swap = wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
	to->opcode =
		to->masked.compare_swap ? VB_WR_MASKED_CMP_AND_SWP : VB_WR_MASKED_FETCH_AND_ADD;
	to->remote_addr = wr->ext_op.masked_atomics.remote_addr;
	to->rkey = wr->ext_op.masked_atomics.rkey;
	if (to->masked.compare_swap) {
		put_operand(&to->masked, VB_MASKED_COMPARE, swap->compare_val);
		put_operand(&to->masked, VB_MASKED_COMPARE_MASK, swap->compare_mask);
		put_operand(&to->masked, VB_MASKED_SWAP, swap->swap_val);
		put_operand(&to->masked, VB_MASKED_SWAP_MASK, swap->swap_mask);
	} else {
		put_operand(&to->masked, VB_MASKED_ADD, add->add_val);
		put_operand(&to->masked, VB_MASKED_BOUNDARY, add->field_boundary);
	}
	return 0;
}

static int fill_nop(const struct ibv_exp_send_wr *wr, struct vb_extended_wr *to)
{
	(void)wr;
	to->opcode = VB_WR_NOP;
	return 0;
}

static int fill_umr(const struct ibv_exp_send_wr *wr, struct vb_extended_wr *to)
{
	struct vb_umr *umr;
	int err = legacy_umr(wr, &umr);

	if (err)
		return err;
	to->opcode = VB_WR_UMR;
	to->umr = umr;
	to->inlined = wr->exp_send_flags & IBV_EXP_SEND_INLINE;
	return 0;
}

static int fill_wait(const struct ibv_exp_send_wr *wr, struct vb_extended_wr *to)
{
	to->opcode = VB_WR_CQE_WAIT;
	to->wait_cq = wr->task.cqe_wait.cq;
	to->count = wr->task.cqe_wait.cq_count;
	to->last = wr->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST;
	return to->wait_cq ? 0 : EINVAL;
}

static int fill_enable(const struct ibv_exp_send_wr *wr, struct vb_extended_wr *to)
{
	to->opcode =
		wr->exp_opcode == IBV_EXP_WR_SEND_ENABLE ? VB_WR_SEND_ENABLE : VB_WR_RECV_ENABLE;
	to->enable_qp = wr->task.wqe_enable.qp;
	to->count = wr->task.wqe_enable.wqe_count;
	to->last = wr->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST;
	return to->enable_qp ? 0 : EINVAL;
}

static int post_extended(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr,
			 int (*fill)(const struct ibv_exp_send_wr *wr, struct vb_extended_wr *to))
{
	const uint64_t flags = IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED;
	const struct vb_engine_table *engine = legacy_engine();
	struct vb_extended_wr to = {
		.wr_id = wr->wr_id,
		.sg_list = wr->sg_list,
		.num_sge = wr->num_sge,
		.send_flags = (unsigned)(wr->exp_send_flags & flags),
	};
	int err = engine ? fill(wr, &to) : EOPNOTSUPP;

	if (!err)
		err = -engine->extended_post(qp, &to);
	free((void *)(uintptr_t)to.umr); /* the post has copied it */
	return err;
}

static int post_one(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	if (wr->comp_mask)
		return EINVAL;
	switch (wr->exp_opcode) {
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD:
		return post_extended(qp, wr, fill_masked);
	case IBV_EXP_WR_UMR_FILL:
	case IBV_EXP_WR_UMR_INVALIDATE:
		return post_extended(qp, wr, fill_umr);
	case IBV_EXP_WR_NOP:
		return post_extended(qp, wr, fill_nop);
	case IBV_EXP_WR_CQE_WAIT:
		return post_extended(qp, wr, fill_wait);
	case IBV_EXP_WR_SEND_ENABLE:
	case IBV_EXP_WR_RECV_ENABLE:
		return post_extended(qp, wr, fill_enable);
	default:
		return post_plain(qp, wr);
	}
}

/* bad_wr NULL: the program does not want to know. */
EXPORT int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
			     struct ibv_exp_send_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		int err = post_one(qp, wr);

		if (err) {
			if (bad_wr)
				*bad_wr = wr;
			return legacy_result(err);
		}
	}
	return 0;
}

static int post_task(struct ibv_context *context, const struct ibv_exp_task *task)
{
	struct ibv_recv_wr *bad_receive;

	if (task->comp_mask || !task->item.qp || task->item.qp->context != context)
		return EINVAL;
	if (task->task_type == IBV_EXP_TASK_SEND)
		return ibv_exp_post_send(task->item.qp, task->item.send_wr, NULL);
	if (task->task_type == IBV_EXP_TASK_RECV)
		return ibv_post_recv(task->item.qp, task->item.recv_wr, &bad_receive);
	return EINVAL;
}

/* The tasks of one call are posted one after the other, and none of another call in between. */
EXPORT int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task,
			     struct ibv_exp_task **bad_task)
{
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
	int err = 0;

	pthread_mutex_lock(&turn);
	for (; task; task = task->next) {
		err = post_task(context, task);
		if (err)
			break;
	}
	pthread_mutex_unlock(&turn);
	if (err && bad_task)
		*bad_task = task;
	return legacy_result(err);
}

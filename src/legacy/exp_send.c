/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_exp_post_send: posts the requests one by one, in today's form. */
#include <errno.h>

#include "legacy.h"

static const struct {
	enum ibv_exp_wr_opcode old;
	enum ibv_wr_opcode today;
} opcodes[] = {
	{ IBV_EXP_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE },
	{ IBV_EXP_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM },
	{ IBV_EXP_WR_SEND, IBV_WR_SEND },
	{ IBV_EXP_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM },
	{ IBV_EXP_WR_RDMA_READ, IBV_WR_RDMA_READ },
	{ IBV_EXP_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP },
	{ IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD },
	{ IBV_EXP_WR_SEND_WITH_INV, IBV_WR_SEND_WITH_INV },
	{ IBV_EXP_WR_LOCAL_INV, IBV_WR_LOCAL_INV },
	{ IBV_EXP_WR_BIND_MW, IBV_WR_BIND_MW },
};

static bool opcode_of(const struct ibv_exp_send_wr *wr, enum ibv_wr_opcode *opcode)
{
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++)
		if (opcodes[i].old == wr->exp_opcode) {
			*opcode = opcodes[i].today;
			return true;
		}
	return false;
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

static void set_bind(const struct ibv_exp_send_wr *wr, struct ibv_send_wr *to)
{
	to->bind_mw.mw = wr->bind_mw.mw;
	to->bind_mw.rkey = wr->bind_mw.rkey;
	to->bind_mw.bind_info.mr = wr->bind_mw.bind_info.mr;
	to->bind_mw.bind_info.addr = wr->bind_mw.bind_info.addr;
	to->bind_mw.bind_info.length = wr->bind_mw.bind_info.length;
	to->bind_mw.bind_info.mw_access_flags = (unsigned)wr->bind_mw.bind_info.exp_mw_access_flags;
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

	if (!opcode_of(wr, &today.opcode))
		return EOPNOTSUPP;
	if (wr->exp_send_flags & IBV_EXP_SEND_IP_CSUM)
		today.send_flags |= IBV_SEND_IP_CSUM;
	if (wr->exp_send_flags & ~(known | IBV_EXP_SEND_IP_CSUM))
		return EINVAL;
	if (today.opcode == IBV_WR_BIND_MW && wr->bind_mw.bind_info.exp_mw_access_flags >> 32)
		return EINVAL; /* none of these flags has a meaning today */
	set_target(wr, qp, &today);
	if (today.opcode == IBV_WR_BIND_MW)
		set_bind(wr, &today);
	return ibv_post_send(qp, &today, &bad);
}

static int post_one(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	if (wr->comp_mask)
		return EINVAL;
	if (wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP ||
	    wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD)
		return masked_post(qp, wr);
	return post_plain(qp, wr);
}

EXPORT int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
			     struct ibv_exp_send_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		int err = post_one(qp, wr);

		if (err) {
			*bad_wr = wr;
			return legacy_result(err);
		}
	}
	return 0;
}

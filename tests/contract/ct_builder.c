/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The other way to post: with VERBENA_TEST_BUILDERS every QP of the suite is created for the
 * ibv_wr_* calls, and every work request is built by them, so that the whole contract holds for
 * those too.
 */
#include <stdlib.h>

#include "abi/flush.h"
#include "ct_agent.h"

bool ct_with_builders(void)
{
	return getenv("VERBENA_TEST_BUILDERS");
}

static uint64_t ops_of(enum ibv_qp_type type)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	bool reliable = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;

	if (type == IBV_QPT_RAW_PACKET)
		return IBV_QP_EX_WITH_SEND;
	if (type == IBV_QPT_UC || reliable)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		       IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
	if (reliable)
		ops |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
		       IBV_QP_EX_WITH_FLUSH;
	return ops;
}

struct ibv_qp *agent_make_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = init->qp_context,
		.send_cq = init->send_cq,
		.recv_cq = init->recv_cq,
		.srq = init->srq,
		.cap = init->cap,
		.qp_type = init->qp_type,
		.sq_sig_all = init->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = ops_of(init->qp_type),
	};
	struct ibv_qp *qp;

	if (!ct_with_builders() || init->qp_type == IBV_QPT_RAW_PACKET)
		return ibv_create_qp(pd, init);
	qp = ibv_create_qp_ex(pd->context, &ex);
	if (qp)
		init->cap = ex.cap;
	return qp;
}

/* ---- building -------------------------------------------------------------------------------- */

static void begin(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags;
	switch ((int)wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(qp);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qp, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(qp, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(qp, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	case IBV_WR_FLUSH: /* struct ibv_send_wr has no place of its own for the operands */
		ibv_wr_flush(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
			     wr->wr.atomic.compare_add, wr->wr.atomic.swap & 0xff,
			     wr->wr.atomic.swap >> 8 & 0xff);
		break;
	case IBV_WR_LOCAL_INV:
		ibv_wr_local_inv(qp, wr->invalidate_rkey);
		break;
	default:
		ct_fail("opcode %d has no builder", wr->opcode);
	}
}

static void set_data(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf list[CT_SGE_MAX];

	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (wr->num_sge == 1)
			ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr,
				       wr->sg_list->length);
		else
			ibv_wr_set_sge_list(qp, wr->num_sge, wr->sg_list);
		return;
	}
	for (int i = 0; i < wr->num_sge; i++)
		list[i] = (struct ibv_data_buf){ .addr = (void *)(uintptr_t)wr->sg_list[i].addr,
						 .length = wr->sg_list[i].length };
	if (wr->num_sge == 1)
		ibv_wr_set_inline_data(qp, list[0].addr, list[0].length);
	else
		ibv_wr_set_inline_data_list(qp, wr->num_sge, list);
}

static const uint64_t op_of[] = {
	[IBV_WR_RDMA_WRITE] = IBV_QP_EX_WITH_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	[IBV_WR_SEND] = IBV_QP_EX_WITH_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_QP_EX_WITH_SEND_WITH_IMM,
	[IBV_WR_RDMA_READ] = IBV_QP_EX_WITH_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	[IBV_WR_LOCAL_INV] = IBV_QP_EX_WITH_LOCAL_INV,
	[IBV_WR_BIND_MW] = IBV_QP_EX_WITH_BIND_MW,
	[IBV_WR_SEND_WITH_INV] = IBV_QP_EX_WITH_SEND_WITH_INV,
	[IBV_WR_FLUSH] = IBV_QP_EX_WITH_FLUSH,
};

/* The calls have words for it. */
static bool sayable(const struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	return wr->num_sge >= 0 && wr->num_sge <= CT_SGE_MAX &&
	       (unsigned)wr->opcode < CT_COUNT(op_of) &&
	       op_of[wr->opcode] & ops_of(qp->qp_base.qp_type);
}

static int build(struct ibv_qp_ex *qp, struct ibv_send_wr *wr, bool all)
{
	ibv_wr_start(qp);
	for (; wr; wr = all ? wr->next : NULL) {
		begin(qp, wr);
		if (qp->qp_base.qp_type == IBV_QPT_UD)
			ibv_wr_set_ud_addr(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
					   wr->wr.ud.remote_qkey);
		if (qp->qp_base.qp_type == IBV_QPT_XRC_SEND)
			ibv_wr_set_xrc_srqn(qp, wr->qp_type.xrc.remote_srqn);
		if (wr->opcode != IBV_WR_BIND_MW && wr->opcode != IBV_WR_LOCAL_INV &&
		    wr->opcode != IBV_WR_FLUSH)
			set_data(qp, wr);
	}
	return ibv_wr_complete(qp);
}

static bool all_sayable(const struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	for (; wr; wr = wr->next)
		if (!sayable(qp, wr))
			return false;
	return true;
}

/*
 * As one batch. Of one that fails nothing is posted: then one by one, so that the result is that of
 * ibv_post_send, which posts what comes before the bad one.
 */
int agent_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_qp_ex *qpx = ct_with_builders() ? ibv_qp_to_qp_ex(qp) : NULL;
	int ret = 0;

	if (!qpx || !all_sayable(qpx, wr))
		return ibv_post_send(qp, wr, bad);
	if (!build(qpx, wr, true))
		return 0;
	for (; wr && !ret; wr = ret ? wr : wr->next)
		ret = build(qpx, wr, false);
	*bad = wr;
	return ret;
}

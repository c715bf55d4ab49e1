/* SPDX-License-Identifier: BSD-2-Clause */
#include "scribble.h"

struct ibv_qp *end_make(struct rig *rig, struct ibv_cq *cq, struct ibv_srq *srq,
			enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { SCRIBBLE_DEPTH, SCRIBBLE_DEPTH, 1, 2, 64 },
		.qp_type = type,
		.sq_sig_all = 1,
	};

	return ibv_create_qp(rig->pd, &init);
}

static bool to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = RIG_PORT,
		.qkey = RIG_QKEY,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	return !ibv_modify_qp(
		qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static bool to_rtr(struct rig *rig, struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = SCRIBBLE_PSN,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = RIG_PORT,
			     .grh = { .dgid = rig->gid,
				      .sgid_index = RIG_GID_INDEX,
				      .hop_limit = 4 } },
	};
	int mask = IBV_QP_STATE;

	if (qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return !ibv_modify_qp(qp, &attr, mask);
}

static bool to_rts(struct ibv_qp *qp, bool patient)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = SCRIBBLE_PSN,
		.timeout = patient ? 18 : 10,
		.retry_cnt = patient ? 7 : 1,
		.rnr_retry = patient ? 7 : 1,
		.max_rd_atomic = 4,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return !ibv_modify_qp(qp, &attr, mask);
}

bool end_connect(struct rig *rig, struct ibv_qp *qp, uint32_t dest_qpn, bool patient)
{
	return to_init(qp) && to_rtr(rig, qp, dest_qpn) && to_rts(qp, patient);
}

void end_post(struct rng *rng, struct ibv_qp *qp, struct ibv_ah *ah, const struct card *to,
	      const struct ibv_sge *from)
{
	static const enum ibv_wr_opcode reliable[] = {
		IBV_WR_SEND,       IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD
	};
	static const uint32_t lengths[] = { 0, 1, 8, 24, 25, 200, 256, 257, 900, 4096 };
	struct ibv_sge sge = *from;
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	sge.length = lengths[rng_below(rng, 10)];
	wr.opcode = reliable[rng_below(rng, qp->qp_type == IBV_QPT_RC   ? 6
					    : qp->qp_type == IBV_QPT_UC ? 4
									: 2)];
	if (qp->qp_type == IBV_QPT_UD) {
		sge.length = sge.length > 900 ? 900 : sge.length;
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = to->qpn;
		wr.wr.ud.remote_qkey = RIG_QKEY;
	} else if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = to->addr;
		wr.wr.atomic.rkey = to->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = to->addr + rng_below(rng, to->length - 4096);
		wr.wr.rdma.rkey = to->rkey;
	}
	(void)ibv_post_send(qp, &wr, &bad); /* a full queue, or one that has failed */
}

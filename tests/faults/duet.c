/* SPDX-License-Identifier: BSD-2-Clause */
#include "duet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PORT = 1, GID_INDEX = 1, ACCESS = 0xf };

double duet_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static struct ibv_qp *make_qp(struct duet *duet)
{
	struct ibv_qp_init_attr init = {
		.send_cq = duet->send_cq,
		.recv_cq = duet->recv_cq,
		.qp_type = duet->type,
		.cap = { DUET_SLOTS, DUET_SLOTS, 1, 1, 0 },
		.sq_sig_all = 1,
	};

	return ibv_create_qp(duet->pd, &init);
}

static struct ibv_ah_attr address(const struct duet *duet)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = PORT,
		.grh = { .dgid = duet->gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
	};
}

static int to_init(struct duet *duet, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qkey = DUET_QKEY,
		.qp_access_flags = ACCESS,
	};

	return ibv_modify_qp(
		qp, &attr,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			(duet->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int to_rtr(struct duet *duet, struct ibv_qp *qp, uint32_t peer_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.ah_attr = address(duet),
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
	};
	int mask = IBV_QP_STATE;

	if (duet->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (duet->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

static int to_rts(struct duet *duet, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = DUET_TIMEOUT,
		.retry_cnt = DUET_RETRIES,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (duet->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

int duet_renew(struct duet *duet, struct ibv_qp *qp, uint32_t peer_qpn)
{
	int err = to_init(duet, qp);

	if (!err)
		err = to_rtr(duet, qp, peer_qpn);
	return err ? err : to_rts(duet, qp);
}

static int connect_all(struct duet *duet)
{
	struct ibv_qp *qps[] = { duet->a, duet->b };
	struct ibv_ah_attr attr = address(duet);

	for (int i = 0; i < 2; i++) {
		int err = duet_renew(duet, qps[i], qps[!i]->qp_num);

		if (err)
			return err;
	}
	duet->ah = duet->type == IBV_QPT_UD ? ibv_create_ah(duet->pd, &attr) : NULL;
	return duet->type == IBV_QPT_UD && !duet->ah;
}

struct duet *duet_open(enum ibv_qp_type type)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct duet *duet = aligned_alloc(4096, (sizeof(*duet) + 4095) & ~4095ul);

	memset(duet, 0, sizeof(*duet));
	duet->type = type;
	for (int i = 0; i < DUET_SLOTS; i++)
		memset(duet->from[i], i + 1, DUET_SLOT_BYTES);
	duet->context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	if (!duet->context || ibv_query_gid(duet->context, PORT, GID_INDEX, &duet->gid))
		return NULL;
	duet->pd = ibv_alloc_pd(duet->context);
	duet->mr = ibv_reg_mr(duet->pd, duet, sizeof(*duet), ACCESS);
	duet->send_cq = ibv_create_cq(duet->context, 4 * DUET_SLOTS, NULL, NULL, 0);
	duet->recv_cq = ibv_create_cq(duet->context, 4 * DUET_SLOTS, NULL, NULL, 0);
	duet->a = make_qp(duet);
	duet->b = make_qp(duet);
	return duet->mr && duet->a && duet->b && !connect_all(duet) ? duet : NULL;
}

static void fill(struct duet *duet, enum ibv_wr_opcode opcode, unsigned slot, struct ibv_sge *sge,
		 struct ibv_send_wr *wr)
{
	*sge = (struct ibv_sge){ (uintptr_t)duet->from[slot], DUET_SLOT_BYTES, duet->mr->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = slot, .opcode = opcode, .sg_list = sge, .num_sge = 1 };
	if (duet->type == IBV_QPT_UD) {
		wr->wr.ud.ah = duet->ah;
		wr->wr.ud.remote_qpn = duet->b->qp_num;
		wr->wr.ud.remote_qkey = DUET_QKEY;
	} else {
		wr->wr.rdma.remote_addr = (uintptr_t)duet->to[slot];
		wr->wr.rdma.rkey = duet->mr->rkey;
	}
}

int duet_post_list(struct duet *duet, enum ibv_wr_opcode opcode, unsigned first, unsigned last)
{
	struct ibv_send_wr wr[DUET_SLOTS], *bad;
	struct ibv_sge sge[DUET_SLOTS];

	for (unsigned slot = first; slot <= last; slot++) {
		fill(duet, opcode, slot, &sge[slot], &wr[slot]);
		wr[slot].next = slot < last ? &wr[slot + 1] : NULL;
	}
	return ibv_post_send(duet->a, &wr[first], &bad);
}

int duet_post(struct duet *duet, enum ibv_wr_opcode opcode, unsigned slot)
{
	return duet_post_list(duet, opcode, slot, slot);
}

int duet_recv(struct duet *duet, unsigned slot)
{
	struct ibv_sge sge = { (uintptr_t)duet->to[slot], sizeof(duet->to[slot]), duet->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(duet->b, &wr, &bad);
}

bool duet_wait(struct ibv_cq *cq, struct ibv_wc *wc)
{
	double end_ms = duet_now_ms() + DUET_DEADLINE_MS;
	int got;

	do
		got = ibv_poll_cq(cq, 1, wc);
	while (!got && duet_now_ms() < end_ms);
	return got == 1;
}

bool duet_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	return duet_wait(cq, &wc) && wc.wr_id == wr_id && wc.status == status;
}

bool duet_arrived(const struct duet *duet, unsigned slot)
{
	const uint8_t *bytes = duet->to[slot] + (duet->type == IBV_QPT_UD ? 40 : 0);

	return !memcmp(bytes, duet->from[slot], DUET_SLOT_BYTES);
}

enum ibv_qp_state duet_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN : attr.qp_state;
}

bool duet_await_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	double end_ms = duet_now_ms() + DUET_DEADLINE_MS;

	while (duet_state(qp) != state && duet_now_ms() < end_ms)
		;
	return duet_state(qp) == state;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_mr *memory_make(struct ibv_pd *pd, size_t size, int access, void *out)
{
	void *memory = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
	struct ibv_mr *mr;

	CHECK(memory, "out of memory");
	memset(memory, 0, size);
	mr = ibv_reg_mr(pd, memory, size, access);
	CHECK(mr, "ibv_reg_mr of %zu: %s", size, strerror(errno));
	memcpy(out, &memory, sizeof(memory));
	return mr;
}

static struct plan *plan_make(const struct terms *terms, uint32_t number, bool from_client)
{
	struct plan *plan = malloc(sizeof(*plan));

	CHECK(plan, "out of memory");
	plan_open(plan, terms, number, from_client);
	return plan;
}

static void memory_open(struct lane *lane, struct home *home)
{
	const struct terms *terms = lane->terms;
	size_t slots = (size_t)slot_count(terms) * slot_size(terms);
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC;

	if (lane->out)
		lane->local_mr = memory_make(home->pd, terms->region_size, IBV_ACCESS_LOCAL_WRITE,
					     &lane->local);
	if (!lane->in)
		return;
	lane->target_mr =
		memory_make(home->pd, WORD_COUNT * sizeof(uint64_t) + terms->region_size + slots,
			    access, &lane->words);
	lane->region = (uint8_t *)(lane->words + WORD_COUNT);
	lane->slots = lane->region + terms->region_size;
}

static void qp_open(struct lane *lane, struct home *home)
{
	const struct terms *terms = lane->terms;
	struct ibv_qp_init_attr attr = {
		.send_cq = home->cq,
		.recv_cq = home->cq,
		.qp_type = terms->qp_type,
		.cap = { .max_send_wr = terms->window,
			 .max_recv_wr = terms->qp_type == IBV_QPT_RC ? terms->recv_depth
								     : slot_count(terms),
			 .max_send_sge = PIECES_MAX,
			 .max_recv_sge = PIECES_MAX,
			 .max_inline_data = INLINE_MAX },
	};

	lane->qp = ibv_create_qp(home->pd, &attr);
	CHECK(lane->qp, "ibv_create_qp %u: %s", lane->number, strerror(errno));
	lane->inline_max = attr.cap.max_inline_data;
}

void lane_open(struct lane *lane, struct home *home, const struct terms *terms, uint32_t number,
	       bool is_client)
{
	struct rng rng = rng_fork(terms->seed ^ (uint64_t)is_client << 63, number);

	*lane = (struct lane){ .terms = terms, .number = number };
	if (is_client || terms->both)
		lane->out = plan_make(terms, number, is_client);
	if (!is_client || terms->both)
		lane->in = plan_make(terms, number, !is_client);
	memory_open(lane, home);
	qp_open(lane, home);
	lane->self = (struct lane_info){ .gid = home->gid,
					 .qpn = lane->qp->qp_num,
					 .psn = rng_next(&rng) & 0xffffff };
	if (lane->in) {
		lane->self.addr = (uintptr_t)lane->words;
		lane->self.rkey = lane->target_mr->rkey;
	}
	/* Every third lane wraps its sequence numbers soon. */
	if (number % 3 == 0)
		lane->self.psn |= 0xffff00;
}

static enum ibv_mtu mtu_value(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && (128u << (mtu + 1)) <= bytes)
		mtu++;
	return mtu;
}

static void modify(struct lane *lane, struct ibv_qp_attr *attr, int mask, const char *name)
{
	int err = ibv_modify_qp(lane->qp, attr, mask | IBV_QP_STATE);

	CHECK(!err, "QP %u to %s: %s", lane->number, name, strerror(err));
}

static void to_init(struct lane *lane)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = QKEY,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC };
	uint32_t type = lane->terms->qp_type;

	if (type == IBV_QPT_UC)
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	modify(lane, &attr,
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS),
	       "INIT");
}

static void to_rtr(struct lane *lane, const struct home *home, const struct ibv_ah_attr *path)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = mtu_value(lane->terms->mtu_bytes),
				    .dest_qp_num = lane->peer.qpn,
				    .rq_psn = lane->peer.psn,
				    .max_dest_rd_atomic = (uint8_t)home->dest_rd_atomic,
				    .min_rnr_timer = 8, /* 0.16 ms */
				    .ah_attr = *path };
	uint32_t type = lane->terms->qp_type;
	int mask = 0;

	if (type != IBV_QPT_UD)
		mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	modify(lane, &attr, mask, "RTR");
}

static void to_rts(struct lane *lane, const struct home *home)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .sq_psn = lane->self.psn,
				    .timeout = (uint8_t)lane->terms->timeout,
				    .retry_cnt = (uint8_t)lane->terms->retry_cnt,
				    .rnr_retry = 7,
				    .max_rd_atomic = (uint8_t)home->rd_atomic };
	int mask = IBV_QP_SQ_PSN;

	if (lane->terms->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	modify(lane, &attr, mask, "RTS");
}

void lane_connect(struct lane *lane, const struct home *home)
{
	struct ibv_ah_attr path = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = lane->peer.gid,
					     .sgid_index = (uint8_t)home->gid_index,
					     .hop_limit = 64 } };

	to_init(lane);
	to_rtr(lane, home, &path);
	to_rts(lane, home);
	if (lane->terms->qp_type == IBV_QPT_UD) {
		lane->ah = ibv_create_ah(home->pd, &path);
		CHECK(lane->ah, "ibv_create_ah: %s", strerror(errno));
	}
}

static void memory_close(struct ibv_mr *mr)
{
	void *memory = mr ? mr->addr : NULL;
	int err = mr ? ibv_dereg_mr(mr) : 0;

	CHECK(!err, "ibv_dereg_mr: %s", strerror(err));
	free(memory);
}

void lane_close(struct lane *lane)
{
	int err = ibv_destroy_qp(lane->qp);

	CHECK(!err, "ibv_destroy_qp: %s", strerror(err));
	if (lane->ah)
		CHECK(!(err = ibv_destroy_ah(lane->ah)), "ibv_destroy_ah: %s", strerror(err));
	memory_close(lane->local_mr);
	memory_close(lane->target_mr);
	free(lane->out);
	free(lane->in);
}

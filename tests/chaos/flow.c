/* SPDX-License-Identifier: BSD-2-Clause */
#include "flow.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "pattern.h"

enum { GRH_SIZE = 40, CANARY = 0x5a };

static uint8_t *map_memory(size_t size, void *at)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0);
	uint8_t *memory = mmap(at, size, PROT_READ | PROT_WRITE, flags, -1, 0);

	CHECK(memory != MAP_FAILED, "mmap of %zu bytes: %s", size, strerror(errno));
	return memory;
}

static struct ibv_mr *reg(struct rig *rig, void *memory, size_t size)
{
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, memory, size,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);

	CHECK(mr, "ibv_reg_mr of %zu bytes: %s", size, strerror(errno));
	return mr;
}

static void open_memory(struct flow *flow)
{
	const struct flow_shape *shape = &flow->shape;
	size_t stride = (shape->size_max + 63u) & ~63u;

	flow->ring_size = shape->lanes * shape->depth * stride;
	flow->ring = map_memory(flow->ring_size, NULL);
	flow->ring_mr = reg(flow->rig, flow->ring, flow->ring_size);
	flow->map = region_map(shape->depth, shape->size_max);
	if (shape->mix != MIX_ONESIDED)
		return;
	flow->region = map_memory(flow->map.size, shape->region_at);
	stream_fill(flow->region, 0, STREAM_SIZE, shape->tag_out);
	memset(flow->region + flow->map.canary, CANARY, CANARY_SIZE);
	flow->region_mr = reg(flow->rig, flow->region, flow->map.size);
}

static void open_cq(struct flow *flow)
{
	struct ibv_context *ctx = flow->rig->ctx;
	unsigned cqe = flow->shape.depth * (flow->shape.lanes + 1) + DEPTH_MAX;

	if (flow->shape.events) {
		flow->channel = ibv_create_comp_channel(ctx);
		CHECK(flow->channel, "ibv_create_comp_channel: %s", strerror(errno));
	}
	flow->cq = ibv_create_cq(ctx, (int)cqe, NULL, flow->channel, 0);
	CHECK(flow->cq, "ibv_create_cq: %s", strerror(errno));
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = ibv_modify_qp(qp, attr, mask);

	CHECK(!err, "ibv_modify_qp to state %d: %s", attr->qp_state, strerror(err));
}

static void qp_to_init(struct ibv_qp *qp, bool ud)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = RIG_PORT,
				    .qkey = RIG_QKEY,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	modify(qp, &attr, mask | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static void tx_open(struct flow *flow, unsigned i)
{
	struct lane *lane = &flow->lane[i];
	const struct flow_shape *shape = &flow->shape;
	struct ibv_qp_init_attr init = {
		.send_cq = flow->cq,
		.recv_cq = flow->cq,
		.srq = flow->rx->srq,
		.qp_type = shape->ud ? IBV_QPT_UD : IBV_QPT_RC,
		.cap = { .max_send_wr = shape->depth,
			 .max_recv_wr = flow->rx->srq ? 0 : shape->depth,
			 .max_send_sge = 1,
			 .max_recv_sge = flow->rx->srq ? 0 : 1,
			 .max_inline_data = INLINE_SIZE },
	};
	size_t stride = (shape->size_max + 63u) & ~63u;

	lane->tx = (struct tx){ .lane = i,
				.depth = shape->depth,
				.mix = shape->mix,
				.ring = flow->ring + i * shape->depth * stride,
				.stride = stride,
				.lkey = flow->ring_mr->lkey,
				.size_max = shape->size_max,
				.map = flow->map };
	lane->tx.qp = ibv_create_qp(flow->rig->pd, &init);
	CHECK(lane->tx.qp, "ibv_create_qp: %s", strerror(errno));
	qp_to_init(lane->tx.qp, shape->ud);
}

/* UD needs no peer to be ready. */
static void ud_to_rts(struct ibv_qp *qp)
{
	modify(qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR }, IBV_QP_STATE);
	modify(qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

void flow_retune(struct flow *flow, const struct flow_shape *shape)
{
	struct rng rng = rng_fork(shape->seed, shape->tag_out);

	flow->shape.tag_out = shape->tag_out;
	flow->shape.tag_in = shape->tag_in;
	flow->messages_in = flow->late_in = 0;
	for (unsigned i = 0; i < flow->shape.lanes; i++) {
		struct lane *lane = &flow->lane[i];

		lane->psn = (uint32_t)rng_below(&rng, 1 << 24);
		lane->next_in = 0;
		lane->tx.rng = rng_fork(shape->seed, shape->tag_out + i + 1);
		lane->tx.tag = shape->tag_out + i;
		lane->tx.stream_key = shape->tag_in;
		lane->tx.tally = shape->tally;
		lane->tx.messages = 0;
		lane->tx.limit = lane->tx.posted + shape->send_limit;
		if (shape->send_limit == UINT64_MAX)
			lane->tx.limit = UINT64_MAX;
	}
}

void flow_open(struct flow *flow, struct rig *rig, const struct flow_shape *shape,
	       struct rx *shared)
{
	*flow = (struct flow){ .rig = rig, .shape = *shape, .rx = shared };
	open_memory(flow);
	open_cq(flow);
	if (!shared) {
		rx_open(&flow->own_rx, rig, shape->depth,
			shape->size_max + (shape->ud ? GRH_SIZE : 0));
		flow->rx = &flow->own_rx;
		flow->rx->shared = shape->ud;
	}
	for (unsigned i = 0; i < shape->lanes; i++)
		tx_open(flow, i);
	flow->own_rx.qp = flow->lane[0].tx.qp;
	if (shape->ud)
		ud_to_rts(flow->lane[0].tx.qp);
	flow_retune(flow, shape);
}

void flow_describe(const struct flow *flow, struct hello *hello)
{
	hello->gid = flow->rig->gid;
	hello->lanes = flow->shape.lanes;
	for (unsigned i = 0; i < hello->lanes; i++) {
		hello->qpn[i] = flow->lane[i].tx.qp->qp_num;
		hello->psn[i] = flow->lane[i].psn;
	}
	if (flow->region_mr) {
		hello->region_addr = (uintptr_t)flow->region;
		hello->rkey = flow->region_mr->rkey;
	}
}

static struct ibv_ah_attr address(const struct hello *peer)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = RIG_PORT,
		.grh = { .dgid = peer->gid, .sgid_index = RIG_GID_INDEX, .hop_limit = 64 }
	};
}

static void rc_to_rts(struct flow *flow, unsigned i, const struct hello *peer)
{
	struct ibv_qp *qp = flow->lane[i].tx.qp;
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = peer->qpn[i],
				   .rq_psn = peer->psn[i],
				   .max_dest_rd_atomic = 8,
				   .min_rnr_timer = 1,
				   .ah_attr = address(peer) };
	/* The retry timer is long (2.1 s in all), so that a death seen at once is not the timer. */
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 16,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .sq_psn = flow->lane[i].psn,
				   .max_rd_atomic = 8 };

	modify(qp, &rtr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(qp, &rts,
	       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

static void ud_address(struct flow *flow, const struct hello *peer)
{
	struct tx *tx = &flow->lane[0].tx;
	struct ibv_ah_attr attr = address(peer);

	if (tx->ah)
		CHECK(!ibv_destroy_ah(tx->ah), "ibv_destroy_ah");
	tx->ah = ibv_create_ah(flow->rig->pd, &attr);
	CHECK(tx->ah, "ibv_create_ah: %s", strerror(errno));
	tx->remote_qpn = peer->qpn[0];
}

void flow_connect(struct flow *flow, const struct hello *peer)
{
	for (unsigned i = 0; i < flow->shape.lanes; i++) {
		flow->lane[i].tx.remote_addr = peer->region_addr;
		flow->lane[i].tx.rkey = peer->rkey;
		if (!flow->shape.ud)
			rc_to_rts(flow, i, peer);
	}
	if (flow->shape.ud)
		ud_address(flow, peer);
}

void flow_error(struct flow *flow)
{
	flow->may_fail = flow->failed = true;
	for (unsigned i = 0; i < flow->shape.lanes; i++) {
		flow->lane[i].tx.flushing = true;
		modify(flow->lane[i].tx.qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
		       IBV_QP_STATE);
	}
}

static void close_cq(struct flow *flow)
{
	struct ibv_wc wc;
	int count = ibv_poll_cq(flow->cq, 1, &wc);

	CHECK(count == 0, "poll_cq after everything completed: %d, wr_id %#llx %s", count,
	      count > 0 ? (unsigned long long)wc.wr_id : 0,
	      count > 0 ? ibv_wc_status_str(wc.status) : "");
	int err = ibv_destroy_cq(flow->cq);
	CHECK(!err, "ibv_destroy_cq: %s", strerror(err));
	if (flow->channel)
		CHECK(!ibv_destroy_comp_channel(flow->channel), "ibv_destroy_comp_channel");
}

void flow_close(struct flow *flow)
{
	for (unsigned i = 0; i < flow->shape.lanes; i++) {
		struct tx *tx = &flow->lane[i].tx;
		int err = ibv_destroy_qp(tx->qp);

		CHECK(!err, "ibv_destroy_qp: %s", strerror(err));
		if (tx->ah)
			CHECK(!ibv_destroy_ah(tx->ah), "ibv_destroy_ah");
	}
	close_cq(flow);
	if (flow->rx == &flow->own_rx)
		rx_close(&flow->own_rx);
	CHECK(!ibv_dereg_mr(flow->ring_mr), "ibv_dereg_mr of the send ring");
	munmap(flow->ring, flow->ring_size);
	if (flow->region_mr) {
		CHECK(!ibv_dereg_mr(flow->region_mr), "ibv_dereg_mr of the region");
		munmap(flow->region, flow->map.size);
	}
}

void flow_region_check(const struct flow *flow)
{
	if (!flow->region)
		return;
	CHECK(stream_right(flow->region, 0, STREAM_SIZE, flow->shape.tag_out),
	      "memory that nobody may write was written (stream)");
	for (size_t i = 0; i < CANARY_SIZE; i++)
		CHECK(flow->region[flow->map.canary + i] == CANARY,
		      "memory that nobody may write was written (canary + %zu)", i);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce_stage.h"

#include <string.h>

#include "../sim/sim.h"
#include "nic/xrcd.h"
#include "verbs/ops.h"

enum {
	ALL_REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	MEMORY_BYTES = (2 * ZONES + 1) * ZONE_BYTES,
	SECRET_BYTES = 16,
	CANARY = 0xc7,
	ROUNDS_MAX = 100000,
};

static const uint8_t mine[4] = { 10, 0, 0, 1 }, its[4] = { 10, 0, 0, 2 };

uint8_t *stage_zone(const struct stage *stage, enum stage_zone zone)
{
	return stage->memory + (2 * (size_t)zone + 1) * ZONE_BYTES;
}

/* Nobody can guess it, the fuzzer included. */
static const uint8_t *secret(void)
{
	static uint8_t bytes[SECRET_BYTES];
	FILE *random = bytes[0] ? NULL : fopen("/dev/urandom", "rbe");

	if (random) {
		fuzz_check(fread(bytes, 1, sizeof(bytes), random) == sizeof(bytes));
		fclose(random);
		bytes[0] |= 1;
	}
	return bytes;
}

/* --- memory --- */

static void memory_make(struct stage *stage)
{
	stage->memory = aligned_alloc(ZONE_BYTES, MEMORY_BYTES);
	fuzz_check(stage->memory);
	memset(stage->memory, CANARY, MEMORY_BYTES);
	memset(stage_zone(stage, ZONE_TARGET), 0x11, ZONE_BYTES);
	memset(stage_zone(stage, ZONE_SOURCE), 0x22, ZONE_BYTES);
	for (unsigned i = 0; i < ZONE_BYTES; i += SECRET_BYTES)
		memcpy(stage_zone(stage, ZONE_MUTE) + i, secret(), SECRET_BYTES);
}

static void expect_all(const uint8_t *bytes, size_t length, uint8_t value)
{
	for (size_t i = 0; i < length; i++)
		fuzz_check(bytes[i] == value);
}

static void memory_check(const struct stage *stage)
{
	for (unsigned i = 0; i <= ZONES; i++)
		expect_all(stage->memory + 2 * (size_t)i * ZONE_BYTES, ZONE_BYTES, CANARY);
	for (unsigned i = 0; i < ZONE_BYTES; i += SECRET_BYTES)
		fuzz_check(!memcmp(stage_zone(stage, ZONE_MUTE) + i, secret(), SECRET_BYTES));
	expect_all(stage_zone(stage, ZONE_RECV) + ZONE_BYTES / 2, ZONE_BYTES / 2, CANARY);
	expect_all(stage_zone(stage, ZONE_LAND) + ZONE_BYTES / 2, ZONE_BYTES / 2, CANARY);
	expect_all(stage_zone(stage, ZONE_SOURCE), ZONE_BYTES, 0x22);
}

static void zone_register(struct stage *stage, enum stage_zone zone)
{
	uint64_t address = (uintptr_t)stage_zone(stage, zone);
	struct vb_mr_spec spec = { address, ZONE_BYTES, address, IBV_ACCESS_LOCAL_WRITE };

	if (zone == ZONE_TARGET)
		spec.access |= ALL_REMOTE;
	fuzz_check(!vb_mr_register(stage->pd, &spec, &stage->mr[zone]));
}

void stage_reregister(struct stage *stage, enum stage_zone zone)
{
	fuzz_check(!vb_mr_deregister(stage->mr[zone]));
	zone_register(stage, zone);
	for (unsigned i = 0; i < STAGE_QPS; i++)
		stage->end[i].bereft |= zone != ZONE_TARGET;
}

/* --- the network --- */

/* What leaves is a packet, with a right ICRC, and nothing that was not offered. */
static void sent(const struct vb_burst *burst, uint32_t at, uint32_t length)
{
	struct vb_packet packet;

	fuzz_check(!vb_packet_parse(burst->bytes + at, length, &packet));
	fuzz_check(
		vb_icrc_check(&burst->way->flow, burst->bytes + at, length - VB_ICRC_LENGTH, NULL));
	fuzz_check(!memmem(packet.payload, packet.payload_length, secret(), SECRET_BYTES));
}

static void sink_send(void *arg, const struct vb_burst *bursts, unsigned count)
{
	(void)arg;
	for (unsigned i = 0; i < count; i++) {
		for (uint32_t at = 0; at < bursts[i].length; at += bursts[i].segment) {
			uint32_t rest = bursts[i].length - at;

			sent(&bursts[i], at, rest < bursts[i].segment ? rest : bursts[i].segment);
		}
	}
}

static unsigned sink_burst_max(void *arg, const struct vb_way *way)
{
	(void)arg, (void)way;
	return 16;
}

static int sink_resolve(void *arg, const struct vb_av *av, struct vb_peer *peer, uint32_t entropy,
			struct vb_way *way)
{
	(void)av, (void)peer, (void)entropy;
	*way = ((struct stage *)arg)->way;
	return 0;
}

static void flow_make(struct vb_icrc_flow *flow, const uint8_t src[4], const uint8_t dst[4])
{
	*flow = (struct vb_icrc_flow){ .src_port = 0xc001, .dst_port = VB_UDP_PORT_ROCE };
	memcpy(flow->src, src, 4);
	memcpy(flow->dst, dst, 4);
	vb_icrc_flow_init(flow);
}

/* --- QPs --- */

static const enum ibv_qp_type types[STAGE_QPS] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						   IBV_QPT_XRC_RECV };

static bool reliable(enum stage_qp which)
{
	return types[which] != IBV_QPT_UC && types[which] != IBV_QPT_UD;
}

static void modify(struct vb_qp *qp, enum ibv_qp_state state)
{
	bool receives = qp->type == IBV_QPT_XRC_RECV, ud = qp->type == IBV_QPT_UD;
	bool rc = qp->type == IBV_QPT_RC || receives;
	int mask = IBV_QP_STATE;
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.port_num = 1,
		.qkey = STAGE_QKEY,
		.qp_access_flags = ALL_REMOTE,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = STAGE_PEER_QPN,
		.rq_psn = STAGE_PSN,
		.sq_psn = STAGE_PSN,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 2,
		.rnr_retry = 2,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};

	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (state == IBV_QPS_RTR && !ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	if (state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT : 0) |
			(rc && !receives
				 ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
				 : 0);
	fuzz_check(!vb_qp_modify(qp, &attr, mask));
}

static void player_connect(struct stage *stage, enum stage_qp which)
{
	struct stage_end *end = &stage->end[which];
	struct vb_way way = stage->way;

	modify(end->qp, IBV_QPS_INIT);
	modify(end->qp, IBV_QPS_RTR);
	fuzz_check(vb_qp_token_try(end->qp));
	fuzz_check(!vb_roce_adopt(&stage->roce, end->qp, which == STAGE_UD ? NULL : &way));
	end->wired = atomic_load(&end->qp->wired);
	modify(end->qp, IBV_QPS_RTS);
	vb_roce_post(end->wired);
}

static void receiver_make(struct stage *stage)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = STAGE_DEPTH, .max_sge = 2 } };
	const struct ibv_qp_init_attr init = { 0 };

	fuzz_check(!vb_xrcd_open(sim_context(), -1, 0, &stage->xrcd));
	fuzz_check(!vb_srq_create(stage->pd, &srq, &stage->xrc_srq));
	fuzz_check(!vb_srq_join_xrcd(stage->xrc_srq, stage->xrcd, stage->cq));
	fuzz_check(!vb_xrc_qp_create(stage->xrcd, &init, &stage->end[STAGE_XRC].qp));
}

static void player_open(struct stage *stage, enum stage_qp which)
{
	struct ibv_qp_init_attr init = {
		.send_cq = &stage->cq->ibv,
		.recv_cq = &stage->cq->ibv,
		.srq = which == STAGE_RC_SRQ ? &stage->srq->ibv : NULL,
		.cap = { STAGE_DEPTH, STAGE_DEPTH, 2, 2, 64 },
		.qp_type = types[which],
		.sq_sig_all = 1,
	};

	if (which == STAGE_XRC)
		receiver_make(stage);
	else
		fuzz_check(!vb_qp_create(stage->pd, &init, &stage->end[which].qp));
	player_connect(stage, which);
}

void stage_open(struct stage *stage)
{
	struct vb_roce_sink sink = { stage, sink_send, sink_burst_max, sink_resolve };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = STAGE_DEPTH, .max_sge = 2 } };
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1 };
	struct vb_cq_spec cq = { .cqe = 4 * STAGE_QPS * STAGE_DEPTH };

	hosts_get();
	memset(stage, 0, sizeof(*stage));
	stage->way = (struct vb_way){ .socket = -1 };
	flow_make(&stage->way.flow, mine, its);
	flow_make(&stage->back, its, mine);
	fuzz_check(!vb_roce_init(&stage->roce, sim_nic(), &sink));
	stage->roce.thread = vb_thread_get();
	stage->roce.now_ns = 1000000;
	fuzz_check(!vb_pd_alloc(sim_context(), &stage->pd));
	fuzz_check(!vb_cq_create(sim_context(), &cq, &stage->cq));
	fuzz_check(!vb_srq_create(stage->pd, &srq, &stage->srq));
	fuzz_check(!vb_ah_create(stage->pd, &ah, &stage->ah));
	memory_make(stage);
	for (unsigned i = 0; i < ZONES; i++)
		zone_register(stage, i);
	for (unsigned i = 0; i < STAGE_QPS; i++)
		player_open(stage, i);
	stage_wait_ns(stage, 0);
}

/* --- what an engine thread would do --- */

/* What a QP of this sort may fail of: RC of what its peer does, the others of the program alone. */
static void attend(struct stage *stage, enum stage_qp which)
{
	struct stage_end *end = &stage->end[which];
	uint32_t bits = atomic_exchange(&end->qp->lent->attention, 0);
	enum vb_reason reason = bits & 0xff;

	if (bits & VB_QP_ATTN_FAIL) {
		fuzz_check(reliable(which) || end->bereft);
		/* These two have no NAK. */
		fuzz_check(vb_reason_row(reason)->syndrome || reason == VB_WHY_RECV_SHORT ||
			   reason == VB_WHY_RECV_INVALIDATE);
		if (vb_qp_enter_error(end->qp))
			vb_roce_post(end->wired);
	}
	if (end->qp->flush_pending)
		vb_qp_flush_check(end->qp);
}

static void events_drop(struct stage *stage)
{
	struct ibv_async_event event;

	while (!vb_async_take(sim_context(), &event)) {
		if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
			continue;
		for (unsigned i = 0; i < STAGE_QPS; i++)
			if (event.element.qp == &stage->end[i].qp->ibv)
				stage->end[i].qp->ibv.events_completed++;
	}
}

static void turn(struct stage *stage)
{
	unsigned rounds = 0;

	do {
		vb_roce_turn(&stage->roce, false);
		vb_rq_collect_all_returned(sim_nic());
		for (unsigned i = 0; i < STAGE_QPS; i++)
			attend(stage, i);
		fuzz_check(++rounds < ROUNDS_MAX);
	} while (!vb_roce_next_ns(&stage->roce));
	events_drop(stage);
}

void stage_wait_ns(struct stage *stage, uint64_t ns)
{
	uint64_t end_ns = stage->roce.now_ns + ns, next_ns;
	unsigned rounds = 0;

	turn(stage);
	while ((next_ns = vb_roce_next_ns(&stage->roce)) <= end_ns) {
		if (next_ns > stage->roce.now_ns)
			stage->roce.now_ns = next_ns;
		turn(stage);
		fuzz_check(++rounds < ROUNDS_MAX);
	}
	stage->roce.now_ns = end_ns;
	turn(stage);
}

/* --- the peer --- */

void stage_packet(struct stage *stage, const struct stage_origin *origin, const uint8_t *bytes,
		  uint32_t length)
{
	static const uint8_t stranger[4] = { 10, 0, 0, 3 };
	struct vb_icrc_flow flow = stage->back;
	struct vb_arrival arrival = { .flow = &flow,
				      .bytes = bytes,
				      .length = length,
				      .traffic_class = origin->traffic_class,
				      .hop_limit = 60 };

	if (origin->stranger)
		flow_make(&flow, stranger, mine);
	vb_roce_input(&stage->roce, &arrival);
}

void stage_ignored(struct stage *stage, const struct stage_origin *origin, const uint8_t *bytes,
		   uint32_t length)
{
	static struct vb_wired before[STAGE_QPS];
	uint64_t drops = 0;

	for (unsigned i = 0; i < VB_PACKET_DROPS; i++)
		drops -= stage->roce.drops[i];
	for (unsigned i = 0; i < STAGE_QPS; i++)
		memcpy(&before[i], stage->end[i].wired, sizeof(before[i]));
	stage_packet(stage, origin, bytes, length);
	for (unsigned i = 0; i < VB_PACKET_DROPS; i++)
		drops += stage->roce.drops[i];
	fuzz_check(drops == 1);
	for (unsigned i = 0; i < STAGE_QPS; i++)
		fuzz_check(!memcmp(&before[i], stage->end[i].wired, sizeof(before[i])));
}

/* --- the program --- */

void stage_post_send(struct stage *stage, enum stage_qp which, struct ibv_send_wr *wr)
{
	struct stage_end *end = &stage->end[which];
	struct vb_notice notice = { 0 };
	struct ibv_send_wr *bad;

	/* Flushing the datagrams of a QP in ERR is for the engine above this one. */
	if (which == STAGE_XRC || (which == STAGE_UD && vb_qp_state(end->qp) != IBV_QPS_RTS))
		return;
	wr->wr_id = (uint64_t)which << 32 | end->sends;
	if (which == STAGE_UD) {
		wr->wr.ud.ah = &stage->ah->ibv;
		wr->wr.ud.remote_qpn = STAGE_PEER_QPN;
		wr->wr.ud.remote_qkey = STAGE_QKEY;
	}
	if (vb_ops_post_send(&end->qp->ibv, wr, &bad))
		return;
	end->sends++;
	if (which == STAGE_UD)
		vb_roce_datagram(&stage->roce, end->qp, NULL, &notice);
	vb_roce_post(end->wired);
	turn(stage);
}

void stage_post_recv(struct stage *stage, enum stage_qp which, uint32_t offset, uint32_t length)
{
	struct stage_end *end = &stage->end[which];
	uint64_t first, address;
	uint32_t lkey = stage->mr[ZONE_RECV]->ibv.lkey;
	struct ibv_sge sge[2];
	struct ibv_recv_wr *bad, wr = { .sg_list = sge, .num_sge = 2 };

	offset %= ZONE_BYTES / 2;
	length %= ZONE_BYTES / 2 - offset + 1;
	first = length / 3;
	address = (uintptr_t)stage_zone(stage, ZONE_RECV) + offset;
	sge[0] = (struct ibv_sge){ address, (uint32_t)first, lkey };
	sge[1] = (struct ibv_sge){ address + first, length - (uint32_t)first, lkey };
	if (which == STAGE_RC_SRQ || which == STAGE_XRC) {
		struct vb_srq *srq = which == STAGE_XRC ? stage->xrc_srq : stage->srq;

		wr.wr_id = 1ull << 40 | stage->srq_recvs;
		stage->srq_recvs += !vb_ops_post_srq_recv(&srq->ibv, &wr, &bad);
		return;
	}
	wr.wr_id = 1ull << 40 | (uint64_t)which << 32 | end->recvs;
	end->recvs += !vb_ops_post_recv(&end->qp->ibv, &wr, &bad);
}

void stage_pull(struct stage *stage, enum stage_qp which)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	fuzz_check(!vb_qp_modify(stage->end[which].qp, &attr, IBV_QP_STATE));
	stage->end[which].pulled = true;
	vb_roce_post(stage->end[which].wired);
	turn(stage);
}

/* What was posted and has not completed goes with it, and what nobody has polled. */
void stage_reset(struct stage *stage, enum stage_qp which)
{
	struct stage_end *end = &stage->end[which];
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	stage_poll(stage);
	vb_roce_drop(end->wired);
	if (which == STAGE_UD) /* which keeps its token */
		vb_qp_token_release(end->qp);
	fuzz_check(!vb_qp_modify(end->qp, &attr, IBV_QP_STATE));
	*end = (struct stage_end){ .qp = end->qp };
	player_connect(stage, which);
	turn(stage);
}

void stage_pause(struct stage *stage, enum stage_qp which)
{
	struct stage_end *end = &stage->end[which];
	enum ibv_qp_state state = vb_qp_state(end->qp);
	struct ibv_qp_attr attr = { .qp_state = state == IBV_QPS_SQD ? IBV_QPS_RTS : IBV_QPS_SQD };

	if (which == STAGE_UD || which == STAGE_XRC ||
	    (state != IBV_QPS_RTS && state != IBV_QPS_SQD))
		return;
	fuzz_check(!vb_qp_modify(end->qp, &attr, IBV_QP_STATE));
	vb_roce_post(end->wired);
	turn(stage);
}

static enum stage_qp end_of(const struct stage *stage, uint32_t qpn)
{
	unsigned i = 0;

	while (i < STAGE_QPS && stage->end[i].qp->ibv.qp_num != qpn)
		i++;
	fuzz_check(i < STAGE_QPS);
	return i;
}

/* Receives of an SRQ are told apart by the QP only; any order, but no more than were posted. */
static void completed(struct stage *stage, const struct ibv_wc *wc)
{
	enum stage_qp which = end_of(stage, wc->qp_num);
	struct stage_end *end = &stage->end[which];
	bool receive = wc->wr_id >> 40;

	fuzz_check(reliable(which) || end->pulled || end->bereft || wc->status == IBV_WC_SUCCESS);
	if (!receive) {
		fuzz_check(wc->wr_id == ((uint64_t)which << 32 | end->sends_done++));
		return;
	}
	fuzz_check(wc->status || wc->byte_len <= ZONE_BYTES / 2 ||
		   wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	if (which == STAGE_RC_SRQ || which == STAGE_XRC)
		fuzz_check(stage->srq_done++ < stage->srq_recvs);
	else
		fuzz_check((uint32_t)wc->wr_id == end->recvs_done++);
}

void stage_poll(struct stage *stage)
{
	struct ibv_wc wc;
	int count;

	while ((count = vb_cq_poll(stage->cq, 1, &wc))) {
		fuzz_check(count == 1);
		completed(stage, &wc);
	}
	/* Datagrams and UC messages go on whatever anybody sends. */
	for (unsigned i = STAGE_UC; i <= STAGE_UD; i++) {
		enum ibv_qp_state state = vb_qp_state(stage->end[i].qp);

		fuzz_check(stage->end[i].pulled || stage->end[i].bereft || state == IBV_QPS_RTS ||
			   state == IBV_QPS_SQD);
	}
}

/* --- the end --- */

static void player_close(struct stage_end *end)
{
	vb_roce_drop(end->wired);
	vb_qp_close(end->qp, IBV_QPS_RESET);
	vb_qp_withdraw(end->qp);
	fuzz_check(!vb_qp_destroy(end->qp));
}

static void all_completed(struct stage *stage)
{
	for (unsigned i = 0; i < STAGE_QPS; i++) {
		if (!stage->end[i].pulled)
			stage_pull(stage, i);
		stage_poll(stage);
	}
	for (unsigned i = 0; i < STAGE_QPS; i++) {
		const struct stage_end *end = &stage->end[i];

		fuzz_check(end->sends_done == end->sends);
		fuzz_check(end->recvs_done == end->recvs);
	}
}

void stage_close(struct stage *stage)
{
	/* Every request ends by itself: its peer is silent from now on. */
	for (unsigned i = 0; i < STAGE_QPS; i++)
		if (vb_qp_state(stage->end[i].qp) == IBV_QPS_SQD)
			stage_pause(stage, i);
	stage_wait_ns(stage, 100000000000);
	stage_poll(stage);
	for (unsigned i = 0; i < STAGE_QPS; i++)
		fuzz_check(stage->end[i].sends_done == stage->end[i].sends);
	all_completed(stage);
	memory_check(stage);
	for (unsigned i = 0; i < STAGE_QPS; i++)
		player_close(&stage->end[i]);
	fuzz_check(!vb_srq_destroy(stage->srq));
	fuzz_check(!vb_srq_destroy(stage->xrc_srq));
	fuzz_check(atomic_exchange(&stage->xrcd->users, 0) == 1); /* the QP */
	atomic_fetch_sub(&vb_context(sim_context())->objects, 1);
	fuzz_check(!vb_xrcd_close(stage->xrcd));
	vb_ah_destroy(stage->ah);
	for (unsigned i = 0; i < ZONES; i++)
		fuzz_check(!vb_mr_deregister(stage->mr[i]));
	fuzz_check(!vb_cq_destroy(stage->cq));
	fuzz_check(!vb_pd_dealloc(stage->pd));
	vb_roce_fini(&stage->roce);
	free(stage->memory);
}

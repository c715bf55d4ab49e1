/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <stdio.h>

#include "nic/tm.h"
#include "nic/xrcd.h"
#include "sim.h"
#include "verbs/ops.h"

enum { ALL_REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

void rig_defaults(struct rig *rig, enum ibv_qp_type type)
{
	*rig = (struct rig){ .type = type, .pkey = 0xffff };
	rig->attr = (struct ibv_qp_attr){
		.port_num = 1,
		.qkey = RIG_QKEY,
		.qp_access_flags = ALL_REMOTE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = RIG_PEER_QPN,
		.rq_psn = RIG_RQ_PSN,
		.sq_psn = RIG_SQ_PSN,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12, /* 640 us */
		.timeout = 14,       /* 67 ms */
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};
}

/* --- the network --- */

static void sink_send(void *arg, const struct vb_burst *bursts, unsigned count)
{
	struct rig *rig = arg;

	for (unsigned i = 0; i < count; i++) {
		const struct vb_burst *burst = &bursts[i];

		for (uint32_t at = 0; at < burst->length; at += burst->segment) {
			uint32_t rest = burst->length - at;
			uint32_t length = rest < burst->segment ? rest : burst->segment;
			struct rig_packet *out = &rig->out[rig->out_tail++ % RIG_OUT_MAX];

			assert_true(rig->out_tail - rig->out_head <= RIG_OUT_MAX);
			memcpy(out->bytes, burst->bytes + at, length);
			assert_int_equal(vb_packet_parse(out->bytes, length, &out->packet), 0);
			assert_true(vb_icrc_check(&burst->way->flow, out->bytes,
						  length - VB_ICRC_LENGTH, NULL));
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
	struct rig *rig = arg;

	(void)peer, (void)entropy;
	*way = rig->way;
	way->sgid = av->sgid;
	way->dgid = av->dgid;
	way->traffic_class = av->traffic_class;
	way->hop_limit = av->hop_limit;
	return 0;
}

static void way_make(struct rig *rig)
{
	static const uint8_t mine[4] = { 10, 0, 0, 1 }, its[4] = { 10, 0, 0, 2 };

	rig->way = (struct vb_way){ .socket = -1 };
	memcpy(rig->way.flow.src, mine, 4);
	memcpy(rig->way.flow.dst, its, 4);
	rig->way.flow.src_port = 0xc001;
	rig->way.flow.dst_port = VB_UDP_PORT_ROCE;
	vb_icrc_flow_init(&rig->way.flow);
	memcpy(rig->back.src, its, 4);
	memcpy(rig->back.dst, mine, 4);
	rig->back.src_port = 0xc002;
	rig->back.dst_port = VB_UDP_PORT_ROCE;
	vb_icrc_flow_init(&rig->back);
}

/* --- objects --- */

static void memory_make(struct rig *rig)
{
	struct vb_mr_spec spec = { .length = RIG_REGION };

	rig->region = aligned_alloc(4096, RIG_REGION);
	assert_non_null(rig->region);
	for (unsigned i = 0; i < RIG_REGION; i++)
		rig->region[i] = (uint8_t)(i * 7 + i / 256);
	spec.addr = spec.iova = (uintptr_t)rig->region;
	spec.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | ALL_REMOTE;
	assert_int_equal(vb_mr_register(rig->pd, &spec, &rig->mr), 0);
	spec.access = IBV_ACCESS_LOCAL_WRITE;
	assert_int_equal(vb_mr_register(rig->pd, &spec, &rig->mr_deaf), 0);
	for (unsigned i = 0; i < sizeof(rig->payload); i++)
		rig->payload[i] = (uint8_t)(i * 13 + 1);
}

static void receiver_make(struct rig *rig)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 16, .max_sge = 2 } };
	const struct ibv_qp_init_attr init = { 0 };

	assert_int_equal(vb_xrcd_open(sim_context(), -1, 0, &rig->xrcd), 0);
	assert_int_equal(vb_srq_create(rig->pd, &srq, &rig->srq), 0);
	assert_int_equal(vb_srq_join_xrcd(rig->srq, rig->xrcd, rig->cq), 0);
	assert_int_equal(vb_xrc_qp_create(rig->xrcd, &init, &rig->qp), 0);
}

static void receiver_forget(struct rig *rig)
{
	assert_int_equal(atomic_exchange(&rig->xrcd->users, 0), 1); /* the QP */
	atomic_fetch_sub(&vb_context(sim_context())->objects, 1);
	assert_int_equal(vb_xrcd_close(rig->xrcd), 0);
}

static void qp_make(struct rig *rig)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 16, .max_sge = 2 } };
	const struct ibv_tm_cap tags = { .max_num_tags = 64, .max_ops = 128 };
	struct ibv_qp_init_attr init = {
		.send_cq = &rig->cq->ibv,
		.recv_cq = &rig->cq->ibv,
		.cap = { 64, 64, 2, 2, 64 },
		.qp_type = rig->type,
	};

	if (rig->with_srq) {
		assert_int_equal(vb_srq_create(rig->pd, &srq, &rig->srq), 0);
		if (rig->with_tags)
			assert_int_equal(vb_tm_create(rig->srq, rig->cq, &tags), 0);
		init.srq = &rig->srq->ibv;
	}
	assert_int_equal(vb_qp_create(rig->pd, &init, &rig->qp), 0);
}

void rig_modify(struct rig *rig, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = rig->attr;
	int mask = IBV_QP_STATE, rc = vb_type_reliable((uint8_t)rig->type),
	    ud = rig->type == IBV_QPT_UD;
	enum ibv_qp_state before = vb_qp_state(rig->qp);

	attr.qp_state = state;
	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (state == IBV_QPS_RTR && !ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	if (state == IBV_QPS_RTS && before == IBV_QPS_RTR)
		mask |= IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
							 IBV_QP_MAX_QP_RD_ATOMIC
					    : 0);
	if (state == IBV_QPS_SQD) {
		attr.en_sqd_async_notify = 1;
		mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
	}
	assert_int_equal(vb_qp_modify(rig->qp, &attr, mask), 0);
	if (rig->wired)
		vb_roce_post(rig->wired);
}

void rig_open(struct rig *rig)
{
	struct vb_roce_sink sink = { rig, sink_send, sink_burst_max, sink_resolve };
	struct vb_cq_spec cq = { .cqe = 512 };

	hosts_get();
	rig->out = calloc(RIG_OUT_MAX, sizeof(*rig->out));
	assert_non_null(rig->out);
	way_make(rig);
	assert_int_equal(vb_roce_init(&rig->roce, sim_nic(), &sink), 0);
	rig->roce.thread = vb_thread_get();
	rig->roce.now_ns = 1000000;
	assert_int_equal(vb_pd_alloc(sim_context(), &rig->pd), 0);
	assert_int_equal(vb_cq_create(sim_context(), &cq, &rig->cq), 0);
	memory_make(rig);
	if (rig->type == IBV_QPT_XRC_RECV)
		receiver_make(rig);
	else
		qp_make(rig);
	rig_modify(rig, IBV_QPS_INIT);
	rig_modify(rig, IBV_QPS_RTR);
	assert_true(vb_qp_token_try(rig->qp));
	if (rig->tried)
		rig->qp->pend.why = VB_PEND_UNREADY;
	assert_int_equal(
		vb_roce_adopt(&rig->roce, rig->qp, rig->type == IBV_QPT_UD ? NULL : &rig->way), 0);
	rig->wired = atomic_load(&rig->qp->wired);
	rig_modify(rig, IBV_QPS_RTS);
	rig_turn(rig);
}

void rig_close(struct rig *rig)
{
	if (rig->wired)
		vb_roce_drop(rig->wired);
	vb_qp_close(rig->qp, IBV_QPS_RESET);
	vb_qp_withdraw(rig->qp);
	vb_qp_destroy(rig->qp);
	if (rig->srq)
		assert_int_equal(vb_srq_destroy(rig->srq), 0);
	if (rig->xrcd)
		receiver_forget(rig);
	assert_int_equal(vb_mr_deregister(rig->mr), 0);
	assert_int_equal(vb_mr_deregister(rig->mr_deaf), 0);
	assert_int_equal(vb_cq_destroy(rig->cq), 0);
	assert_int_equal(vb_pd_dealloc(rig->pd), 0);
	vb_roce_fini(&rig->roce);
	free(rig->region);
	free(rig->out);
}

/* --- the application --- */

void rig_post_wr(struct rig *rig, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(vb_ops_post_send(&rig->qp->ibv, wr, &bad), 0);
	vb_roce_post(rig->wired);
	rig_turn(rig);
}

void rig_post(struct rig *rig, enum ibv_wr_opcode opcode, uint32_t length, unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)rig->region, length, rig->mr->ibv.lkey };
	struct ibv_send_wr wr = {
		.wr_id = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
		.imm_data = 0x01020304,
	};

	if (vb_wr_row_any(opcode)->family == VB_FAMILY_ATOMIC) {
		wr.wr.atomic.remote_addr = 0x1000;
		wr.wr.atomic.rkey = 0x77;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 6;
	} else {
		wr.wr.rdma.remote_addr = 0x1000;
		wr.wr.rdma.rkey = 0x77;
	}
	rig_post_wr(rig, &wr);
}

void rig_post_recv(struct rig *rig, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)rig->region + RIG_REGION / 2, length, rig->mr->ibv.lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1000, .sg_list = &sge, .num_sge = 1 };

	if (rig->srq)
		assert_int_equal(vb_ops_post_srq_recv(&rig->srq->ibv, &wr, &bad), 0);
	else
		assert_int_equal(vb_ops_post_recv(&rig->qp->ibv, &wr, &bad), 0);
}

struct ibv_wc rig_poll(struct rig *rig)
{
	struct ibv_wc wc;

	assert_int_equal(vb_cq_poll(rig->cq, 1, &wc), 1);
	return wc;
}

void rig_poll_none(struct rig *rig)
{
	struct ibv_wc wc;

	assert_int_equal(vb_cq_poll(rig->cq, 1, &wc), 0);
}

void rig_sent(struct rig *rig, enum ibv_wc_status status)
{
	assert_int_equal(rig_poll(rig).status, status);
}

bool rig_event(struct rig *rig, enum ibv_event_type type)
{
	struct ibv_async_event event;

	if (vb_async_take(sim_context(), &event))
		return false;
	assert_ptr_equal(event.element.qp, &rig->qp->ibv);
	rig->qp->ibv.events_completed++;
	return event.event_type == type;
}

/* --- what is explained --- */

static struct vb_report report, refusal;

void __real_vb_report_explain(const struct vb_report *at, const struct vb_report_words *words);
void __wrap_vb_report_explain(const struct vb_report *at, const struct vb_report_words *words);
void __wrap_vb_report_explain(const struct vb_report *at, const struct vb_report_words *words)
{
	report = *at;
	__real_vb_report_explain(at, words);
}

void __real_vb_report_refusal(const struct vb_report *at, const struct vb_report_words *words);
void __wrap_vb_report_refusal(const struct vb_report *at, const struct vb_report_words *words);
void __wrap_vb_report_refusal(const struct vb_report *at, const struct vb_report_words *words)
{
	refusal = *at;
	__real_vb_report_refusal(at, words);
}

struct vb_report rig_report(struct rig *rig)
{
	assert_int_equal(report.qpn, rig->qp->ibv.qp_num);
	return report;
}

struct vb_report rig_refusal(struct rig *rig)
{
	assert_int_equal(refusal.peer_qpn, rig->qp->ibv.qp_num);
	return refusal;
}

/* --- its peer --- */

struct vb_packet rig_request(uint8_t operation, uint32_t psn, uint32_t length)
{
	return (struct vb_packet){
		.opcode = operation,
		.migreq = true,
		.psn = psn & VB_PSN_MASK,
		.payload_length = length,
	};
}

/* What the owner of the QP does for what its responder left. */
static void attend(struct rig *rig)
{
	uint32_t bits = atomic_exchange(&rig->qp->lent->attention, 0);
	const struct vb_reason_row *row = vb_reason_row((enum vb_reason)(bits & 0xff));

	if (bits & VB_QP_ATTN_FAIL && vb_qp_enter_error(rig->qp)) {
		if (row->event && !(bits & VB_QP_ATTN_QUIET))
			vb_qp_raise(rig->qp, row->event);
		vb_roce_post(rig->wired);
	}
	if (rig->qp->flush_pending)
		vb_qp_flush_check(rig->qp);
}

/* The packet as it lies in a receive buffer; returns its length. */
static uint32_t put_packet(const struct rig *rig, struct vb_packet packet, uint8_t *bytes)
{
	size_t length;

	packet.dest_qpn = packet.dest_qpn ? packet.dest_qpn : rig->qp->ibv.qp_num;
	packet.pkey = rig->pkey;
	length = vb_packet_emit(&packet, bytes);
	memcpy(bytes + length, packet.payload ? packet.payload : rig->payload,
	       packet.payload_length);
	length += packet.payload_length;
	while (length & 3)
		bytes[length++] = 0;
	bytes[8] |= rig->reserved;
	vb_icrc_put(&rig->back, 0, bytes, length);
	if (rig->damaged)
		bytes[length - 1] ^= 1;
	return (uint32_t)length + VB_ICRC_LENGTH;
}

static struct vb_arrival arrival_of(const struct rig *rig, const uint8_t *bytes)
{
	return (struct vb_arrival){ .flow = &rig->back,
				    .bytes = bytes,
				    .traffic_class = rig->traffic_class,
				    .hop_limit = 60,
				    .burst = rig->burst };
}

void rig_give(struct rig *rig, struct vb_packet packet)
{
	uint8_t bytes[VB_PACKET_MAX];
	struct vb_arrival arrival = arrival_of(rig, bytes);

	arrival.length = put_packet(rig, packet, bytes);
	vb_roce_input(&rig->roce, &arrival);
	attend(rig);
}

void rig_hold(struct rig *rig, struct vb_packet packet)
{
	assert_true(rig->held < RIG_HELD_MAX);
	rig->held_length = put_packet(rig, packet, rig->held_bytes + rig->held * rig->held_length);
	rig->held++;
}

void rig_give_held(struct rig *rig)
{
	struct vb_arrival arrival = arrival_of(rig, rig->held_bytes);
	unsigned taken;

	arrival.length = rig->held_length;
	for (; rig->held; rig->held -= taken) {
		arrival.more = rig->held - 1;
		taken = vb_roce_input(&rig->roce, &arrival);
		arrival.bytes += (size_t)taken * arrival.length;
	}
	attend(rig);
}

void rig_ack(struct rig *rig, uint32_t psn, uint8_t syndrome)
{
	struct vb_packet packet = rig_request(VB_OP_ACKNOWLEDGE, psn, 0);

	packet.syndrome = syndrome;
	rig_give(rig, packet);
	rig_turn(rig);
}

/* A request of RC that asks for an ACK; a WRITE goes to the begin of the region. */
void rig_give_op(struct rig *rig, uint8_t operation, uint32_t psn, uint32_t length)
{
	struct vb_packet packet = rig_request(operation, psn, length);

	packet.ack_request = true;
	packet.dma_length = length;
	packet.va = (uintptr_t)rig->region;
	packet.rkey = rig->mr->ibv.rkey;
	rig_give(rig, packet);
	rig_turn(rig);
}

void rig_give_read(struct rig *rig, uint32_t psn, uint32_t offset, uint32_t length)
{
	struct vb_packet packet = rig_request(VB_OP_READ_REQUEST, psn, 0);

	packet.va = (uintptr_t)rig->region + offset;
	packet.dma_length = length;
	packet.rkey = rig->mr->ibv.rkey;
	rig_give(rig, packet);
}

void rig_give_atomic(struct rig *rig, uint32_t psn, uint32_t offset, uint64_t add)
{
	struct vb_packet packet = rig_request(VB_OP_FETCH_ADD, psn, 0);

	packet.va = (uintptr_t)rig->region + offset;
	packet.swap_add = add;
	packet.rkey = rig->mr->ibv.rkey;
	rig_give(rig, packet);
	rig_turn(rig);
}

void rig_give_response(struct rig *rig, uint8_t operation, uint32_t psn, uint32_t length)
{
	struct vb_packet packet = rig_request(operation, psn, length);

	packet.syndrome = VB_CREDITS_NONE;
	rig_give(rig, packet);
	rig_turn(rig);
}

void rig_give_original(struct rig *rig, uint32_t psn, uint64_t original)
{
	struct vb_packet packet = rig_request(VB_OP_ATOMIC_ACKNOWLEDGE, psn, 0);

	packet.syndrome = VB_CREDITS_NONE;
	packet.original = original;
	rig_give(rig, packet);
	rig_turn(rig);
}

/* A message of up to one packet was received. */
void rig_received(struct rig *rig, uint32_t length)
{
	struct ibv_wc wc = rig_poll(rig);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, length);
	assert_memory_equal(rig->region + RIG_REGION / 2, rig->payload,
			    length < RIG_MTU ? length : RIG_MTU);
}

/* --- what was sent --- */

struct vb_packet rig_take(struct rig *rig)
{
	assert_true(rig->out_head != rig->out_tail);
	return rig->out[rig->out_head++ % RIG_OUT_MAX].packet;
}

struct vb_packet rig_take_op(struct rig *rig, uint8_t operation)
{
	struct vb_packet packet = rig_take(rig);

	if (packet.opcode != operation) {
		char line[200];

		print_error("not opcode 0x%02x: %s\n", operation,
			    vb_packet_print(&packet, line, sizeof(line)));
	}
	assert_int_equal(packet.opcode, operation);
	return packet;
}

void rig_take_none(struct rig *rig)
{
	if (rig->out_head != rig->out_tail) {
		char line[200];

		print_error("unexpected: %s\n",
			    vb_packet_print(&rig->out[rig->out_head % RIG_OUT_MAX].packet, line,
					    sizeof(line)));
	}
	assert_true(rig->out_head == rig->out_tail);
}

void rig_take_nak(struct rig *rig, uint8_t syndrome, uint32_t psn)
{
	struct vb_packet packet = rig_take_op(rig, VB_OP_ACKNOWLEDGE);

	assert_int_equal(packet.syndrome, syndrome);
	assert_int_equal(packet.psn, psn);
}

/* --- time --- */

void rig_turn(struct rig *rig)
{
	unsigned rounds = 0;

	do {
		vb_roce_turn(&rig->roce, false);
		attend(rig);
		assert_true(++rounds < 1000);
	} while (!vb_roce_next_ns(&rig->roce));
}

void rig_wait_ns(struct rig *rig, uint64_t ns)
{
	uint64_t end_ns = rig->roce.now_ns + ns, next_ns;

	rig_turn(rig);
	while ((next_ns = vb_roce_next_ns(&rig->roce)) <= end_ns) {
		if (next_ns > rig->roce.now_ns)
			rig->roce.now_ns = next_ns;
		rig_turn(rig);
	}
	rig->roce.now_ns = end_ns;
	rig_turn(rig);
}

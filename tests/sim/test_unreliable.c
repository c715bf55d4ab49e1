/* SPDX-License-Identifier: BSD-2-Clause */
/* Promises of UC and UD, with a peer that is played by hand. */
#include "rig_case.h"
#include "verbs/ops.h"

enum { UC = VB_TRANSPORT_UC, UD = VB_TRANSPORT_UD, GRH = 40 };

static void give(uint8_t operation, uint32_t psn, uint32_t length)
{
	struct vb_packet packet = rig_request(UC | operation, psn, length);

	packet.va = (uintptr_t)rig.region;
	packet.rkey = rig.mr->ibv.rkey;
	packet.dma_length = length;
	rig_give(&rig, packet);
	rig_turn(&rig);
}

static void received(uint32_t length)
{
	struct ibv_wc wc = rig_poll(&rig);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, length);
}

/* --- UC --- */

static void uc_completes_when_it_is_sent(void **state)
{
	(void)state;
	rig_post(&rig, IBV_WR_SEND, 2 * RIG_MTU, IBV_SEND_SIGNALED);
	assert_false(rig_take_op(&rig, UC | VB_OP_SEND_FIRST).ack_request);
	rig_take_op(&rig, UC | VB_OP_SEND_LAST);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_wait_ns(&rig, 10000000000);
	rig_take_none(&rig); /* and is never sent again */
}

/* Nobody says that packets were lost: a burst goes out at once, the rest at a pace. */
static void uc_keeps_a_pace(void **state)
{
	enum { MESSAGES = 8, LENGTH = 32 * RIG_MTU };
	unsigned at_once = 0, later = 0;

	(void)state;
	for (unsigned i = 0; i < MESSAGES; i++)
		rig_post(&rig, IBV_WR_SEND, LENGTH, i + 1 == MESSAGES ? IBV_SEND_SIGNALED : 0);
	for (; rig.out_head != rig.out_tail; at_once++)
		rig_take(&rig);
	assert_in_range(at_once, 32, 96);
	rig_poll_none(&rig);
	/* 256 KB and their packets take less than a millisecond. */
	rig_wait_ns(&rig, 1000000);
	for (; rig.out_head != rig.out_tail; later++)
		rig_take(&rig);
	assert_int_equal(at_once + later, MESSAGES * 32);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* A packet costs what it holds. */
static void small_messages_of_uc_are_not_held_up(void **state)
{
	enum { MESSAGES = 60 };

	(void)state;
	for (unsigned i = 0; i < MESSAGES; i++)
		rig_post(&rig, IBV_WR_SEND, 8, i + 1 == MESSAGES ? IBV_SEND_SIGNALED : 0);
	for (unsigned i = 0; i < MESSAGES; i++)
		rig_take_op(&rig, VB_TRANSPORT_UC | VB_OP_SEND_ONLY);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void uc_receives_and_does_not_answer(void **state)
{
	(void)state;
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	give(VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 3);
	received(RIG_MTU + 3);
	rig_take_none(&rig);
}

static void uc_begins_with_any_psn(void **state)
{
	(void)state;
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN + 50, 8);
	received(8);
}

/* The receive that the broken message had begun to fill is taken by the next. */
static void uc_drops_a_message_with_a_gap_and_reuses_the_receive(void **state)
{
	(void)state;
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	give(VB_OP_SEND_LAST, RIG_RQ_PSN + 2, 8); /* the Middle is lost */
	rig_poll_none(&rig);
	give(VB_OP_SEND_MIDDLE, RIG_RQ_PSN + 3, RIG_MTU); /* of a message without a First */
	rig_poll_none(&rig);
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN + 4, 8);
	received(8);
	rig_poll_none(&rig);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_RTS);
}

static unsigned posted_in_srq(void)
{
	unsigned posted = 0;

	vb_rq_collect_all_returned(rig.roce.nic);
	vb_rq_for_open(twin, &rig.srq->rq)
	{
		uint64_t word = atomic_load(&vb_rq_cell(&rig.srq->rq, twin->index)->word);

		posted += vb_cell_state(word) == VB_CELL_POSTED;
	}
	return posted;
}

/* Other QPs have a use for it; this one may never hear of its peer again. */
static void uc_gives_the_receive_of_a_broken_message_back_to_the_srq(void **state)
{
	(void)state;
	rig_defaults(&rig, IBV_QPT_UC);
	rig.with_srq = true;
	rig_open(&rig);
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	assert_int_equal(posted_in_srq(), 0);
	give(VB_OP_SEND_LAST, RIG_RQ_PSN + 2, 8); /* the Middle is lost */
	rig_poll_none(&rig);
	assert_int_equal(posted_in_srq(), 1);
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN + 3, RIG_MTU);
	give(VB_OP_SEND_LAST, RIG_RQ_PSN + 4, 8);
	received(RIG_MTU + 8);
	rig_post_recv(&rig, 16);
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN + 5, 17); /* too long */
	rig_poll_none(&rig);
	assert_int_equal(posted_in_srq(), 1);
}

static void uc_takes_nothing_twice(void **state)
{
	(void)state;
	rig_post_recv(&rig, 4096);
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	received(8);
	rig_poll_none(&rig);
}

static void uc_without_a_receive_drops_the_whole_message(void **state)
{
	(void)state;
	give(VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	rig_post_recv(&rig, 4096);
	give(VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 8);
	rig_poll_none(&rig);
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN + 2, 9);
	received(9);
}

static void uc_write_with_a_bad_key_is_dropped(void **state)
{
	struct vb_packet packet = rig_request(UC | VB_OP_WRITE_ONLY, RIG_RQ_PSN, 8);
	uint8_t before[8];

	(void)state;
	memcpy(before, rig.region, 8);
	packet.va = (uintptr_t)rig.region;
	packet.rkey = rig.mr_deaf->ibv.rkey;
	packet.dma_length = 8;
	rig_give(&rig, packet);
	rig_turn(&rig);
	assert_memory_equal(rig.region, before, 8);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_ACCESS], 1);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_RTS);
	give(VB_OP_WRITE_ONLY, RIG_RQ_PSN + 1, 8);
	assert_memory_equal(rig.region, rig.payload, 8);
}

static void uc_fails_locally_with_sqe(void **state)
{
	struct ibv_sge sge = { (uintptr_t)rig.region, 8, rig.mr->ibv.lkey ^ 0x100 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	(void)state;
	rig_post_wr(&rig, &wr);
	rig_sent(&rig, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_SQE);
	rig_post(&rig, IBV_WR_SEND, 8, 0);
	rig_sent(&rig, IBV_WC_WR_FLUSH_ERR);
	rig_post_recv(&rig, 64); /* receiving goes on */
	give(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	received(8);
}

/* The error ends what the local path had begun: SQD waits for nothing any more. */
static void uc_drains_behind_an_error_of_what_was_tried(void **state)
{
	rig_close(&rig);
	rig_defaults(&rig, IBV_QPT_UC);
	rig.tried = true;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 8, IBV_SEND_SIGNALED);
	rig_sent(&rig, IBV_WC_LOC_QP_OP_ERR);
	rig_modify(&rig, IBV_QPS_RTS);
	rig_modify(&rig, IBV_QPS_SQD);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_take_none(&rig);
	assert_true(rig_event(&rig, IBV_EVENT_SQ_DRAINED));
}

/* --- UD --- */

static void datagram(uint32_t qkey, uint32_t length)
{
	struct vb_packet packet = rig_request(UD | VB_OP_SEND_ONLY_IMM, 0, length);

	packet.qkey = qkey;
	packet.src_qpn = 0x4242;
	packet.imm = 0x55;
	rig_give(&rig, packet);
}

static void ud_puts_a_header_in_front(void **state)
{
	struct ibv_wc wc;
	const uint8_t *bytes = rig.region + RIG_REGION / 2;

	(void)state;
	rig_post_recv(&rig, GRH + 100);
	datagram(RIG_QKEY, 100);
	wc = rig_poll(&rig);
	assert_int_equal(wc.byte_len, GRH + 100);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.src_qp, 0x4242);
	assert_int_equal(wc.imm_data, 0x55);
	assert_memory_equal(bytes + GRH, rig.payload, 100);
	assert_int_equal(bytes[20], 0x45); /* an IPv4 header, in the second half */
	assert_memory_equal(bytes + 32, rig.back.src, 4);
	assert_memory_equal(bytes + 36, rig.back.dst, 4);
}

static void ud_checks_the_qkey(void **state)
{
	(void)state;
	rig_post_recv(&rig, 4096);
	datagram(RIG_QKEY ^ 1, 8);
	rig_poll_none(&rig);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_QKEY], 1);
	datagram(RIG_QKEY, 8);
	rig_poll(&rig);
}

static void ud_drops_what_does_not_fit(void **state)
{
	(void)state;
	rig_post_recv(&rig, GRH + 99);
	datagram(RIG_QKEY, 100);
	rig_poll_none(&rig);
	datagram(RIG_QKEY, 99); /* and keeps the receive */
	assert_int_equal(rig_poll(&rig).byte_len, GRH + 99);
	datagram(RIG_QKEY, 8);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_RECEIVE], 2);
}

static struct vb_packet sent_with(uint32_t qkey)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct ibv_sge sge = { (uintptr_t)rig.region, 10, rig.mr->ibv.lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };
	struct vb_notice notice = { 0 };
	struct vb_ah *ah;

	assert_int_equal(vb_ah_create(rig.pd, &attr, &ah), 0);
	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = 0x777;
	wr.wr.ud.remote_qkey = qkey;
	assert_int_equal(vb_ops_post_send(&rig.qp->ibv, &wr, &bad), 0);
	vb_roce_datagram(&rig.roce, rig.qp, NULL, &notice);
	rig_turn(&rig);
	assert_true(notice.due);
	rig_sent(&rig, IBV_WC_SUCCESS);
	vb_ah_destroy(ah);
	return rig_take_op(&rig, UD | VB_OP_SEND_ONLY);
}

/* One datagram to the handle; waits as long as it is told to. */
static void send_to(struct vb_ah *ah, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)rig.region, length, rig.mr->ibv.lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };
	struct vb_notice notice = { 0 };
	uint64_t wait_ns;

	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = 0x777;
	assert_int_equal(vb_ops_post_send(&rig.qp->ibv, &wr, &bad), 0);
	while ((wait_ns = vb_roce_datagram(&rig.roce, rig.qp, NULL, &notice)))
		rig.roce.now_ns = wait_ns;
	rig_turn(&rig);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_take_op(&rig, UD | VB_OP_SEND_ONLY);
}

/* The rate belongs to the address: what goes elsewhere in between does not undo it. */
static void ud_keeps_to_the_static_rate_of_an_address(void **state)
{
	enum { COUNT = 300, LENGTH = 1000, KBPS = 250000, AHEAD_BYTES = 33 << 10 };
	const uint64_t all_ns = (uint64_t)COUNT * LENGTH * 8000000 / KBPS;
	const uint64_t ahead_ns = (uint64_t)AHEAD_BYTES * 8000000 / KBPS,
		       start_ns = rig.roce.now_ns;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct vb_ah *slow, *other;

	(void)state;
	assert_int_equal(vb_ah_create(rig.pd, &attr, &slow), 0);
	assert_int_equal(vb_ah_create(rig.pd, &attr, &other), 0);
	slow->av.rate_kbps = KBPS;
	for (unsigned i = 0; i < COUNT; i++) {
		send_to(slow, LENGTH);
		send_to(other, LENGTH);
	}
	assert_in_range(rig.roce.now_ns - start_ns, all_ns - ahead_ns, 2 * all_ns);
	vb_ah_destroy(slow);
	vb_ah_destroy(other);
}

static void ud_sends_to_whom_the_request_says(void **state)
{
	struct vb_packet packet = sent_with(0x99);

	(void)state;
	assert_int_equal(packet.dest_qpn, 0x777);
	assert_int_equal(packet.src_qpn, rig.qp->ibv.qp_num);
	assert_int_equal(packet.qkey, 0x99);
	assert_int_equal(packet.payload_length, 10);
	assert_int_equal(packet.psn, RIG_SQ_PSN);
	assert_int_equal(sent_with(0x99).psn, RIG_SQ_PSN + 1);
}

static void a_qkey_with_the_top_bit_stands_for_the_qps_own(void **state)
{
	(void)state;
	assert_int_equal(sent_with(0x80000000).qkey, RIG_QKEY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_UC(uc_completes_when_it_is_sent),
		TEST_UC(uc_keeps_a_pace),
		TEST_UC(small_messages_of_uc_are_not_held_up),
		TEST_UC(uc_receives_and_does_not_answer),
		TEST_UC(uc_begins_with_any_psn),
		TEST_UC(uc_drops_a_message_with_a_gap_and_reuses_the_receive),
		cmocka_unit_test_teardown(uc_gives_the_receive_of_a_broken_message_back_to_the_srq,
					  rig_teardown),
		TEST_UC(uc_takes_nothing_twice),
		TEST_UC(uc_without_a_receive_drops_the_whole_message),
		TEST_UC(uc_write_with_a_bad_key_is_dropped),
		TEST_UC(uc_fails_locally_with_sqe),
		TEST_UC(uc_drains_behind_an_error_of_what_was_tried),
		TEST_UD(ud_puts_a_header_in_front),
		TEST_UD(ud_checks_the_qkey),
		TEST_UD(ud_drops_what_does_not_fit),
		TEST_UD(ud_keeps_to_the_static_rate_of_an_address),
		TEST_UD(ud_sends_to_whom_the_request_says),
		TEST_UD(a_qkey_with_the_top_bit_stands_for_the_qps_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

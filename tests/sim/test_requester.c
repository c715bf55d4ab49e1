/* SPDX-License-Identifier: BSD-2-Clause */
/* Promises of the requester and completer, with a peer that is played by hand. */
#include "rig_case.h"

static void a_message_is_cut_at_the_mtu(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND_WITH_IMM, 2 * RIG_MTU + 1,
		 IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	packet = rig_take_op(&rig, VB_OP_SEND_FIRST);
	assert_int_equal(packet.psn, RIG_SQ_PSN);
	assert_int_equal(packet.payload_length, RIG_MTU);
	assert_false(packet.solicited);
	packet = rig_take_op(&rig, VB_OP_SEND_MIDDLE);
	assert_memory_equal(packet.payload, rig.region + RIG_MTU, RIG_MTU);
	packet = rig_take_op(&rig, VB_OP_SEND_LAST_IMM);
	assert_int_equal(packet.payload_length, 1);
	assert_int_equal(packet.imm, 0x01020304);
	assert_true(packet.ack_request && packet.solicited);
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN + 2, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void psns_wrap(void **state)
{
	(void)state;
	rig.attr.sq_psn = VB_PSN_MASK;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 3 * RIG_MTU, IBV_SEND_SIGNALED);
	assert_int_equal(rig_take(&rig).psn, VB_PSN_MASK);
	assert_int_equal(rig_take(&rig).psn, 0);
	assert_int_equal(rig_take(&rig).psn, 1);
	rig_ack(&rig, 0, VB_CREDITS_NONE);
	rig_poll_none(&rig);
	rig_ack(&rig, 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void an_ack_acknowledges_everything_before(void **state)
{
	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 3; i++)
		rig_post(&rig, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN + 2, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void refused(uint8_t syndrome, enum ibv_wc_status status)
{
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, 0);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_ack(&rig, RIG_SQ_PSN + 1, syndrome);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_sent(&rig, status);
	rig_sent(&rig, IBV_WC_WR_FLUSH_ERR);
	rig_poll_none(&rig);
	rig_wait_ns(&rig, 10000000000);
	rig_poll_none(&rig);
}

static void an_access_nak_fails_the_request(void **state)
{
	(void)state;
	refused(VB_NAK_ACCESS, IBV_WC_REM_ACCESS_ERR);
}

static void an_invalid_request_nak_fails_the_request(void **state)
{
	(void)state;
	refused(VB_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR);
}

static void an_operational_nak_fails_the_request(void **state)
{
	(void)state;
	refused(VB_NAK_OPERATIONAL, IBV_WC_REM_OP_ERR);
}

static void answers_to_nothing_change_nothing(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_take(&rig);
	rig_ack(&rig, RIG_SQ_PSN - 1, VB_CREDITS_NONE);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_CREDITS_NONE);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_NAK_ACCESS);
	rig_ack(&rig, RIG_SQ_PSN - 5, VB_NAK_SEQUENCE);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 8);
	rig_give_original(&rig, RIG_SQ_PSN, 1);
	rig_poll_none(&rig);
	rig_take_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void post_from(struct vb_mr *mr, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)rig.region, length, mr->ibv.lkey };
	struct ibv_send_wr wr = {
		.wr_id = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { 0x1000, 0x77 },
	};

	rig_post_wr(&rig, &wr);
}

static struct vb_mr *another_region(void)
{
	const struct vb_mr_spec spec = {
		.addr = (uintptr_t)rig.region,
		.iova = (uintptr_t)rig.region,
		.length = RIG_REGION,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};
	struct vb_mr *mr;

	assert_int_equal(vb_mr_register(rig.pd, &spec, &mr), 0);
	return mr;
}

/* The window ends within the second message; then its memory goes away. */
static void deregistered_memory_fails_the_request_that_needs_it(void **state)
{
	struct vb_mr *mr;
	uint32_t lkey;

	(void)state;
	rig_open(&rig);
	mr = another_region();
	lkey = mr->ibv.lkey;
	rig_post(&rig, IBV_WR_SEND, 2 * RIG_MTU, IBV_SEND_SIGNALED);
	post_from(mr, IBV_WR_RDMA_WRITE, RIG_REGION);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	assert_int_equal(vb_mr_deregister(mr), 0);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_CREDITS_NONE);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(rig_report(&rig).key, lkey);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_WR_FLUSH_ERR);
}

/* What was sent of it is lost, and so is what came before, which is sent again. */
static void a_request_before_one_that_fails_is_repeated(void **state)
{
	struct vb_mr *mr;

	(void)state;
	rig_open(&rig);
	mr = another_region();
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	post_from(mr, IBV_WR_RDMA_WRITE, 4 * RIG_MTU);
	assert_int_equal(vb_mr_deregister(mr), 0);
	for (unsigned i = 0; i < 5; i++)
		rig_take(&rig);
	rig_ack(&rig, RIG_SQ_PSN, VB_NAK_SEQUENCE);
	assert_int_equal(rig_take_op(&rig, VB_OP_SEND_ONLY).psn, RIG_SQ_PSN);
	rig_take_none(&rig);
	rig_poll_none(&rig);
	rig_wait_ns(&rig, 2000000);
	assert_int_equal(rig_take_op(&rig, VB_OP_SEND_ONLY).psn, RIG_SQ_PSN);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_sent(&rig, IBV_WC_LOC_PROT_ERR);
}

static void sqd_lets_what_was_begun_finish(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_modify(&rig, IBV_QPS_SQD);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_take(&rig);
	rig_take_none(&rig);
	assert_false(rig_event(&rig, IBV_EVENT_SQ_DRAINED));
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	assert_true(rig_event(&rig, IBV_EVENT_SQ_DRAINED));
	rig_modify(&rig, IBV_QPS_RTS);
	rig_turn(&rig);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
}

/* Nobody would acknowledge it otherwise, and draining would take a timeout. */
static void the_last_packet_before_sqd_asks_for_an_ack(void **state)
{
	struct vb_packet packet = { 0 };

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, 0);
	rig_post(&rig, IBV_WR_RDMA_WRITE, RIG_REGION, 0);
	rig_post(&rig, IBV_WR_SEND, 8, 0);
	rig_modify(&rig, IBV_QPS_SQD);
	rig_ack(&rig, RIG_SQ_PSN + 40, VB_CREDITS_NONE);
	while (rig.out_head != rig.out_tail)
		packet = rig_take(&rig);
	assert_int_equal(packet.opcode, VB_OP_WRITE_LAST);
	assert_true(packet.ack_request);
	rig_ack(&rig, packet.psn, VB_CREDITS_NONE);
	assert_true(rig_event(&rig, IBV_EVENT_SQ_DRAINED));
}

/* Long WRITEs, all posted at once, in a window of 512 packets: the number of those that ask. */
static unsigned count_asks(bool gentle)
{
	struct ibv_sge sge = { (uintptr_t)rig.region, RIG_REGION, rig.mr->ibv.lkey };
	struct ibv_send_wr wr[4];
	bool last = false;
	unsigned asks = 0;

	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	assert_true(rig_take(&rig).ack_request);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig.wired->req.congestion.rtt_ns = 20000;
	rig.wired->req.congestion.window_256 = 512 << 8;
	rig.wired->req.congestion.gentle = gentle;
	for (unsigned i = 0; i < 4; i++)
		wr[i] = (struct ibv_send_wr){ .next = i < 3 ? &wr[i + 1] : NULL,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .opcode = IBV_WR_RDMA_WRITE,
					      .send_flags = IBV_SEND_SIGNALED };
	rig_post_wr(&rig, wr);
	for (; rig.out_head != rig.out_tail; asks += last)
		last = rig_take(&rig).ack_request;
	assert_true(last);
	return asks;
}

/* An ACK costs as much as many packets: in a long window one of 128 asks, wherever messages end. */
static void long_windows_ask_rarely(void **state)
{
	(void)state;
	rig_open(&rig);
	assert_int_equal(count_asks(false), 4 * RIG_REGION / RIG_MTU / 128);
}

static void where_a_switch_marks_packets_more_of_them_ask(void **state)
{
	(void)state;
	rig_open(&rig);
	assert_int_equal(count_asks(true), 4 * RIG_REGION / RIG_MTU / 16);
}

static void bind_window(struct vb_mw *mw)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = &mw->ibv, .rkey = ibv_inc_rkey(mw->ibv.rkey) },
	};

	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = &rig.mr->ibv,
		.addr = (uintptr_t)rig.region,
		.length = RIG_REGION,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};
	rig_post_wr(&rig, &wr);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* What the local path had begun and left to the wire is over as well when it needed no packet. */
static void sqd_drains_behind_a_bind_that_was_tried_before(void **state)
{
	struct vb_mw *mw;

	rig.tried = true;
	rig_open(&rig);
	assert_int_equal(vb_mw_alloc(rig.pd, IBV_MW_TYPE_2, &mw), 0);
	rig_modify(&rig, IBV_QPS_SQD);
	rig_turn(&rig);
	assert_false(rig_event(&rig, IBV_EVENT_SQ_DRAINED));
	bind_window(mw);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_take_none(&rig);
	assert_true(rig_event(&rig, IBV_EVENT_SQ_DRAINED));
	assert_int_equal(vb_mw_dealloc(mw), 0);
}

static void a_cnp_cuts_the_window(void **state)
{
	uint32_t before;

	(void)state;
	rig_open(&rig);
	before = vb_congestion_window(&rig.wired->req.congestion);
	/* Nothing is under way that could have been marked. */
	rig_give(&rig, rig_request(VB_TRANSPORT_CNP | VB_OP_CNP, 0, 0));
	assert_int_equal(vb_congestion_window(&rig.wired->req.congestion), before);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_give(&rig, rig_request(VB_TRANSPORT_CNP | VB_OP_CNP, 0, 0));
	assert_true(vb_congestion_window(&rig.wired->req.congestion) < before);
	assert_int_equal(rig.wired->counters.cnp_handled, 2);
}

/* The responder sends the ACK first, so that nothing is under way when the CNP comes. */
static void a_cnp_behind_the_last_ack_cuts_the_window(void **state)
{
	uint32_t before;

	(void)state;
	rig_open(&rig);
	before = vb_congestion_window(&rig.wired->req.congestion);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_give(&rig, rig_request(VB_TRANSPORT_CNP | VB_OP_CNP, 0, 0));
	assert_true(vb_congestion_window(&rig.wired->req.congestion) < before);
}

/* Nothing is posted here: the engine is told so, and asked whether it would send at once. */
static void what_follows_a_full_pipe_waits_for_more(void **state)
{
	enum { PIPE = 16 };

	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < PIPE; i++) {
		vb_roce_post(rig.wired);
		assert_true(vb_roce_urgent(&rig.roce));
		rig_post(&rig, IBV_WR_SEND, 8, 0);
	}
	for (unsigned i = 1; i < PIPE; i++) {
		vb_roce_post(rig.wired);
		assert_false(vb_roce_urgent(&rig.roce));
	}
	assert_true(vb_roce_next_ns(&rig.roce) <= rig.roce.now_ns + 100000);
	vb_roce_post(rig.wired);
	assert_true(vb_roce_urgent(&rig.roce));
	rig_turn(&rig);
	vb_roce_post(rig.wired);
	assert_false(vb_roce_urgent(&rig.roce));
	rig_turn(&rig); /* a poll, or the service thread: everything leaves */
	rig_ack(&rig, RIG_SQ_PSN + PIPE - 1, VB_CREDITS_NONE);
	vb_roce_post(rig.wired);
	assert_true(vb_roce_urgent(&rig.roce));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(a_message_is_cut_at_the_mtu),
		TEST_RC(psns_wrap),
		TEST_RC(an_ack_acknowledges_everything_before),
		TEST_RC(an_access_nak_fails_the_request),
		TEST_RC(an_invalid_request_nak_fails_the_request),
		TEST_RC(an_operational_nak_fails_the_request),
		TEST_RC(answers_to_nothing_change_nothing),
		TEST_RC(deregistered_memory_fails_the_request_that_needs_it),
		TEST_RC(a_request_before_one_that_fails_is_repeated),
		TEST_RC(sqd_lets_what_was_begun_finish),
		TEST_RC(the_last_packet_before_sqd_asks_for_an_ack),
		TEST_RC(long_windows_ask_rarely),
		TEST_RC(where_a_switch_marks_packets_more_of_them_ask),
		TEST_RC(sqd_drains_behind_a_bind_that_was_tried_before),
		TEST_RC(a_cnp_cuts_the_window),
		TEST_RC(a_cnp_behind_the_last_ack_cuts_the_window),
		TEST_RC(what_follows_a_full_pipe_waits_for_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

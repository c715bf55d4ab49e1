/* SPDX-License-Identifier: BSD-2-Clause */
/* Promises of the requester and completer, with a peer that is played by hand. */
#include "rig.h"

static struct rig rig;

enum { CREDITS = 0x1f };

static int open_rc(void **state)
{
	(void)state;
	rig_defaults(&rig, IBV_QPT_RC);
	return 0;
}

static int close_rig(void **state)
{
	(void)state;
	rig_close(&rig);
	return 0;
}

static void read_response(uint8_t operation, uint32_t psn, uint32_t length)
{
	struct vb_packet packet = rig_request(operation, psn, length);

	packet.syndrome = CREDITS;
	rig_give(&rig, packet);
	rig_turn(&rig);
}

static void atomic_response(uint32_t psn, uint64_t original)
{
	struct vb_packet packet = rig_request(VB_OP_ATOMIC_ACKNOWLEDGE, psn, 0);

	packet.syndrome = CREDITS;
	packet.original = original;
	rig_give(&rig, packet);
	rig_turn(&rig);
}

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
	rig_ack(&rig, RIG_SQ_PSN + 2, CREDITS);
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
	rig_ack(&rig, 0, CREDITS);
	rig_poll_none(&rig);
	rig_ack(&rig, 1, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void an_ack_acknowledges_everything_before(void **state)
{
	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 3; i++)
		rig_post(&rig, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
	rig_ack(&rig, RIG_SQ_PSN + 1, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN + 2, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void a_read_takes_a_psn_per_answer_packet(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 2 * RIG_MTU + 1, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_READ, 0, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED);
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_REQUEST).psn, RIG_SQ_PSN);
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_REQUEST).psn, RIG_SQ_PSN + 3);
	assert_int_equal(rig_take_op(&rig, VB_OP_WRITE_ONLY).psn, RIG_SQ_PSN + 4);
	rig_take_none(&rig);
}

static void an_ack_past_a_read_is_an_implied_nak(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_READ, 2 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
	rig_ack(&rig, RIG_SQ_PSN + 3, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS); /* the WRITE before the READ */
	rig_poll_none(&rig);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, RIG_SQ_PSN + 1);
	assert_int_equal(packet.dma_length, 2 * RIG_MTU);
	rig_take_op(&rig, VB_OP_WRITE_ONLY);
}

static void a_read_is_repeated_from_the_gap(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 4 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take(&rig);
	read_response(VB_OP_READ_RESPONSE_FIRST, RIG_SQ_PSN, RIG_MTU);
	read_response(VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN + 2, RIG_MTU);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, RIG_SQ_PSN + 1);
	assert_int_equal(packet.va, 0x1000 + RIG_MTU);
	assert_int_equal(packet.dma_length, 3 * RIG_MTU);
	/* As rxe answers it: beginning in the middle. */
	read_response(VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN + 1, RIG_MTU);
	read_response(VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN + 2, RIG_MTU);
	read_response(VB_OP_READ_RESPONSE_LAST, RIG_SQ_PSN + 3, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		assert_memory_equal(rig.region + i * RIG_MTU, rig.payload, RIG_MTU);
}

static void no_more_reads_are_out_than_allowed(void **state)
{
	(void)state;
	rig.attr.max_rd_atomic = 2;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 8, 0);
	rig_post(&rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0);
	rig_post(&rig, IBV_WR_RDMA_READ, 8, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	rig_take_op(&rig, VB_OP_FETCH_ADD);
	rig_take_none(&rig);
	read_response(VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 8);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
}

static void a_fenced_request_waits_for_reads(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 8, 0);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_FENCE);
	rig_post(&rig, IBV_WR_SEND, 8, 0);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	rig_take_none(&rig);
	read_response(VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 8);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
}

static void an_atomic_brings_the_original_value(void **state)
{
	uint64_t got;
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_ATOMIC_CMP_AND_SWP, 8, IBV_SEND_SIGNALED);
	packet = rig_take_op(&rig, VB_OP_COMPARE_SWAP);
	assert_int_equal(packet.compare, 5);
	assert_int_equal(packet.swap_add, 6);
	atomic_response(RIG_SQ_PSN, 0x1122334455667788);
	rig_sent(&rig, IBV_WC_SUCCESS);
	memcpy(&got, rig.region, 8);
	assert_true(got == 0x1122334455667788);
}

static void a_sequence_nak_sends_again_from_there(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 3 * RIG_MTU, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_NAK_SEQUENCE);
	assert_int_equal(rig_take_op(&rig, VB_OP_SEND_MIDDLE).psn, RIG_SQ_PSN + 1);
	assert_int_equal(rig_take_op(&rig, VB_OP_SEND_LAST).psn, RIG_SQ_PSN + 2);
	rig_take_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN + 2, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* retry_cnt 2: two NAKs are answered, the third is one too many. Each is a round trip away. */
static void sequence_naks_consume_retries(void **state)
{
	(void)state;
	rig.attr.retry_cnt = 2;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, RIG_MTU, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_SEND, RIG_MTU, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 3; i++) {
		rig_poll_none(&rig);
		rig_wait_ns(&rig, 10000);
		rig_ack(&rig, RIG_SQ_PSN, VB_NAK_SEQUENCE);
	}
	rig_sent(&rig, IBV_WC_RETRY_EXC_ERR);
	rig_sent(&rig, IBV_WC_WR_FLUSH_ERR);
}

static void progress_resets_the_retries(void **state)
{
	(void)state;
	rig.attr.retry_cnt = 1;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8 * RIG_MTU, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 8; i++) {
		rig_wait_ns(&rig, 10000);
		rig_ack(&rig, RIG_SQ_PSN + i, VB_NAK_SEQUENCE);
	}
	rig_ack(&rig, RIG_SQ_PSN + 7, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* Timer 12 is 640 us. */
static void an_rnr_nak_is_waited_for(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_take(&rig);
	rig_ack(&rig, RIG_SQ_PSN, VB_SYNDROME_RNR | 12);
	rig_wait_ns(&rig, 639999);
	rig_take_none(&rig);
	rig_wait_ns(&rig, 2);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
}

static void a_sequence_nak_does_not_end_the_rnr_wait(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 2 * RIG_MTU, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
	rig_ack(&rig, RIG_SQ_PSN, VB_SYNDROME_RNR | 12);
	rig_ack(&rig, RIG_SQ_PSN, VB_NAK_SEQUENCE); /* as rxe does */
	rig_wait_ns(&rig, 639999);
	rig_take_none(&rig);
	rig_wait_ns(&rig, 2);
	rig_take_op(&rig, VB_OP_SEND_FIRST);
}

static void rnr_naks_have_a_counter_of_their_own(void **state)
{
	(void)state;
	rig.attr.rnr_retry = 2;
	rig.attr.retry_cnt = 0;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 3; i++) {
		rig_poll_none(&rig);
		rig_ack(&rig, RIG_SQ_PSN, VB_SYNDROME_RNR | 12);
		rig_wait_ns(&rig, 640001);
	}
	rig_sent(&rig, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void rnr_retry_7_is_for_ever(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 100; i++) {
		rig_ack(&rig, RIG_SQ_PSN, VB_SYNDROME_RNR | 12);
		rig_wait_ns(&rig, 640001);
	}
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* An ACK overtaken by an older RNR NAK: nothing is out, and nothing may ever fail. */
static void progress_ends_the_rnr_wait(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_ack(&rig, RIG_SQ_PSN, VB_SYNDROME_RNR | 12);
	rig_ack(&rig, RIG_SQ_PSN, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_wait_ns(&rig, 10000000000);
	rig_poll_none(&rig);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_RTS);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_ack(&rig, RIG_SQ_PSN + 1, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* retry_cnt 1, timeout 16: gives up after 2 * 268 ms, and tries more often than twice before. */
static void early_retries_do_not_consume_retries(void **state)
{
	const uint64_t give_up_ns = 2 * (4096ull << 16);
	unsigned tries = 0;

	(void)state;
	rig.attr.retry_cnt = 1;
	rig.attr.timeout = 16;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_wait_ns(&rig, give_up_ns - 1);
	rig_poll_none(&rig);
	for (; rig.out_head != rig.out_tail; tries++)
		rig_take_op(&rig, VB_OP_SEND_ONLY);
	assert_true(tries > 2);
	assert_true(tries < 20);
	rig_wait_ns(&rig, 1);
	rig_sent(&rig, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_ERR);
}

static void timeout_0_never_gives_up(void **state)
{
	(void)state;
	rig.attr.retry_cnt = 0;
	rig.attr.timeout = 0;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_wait_ns(&rig, 100000000000);
	rig_poll_none(&rig);
	assert_true(rig.out_tail - rig.out_head < 200);
	rig_ack(&rig, RIG_SQ_PSN, CREDITS);
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
	rig_ack(&rig, RIG_SQ_PSN - 1, CREDITS);
	rig_ack(&rig, RIG_SQ_PSN + 1, CREDITS);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_NAK_ACCESS);
	rig_ack(&rig, RIG_SQ_PSN - 5, VB_NAK_SEQUENCE);
	read_response(VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 8);
	atomic_response(RIG_SQ_PSN, 1);
	rig_poll_none(&rig);
	rig_take_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void a_response_of_the_wrong_length_fails_the_read(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 100, IBV_SEND_SIGNALED);
	read_response(VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 99);
	rig_sent(&rig, IBV_WC_BAD_RESP_ERR);
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
	rig_ack(&rig, RIG_SQ_PSN, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
	assert_true(rig_event(&rig, IBV_EVENT_SQ_DRAINED));
	rig_modify(&rig, IBV_QPS_RTS);
	rig_turn(&rig);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
}

static void a_cnp_cuts_the_window(void **state)
{
	uint32_t before;

	(void)state;
	rig_open(&rig);
	before = vb_congestion_window(&rig.wired->req.congestion);
	rig_give(&rig, rig_request(VB_TRANSPORT_CNP | VB_OP_CNP, 0, 0));
	assert_true(vb_congestion_window(&rig.wired->req.congestion) < before);
	assert_int_equal(rig.wired->counters.cnp_handled, 1);
}

static void a_silent_peer_gets_one_packet_at_a_time(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 20 * RIG_MTU, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
	rig_wait_ns(&rig, 1100000);
	rig_take_op(&rig, VB_OP_SEND_FIRST);
	rig_take_none(&rig);
}

/*
 * rxe drops a repetition that begins before the one it got last, or that is part of two requests;
 * and after a timeout the window is too small for all of it.
 */
static void a_repeated_read_goes_forward_only(void **state)
{
	struct vb_packet packet;
	uint32_t end_psn = RIG_SQ_PSN;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 8 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	rig_wait_ns(&rig, 1100000);
	while (end_psn != RIG_SQ_PSN + 8) {
		packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
		assert_int_equal(packet.psn, end_psn);
		rig_take_none(&rig); /* no part of it before that one is answered */
		end_psn = packet.psn + packet.dma_length / RIG_MTU;
		for (uint32_t psn = packet.psn; psn != end_psn; psn++)
			read_response(VB_OP_READ_RESPONSE_MIDDLE, psn, RIG_MTU);
	}
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* A window of 40 packets cuts a READ of 64: of the first piece is asked for again up to its end. */
static void a_repeated_read_is_part_of_one_request(void **state)
{
	struct vb_packet packet;
	uint32_t end_psn, una_psn = RIG_SQ_PSN;

	(void)state;
	rig_open(&rig);
	rig.wired->req.congestion.window_256 = 40 << 8;
	rig_post(&rig, IBV_WR_RDMA_READ, 64 * RIG_MTU, IBV_SEND_SIGNALED);
	end_psn = RIG_SQ_PSN + rig_take_op(&rig, VB_OP_READ_REQUEST).dma_length / RIG_MTU;
	assert_int_equal(end_psn, RIG_SQ_PSN + 40);
	while (rig.out_head == rig.out_tail)
		read_response(VB_OP_READ_RESPONSE_MIDDLE, una_psn++, RIG_MTU);
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_REQUEST).psn, end_psn);
	rig.out_head = rig.out_tail;
	while (una_psn != end_psn - 10)
		read_response(VB_OP_READ_RESPONSE_MIDDLE, una_psn++, RIG_MTU);
	rig.out_head = rig.out_tail;
	read_response(VB_OP_READ_RESPONSE_MIDDLE, una_psn + 1, RIG_MTU);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, una_psn);
	assert_int_equal(packet.dma_length, 10 * RIG_MTU);
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_REQUEST).psn, end_psn);
}

static unsigned sent_within_ns(uint64_t ns)
{
	unsigned count;

	rig_wait_ns(&rig, ns);
	count = rig.out_tail - rig.out_head;
	rig.out_head = rig.out_tail;
	return count;
}

/* A peer 20 ms away. Of what was sent twice nobody knows how long it took. */
static void patience_stays_until_a_round_trip_is_measured(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	assert_true(sent_within_ns(20000000) > 2);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
	rig_ack(&rig, RIG_SQ_PSN, CREDITS);
	rig.out_head = rig.out_tail; /* the second, which waited for its turn */
	assert_int_equal(sent_within_ns(14000000), 0);
	rig_ack(&rig, RIG_SQ_PSN + 1, CREDITS);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_wait_ns(&rig, 1000000);
	rig_ack(&rig, RIG_SQ_PSN + 2, CREDITS);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
	assert_int_equal(rig.wired->req.congestion.doublings, 0);
	assert_true(sent_within_ns(100000000) > 0);
}

static void silence_of_an_unread_socket_is_no_silence(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
	rig.roce.now_ns += 50000000;
	rig.roce.unread = true;
	rig_turn(&rig);
	rig_take_none(&rig);
	rig.roce.unread = false;
	rig_ack(&rig, RIG_SQ_PSN, CREDITS);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_take_none(&rig);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_rc, close_rig)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_is_cut_at_the_mtu),
		TEST(psns_wrap),
		TEST(an_ack_acknowledges_everything_before),
		TEST(a_read_takes_a_psn_per_answer_packet),
		TEST(an_ack_past_a_read_is_an_implied_nak),
		TEST(a_read_is_repeated_from_the_gap),
		TEST(no_more_reads_are_out_than_allowed),
		TEST(a_fenced_request_waits_for_reads),
		TEST(an_atomic_brings_the_original_value),
		TEST(a_sequence_nak_sends_again_from_there),
		TEST(sequence_naks_consume_retries),
		TEST(progress_resets_the_retries),
		TEST(an_rnr_nak_is_waited_for),
		TEST(a_sequence_nak_does_not_end_the_rnr_wait),
		TEST(rnr_naks_have_a_counter_of_their_own),
		TEST(rnr_retry_7_is_for_ever),
		TEST(progress_ends_the_rnr_wait),
		TEST(early_retries_do_not_consume_retries),
		TEST(timeout_0_never_gives_up),
		TEST(an_access_nak_fails_the_request),
		TEST(an_invalid_request_nak_fails_the_request),
		TEST(an_operational_nak_fails_the_request),
		TEST(answers_to_nothing_change_nothing),
		TEST(a_response_of_the_wrong_length_fails_the_read),
		TEST(sqd_lets_what_was_begun_finish),
		TEST(a_cnp_cuts_the_window),
		TEST(a_silent_peer_gets_one_packet_at_a_time),
		TEST(a_repeated_read_goes_forward_only),
		TEST(a_repeated_read_is_part_of_one_request),
		TEST(patience_stays_until_a_round_trip_is_measured),
		TEST(silence_of_an_unread_socket_is_no_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

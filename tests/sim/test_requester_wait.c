/* SPDX-License-Identifier: BSD-2-Clause */
/* How the requester waits, goes back and gives up. */
#include "nic/migrate.h"
#include "nic/rate.h"
#include "path/fault/rule.h"
#include "rig_case.h"

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
	rig_ack(&rig, RIG_SQ_PSN + 2, VB_CREDITS_NONE);
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
	assert_int_equal(rig_report(&rig).reason, VB_WHY_PEER_MISSES);
	assert_int_equal(rig_report(&rig).want, 3);
	assert_int_equal(rig.wired->counters.retry_exceeded, 1);
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
	rig_ack(&rig, RIG_SQ_PSN + 7, VB_CREDITS_NONE);
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
	/* Those within the first 200 ms do not count: the receiver may want a CPU. */
	for (unsigned i = 0; i < 200000000 / 640001 + 1 + 3; i++) {
		rig_poll_none(&rig);
		rig_ack(&rig, RIG_SQ_PSN, VB_SYNDROME_RNR | 12);
		rig_wait_ns(&rig, 640001);
	}
	rig_sent(&rig, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void a_receiver_that_waits_for_a_cpu_is_no_error(void **state)
{
	(void)state;
	rig.attr.rnr_retry = 0;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 200000000 / 640001; i++) {
		rig_ack(&rig, RIG_SQ_PSN, VB_SYNDROME_RNR | 12);
		rig_wait_ns(&rig, 640001);
	}
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
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
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* An ACK overtaken by an older RNR NAK: nothing is out, and nothing may ever fail. */
static void progress_ends_the_rnr_wait(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_ack(&rig, RIG_SQ_PSN, VB_SYNDROME_RNR | 12);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_wait_ns(&rig, 10000000000);
	rig_poll_none(&rig);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_RTS);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_CREDITS_NONE);
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

/* The process is stopped for longer than its patience. When it goes on it asks again, and gives up
 * when the whole time has passed before its eyes. */
static void the_time_without_a_cpu_is_no_silence(void **state)
{
	const uint64_t give_up_ns = 2 * (4096ull << 16);

	(void)state;
	rig.attr.retry_cnt = 1;
	rig.attr.timeout = 16;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
	rig.roce.now_ns += 10 * give_up_ns;
	rig_turn(&rig);
	rig_poll_none(&rig);
	rig_take_op(&rig, VB_OP_SEND_ONLY);
	rig_wait_ns(&rig, give_up_ns / 2);
	rig_poll_none(&rig);
	rig_wait_ns(&rig, give_up_ns / 2);
	rig_sent(&rig, IBV_WC_RETRY_EXC_ERR);
}

/* Of the first two messages, which are repeated, nobody knows how long they took. */
static void measure_ns(uint64_t rtt_ns)
{
	for (unsigned i = 0; i < 3; i++) {
		rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
		rig_wait_ns(&rig, rtt_ns);
		rig_ack(&rig, RIG_SQ_PSN + i, VB_CREDITS_NONE);
		rig_sent(&rig, IBV_WC_SUCCESS);
	}
	assert_int_equal(rig.wired->req.congestion.rtt_ns, rtt_ns);
	rig.out_head = rig.out_tail;
}

/* A timeout of 14, 67 ms, reaches a peer that is 60 ms away. Each try may be lost. */
static void a_distant_peer_is_tried_as_often_as_retry_cnt_says(void **state)
{
	unsigned tries = 0;

	(void)state;
	rig.attr.retry_cnt = 7;
	rig.attr.timeout = 14;
	rig_open(&rig);
	measure_ns(60000000);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_wait_ns(&rig, 8 * (4096ull << 14) - 1);
	rig_poll_none(&rig);
	for (; rig.out_head != rig.out_tail; tries++)
		rig_take_op(&rig, VB_OP_SEND_ONLY);
	assert_in_range(tries, 8, 9);
	rig_wait_ns(&rig, 1);
	rig_sent(&rig, IBV_WC_RETRY_EXC_ERR);
}

/* Answers take longer and longer: the peer's host is busy. Some waits of that length pass first. */
static void a_peer_that_became_slow_is_not_given_up(void **state)
{
	(void)state;
	rig.attr.retry_cnt = 0;
	rig.attr.timeout = 1;
	rig_open(&rig);
	measure_ns(60000000);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_wait_ns(&rig, 230000000);
	rig_poll_none(&rig);
	rig_ack(&rig, rig.wired->req.una_psn, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* The peer waited for a CPU, and tells of some of the packets so far. */
static void a_false_alarm_on_a_long_way_repeats_one_packet(void **state)
{
	uint32_t before;

	(void)state;
	rig_open(&rig);
	measure_ns(60000000);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 60 * RIG_MTU, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
	before = vb_congestion_window(&rig.wired->req.congestion);
	rig_wait_ns(&rig, 90000000);
	assert_int_equal(rig_take_op(&rig, VB_OP_WRITE_FIRST).psn, rig.wired->req.una_psn);
	rig_take_none(&rig);
	rig_ack(&rig, rig.wired->req.una_psn + 15, VB_CREDITS_NONE);
	rig_take_none(&rig);
	assert_true(vb_congestion_window(&rig.wired->req.congestion) >= before);
	rig_ack(&rig, rig.wired->req.una_psn + 43, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* Round trips seemed long lately: a host had no CPU. One loss must not use up the patience. */
static void a_peer_that_seemed_slow_is_tried_as_often(void **state)
{
	unsigned tries = 0;

	(void)state;
	rig.attr.retry_cnt = 7;
	rig.attr.timeout = 14;
	rig_open(&rig);
	rig.wired->req.congestion.rtt_ns = 300000000;
	rig.wired->req.congestion.rtt_min_ns = 100000;
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_wait_ns(&rig, 8 * (4096ull << 14) - 1);
	rig_poll_none(&rig);
	for (; rig.out_head != rig.out_tail; tries++)
		rig_take_op(&rig, VB_OP_SEND_ONLY);
	assert_in_range(tries, 8, 9);
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
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
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
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig.out_head = rig.out_tail; /* the second, which waited for its turn */
	assert_int_equal(sent_within_ns(14000000), 0);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_CREDITS_NONE);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_wait_ns(&rig, 1000000);
	rig_ack(&rig, RIG_SQ_PSN + 2, VB_CREDITS_NONE);
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
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_take_none(&rig);
}

/* The requester was away for longer than it would have waited. */
static void nobody_is_given_up_before_everything_is_read(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig.roce.now_ns += 1000000000000;
	rig.roce.behind = true;
	rig_turn(&rig);
	rig_poll_none(&rig);
	rig_wait_ns(&rig, 10000000);
	rig_poll_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	/* Who floods the sockets keeps nobody alive. */
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_wait_ns(&rig, 1000000000000);
	rig_sent(&rig, IBV_WC_RETRY_EXC_ERR);
	rig.roce.behind = false;
}

static void use_rules(const char *text)
{
	char why[VB_FAULT_WHY_MAX];

	assert_int_equal(vb_fault_parse(text, &vb_fault_rules, why), 0);
	atomic_store(&vb_fault_in_force, *text);
}

/* By a rule. What was sent before it is acknowledged, and repeated, as if there were none. */
static void a_request_that_is_held_back_holds_back_nothing_before_it(void **state)
{
	(void)state;
	rig_open(&rig);
	use_rules("delay wr by=10ms opcode=rdma_write");
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
	rig_take(&rig);
	rig_take(&rig);
	rig_take_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_take_none(&rig);
	rig_wait_ns(&rig, 2000000);
	assert_int_equal(rig_take_op(&rig, VB_OP_SEND_ONLY).psn, RIG_SQ_PSN + 1);
	rig_ack(&rig, RIG_SQ_PSN + 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_wait_ns(&rig, 7000000);
	rig_take_none(&rig);
	rig_wait_ns(&rig, 1000001);
	rig_take_op(&rig, VB_OP_WRITE_ONLY);
	rig_ack(&rig, RIG_SQ_PSN + 2, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	use_rules("");
}

/* The timer of each repetition comes later than the patience lasts. */
static void a_rule_that_loses_counts_tries_and_not_the_clock(void **state)
{
	(void)state;
	rig.attr.retry_cnt = 1;
	rig.attr.timeout = 10;
	rig_open(&rig);
	use_rules("drop wr times=3");
	rig_post(&rig, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 3; i++) {
		rig_take_none(&rig);
		rig_poll_none(&rig);
		rig.roce.now_ns += 3 * (4096ull << 10);
		rig_turn(&rig);
	}
	rig_take_op(&rig, VB_OP_SEND_ONLY);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	use_rules("");
}

/* --- a rate --- */

static void set_rate(uint32_t kbps, uint32_t burst_bytes)
{
	atomic_store(&rig.qp->rate_burst_bytes, burst_bytes);
	atomic_store(&rig.qp->rate_kbps, kbps);
}

/* Before a pause there is an answer, so that nobody takes it for silence. */
static void a_pause_of_the_rate_is_no_silence(void **state)
{
	(void)state;
	rig_open(&rig);
	set_rate(1000, 1); /* a packet takes more than 8 ms */
	rig_post(&rig, IBV_WR_RDMA_WRITE, 4 * RIG_MTU, IBV_SEND_SIGNALED);
	for (uint32_t i = 0; i < 4; i++) {
		while (rig.out_head == rig.out_tail)
			rig_wait_ns(&rig, 100000);
		assert_true(rig_take(&rig).ack_request);
		rig_take_none(&rig);
		rig_ack(&rig, RIG_SQ_PSN + i, VB_CREDITS_NONE);
	}
	rig_sent(&rig, IBV_WC_SUCCESS);
	assert_int_equal(rig.wired->counters.timeouts, 0);
	assert_int_equal(rig.wired->counters.retransmits, 0);
}

/* One that is lost is repeated in time, however slow the rate. */
static void a_rate_does_not_use_up_the_patience(void **state)
{
	(void)state;
	rig_open(&rig);
	set_rate(8, 1); /* a packet takes a second */
	rig_post(&rig, IBV_WR_RDMA_WRITE, RIG_MTU, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_WRITE_ONLY);
	rig_wait_ns(&rig, 100000000);
	rig_take_op(&rig, VB_OP_WRITE_ONLY);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* The repetition takes its time at the rate, too: what follows comes later. */
static void a_repetition_before_its_time_pays_as_well(void **state)
{
	unsigned waited_ms = 0;

	(void)state;
	rig_open(&rig);
	set_rate(8, 1); /* a packet takes a second */
	rig_post(&rig, IBV_WR_RDMA_WRITE, 2 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_WRITE_FIRST);
	while (rig.out_head == rig.out_tail)
		rig_wait_ns(&rig, 1000000);
	rig_take_op(&rig, VB_OP_WRITE_FIRST);
	rig_take_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	for (; rig.out_head == rig.out_tail; waited_ms++)
		rig_wait_ns(&rig, 1000000);
	assert_in_range(waited_ms, 1800, 3000);
	rig_take_op(&rig, VB_OP_WRITE_LAST);
}

static void a_new_rate_owes_nothing_of_the_old(void **state)
{
	(void)state;
	rig_open(&rig);
	set_rate(8, 1);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 2 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_WRITE_FIRST);
	rig_ack(&rig, RIG_SQ_PSN, VB_CREDITS_NONE);
	rig_take_none(&rig);
	set_rate(1000000, 1);
	vb_roce_todo(rig.wired); /* as ibv_modify_qp_rate_limit does */
	rig_turn(&rig);
	rig_take_op(&rig, VB_OP_WRITE_LAST);
}

static uint32_t rate_with(uint32_t limit_kbps, uint32_t static_kbps)
{
	struct vb_av av = vb_qp_av(rig.qp);

	av.rate_kbps = static_kbps;
	vb_qp_set_av(rig.qp, &av);
	vb_qp_limit_rate(rig.qp, limit_kbps, 0);
	return atomic_load(&rig.qp->rate_kbps);
}

static void a_qp_keeps_to_the_slower_one_of_its_limit_and_its_path(void **state)
{
	(void)state;
	rig_open(&rig);
	assert_int_equal(rate_with(0, 0), 0);
	assert_int_equal(rate_with(1000, 0), 1000);
	assert_int_equal(rate_with(0, 2500000), 2500000);
	assert_int_equal(rate_with(1000, 2500000), 1000);
	assert_int_equal(rate_with(5000000, 2500000), 2500000);
	assert_int_equal(rate_with(0, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(a_sequence_nak_sends_again_from_there),
		TEST_RC(sequence_naks_consume_retries),
		TEST_RC(progress_resets_the_retries),
		TEST_RC(an_rnr_nak_is_waited_for),
		TEST_RC(a_sequence_nak_does_not_end_the_rnr_wait),
		TEST_RC(rnr_naks_have_a_counter_of_their_own),
		TEST_RC(a_receiver_that_waits_for_a_cpu_is_no_error),
		TEST_RC(rnr_retry_7_is_for_ever),
		TEST_RC(progress_ends_the_rnr_wait),
		TEST_RC(early_retries_do_not_consume_retries),
		TEST_RC(the_time_without_a_cpu_is_no_silence),
		TEST_RC(a_distant_peer_is_tried_as_often_as_retry_cnt_says),
		TEST_RC(a_peer_that_became_slow_is_not_given_up),
		TEST_RC(a_false_alarm_on_a_long_way_repeats_one_packet),
		TEST_RC(a_peer_that_seemed_slow_is_tried_as_often),
		TEST_RC(timeout_0_never_gives_up),
		TEST_RC(a_silent_peer_gets_one_packet_at_a_time),
		TEST_RC(patience_stays_until_a_round_trip_is_measured),
		TEST_RC(silence_of_an_unread_socket_is_no_silence),
		TEST_RC(nobody_is_given_up_before_everything_is_read),
		TEST_RC(a_request_that_is_held_back_holds_back_nothing_before_it),
		TEST_RC(a_rule_that_loses_counts_tries_and_not_the_clock),
		TEST_RC(a_pause_of_the_rate_is_no_silence),
		TEST_RC(a_rate_does_not_use_up_the_patience),
		TEST_RC(a_repetition_before_its_time_pays_as_well),
		TEST_RC(a_new_rate_owes_nothing_of_the_old),
		TEST_RC(a_qp_keeps_to_the_slower_one_of_its_limit_and_its_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

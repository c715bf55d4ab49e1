/* SPDX-License-Identifier: BSD-2-Clause */
/* READ and ATOMIC: what is asked for, and what is asked for again. */
#include <sys/mman.h>

#include "rig_case.h"

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
	rig_ack(&rig, RIG_SQ_PSN + 3, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS); /* the WRITE before the READ */
	rig_poll_none(&rig);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, RIG_SQ_PSN + 1);
	assert_int_equal(packet.dma_length, 2 * RIG_MTU);
	rig_take_none(&rig); /* the WRITE behind it has arrived */
	rig_give_response(&rig, VB_OP_READ_RESPONSE_FIRST, RIG_SQ_PSN + 1, RIG_MTU);
	rig_poll_none(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_LAST, RIG_SQ_PSN + 2, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void what_is_missing_of_a_read_is_asked_for_again(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 4 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_FIRST, RIG_SQ_PSN, RIG_MTU);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN + 2, RIG_MTU);
	rig_take_none(&rig); /* it may have overtaken the other */
	rig_give_response(&rig, VB_OP_READ_RESPONSE_LAST, RIG_SQ_PSN + 3, RIG_MTU);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, RIG_SQ_PSN + 1);
	assert_int_equal(packet.va, 0x1000 + RIG_MTU);
	assert_int_equal(packet.dma_length, RIG_MTU);
	rig_take_none(&rig);
	/* As rxe answers it: beginning in the middle. */
	rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN + 1, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_take_none(&rig);
	for (unsigned i = 0; i < 4; i++)
		assert_memory_equal(rig.region + i * RIG_MTU, rig.payload, RIG_MTU);
}

/* Its sender is told as well: it may be one that slows down what it answers. */
static void a_marked_response_cuts_the_window(void **state)
{
	uint32_t before;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 2 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take(&rig);
	before = vb_congestion_window(&rig.wired->req.congestion);
	rig.traffic_class = 3;
	rig_give_response(&rig, VB_OP_READ_RESPONSE_FIRST, RIG_SQ_PSN, RIG_MTU);
	assert_true(vb_congestion_window(&rig.wired->req.congestion) < before);
	assert_int_equal(rig_take(&rig).opcode, VB_TRANSPORT_CNP | VB_OP_CNP);
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
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 8);
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
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 8);
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
	rig_give_original(&rig, RIG_SQ_PSN, 0x1122334455667788);
	rig_sent(&rig, IBV_WC_SUCCESS);
	memcpy(&got, rig.region, 8);
	assert_true(got == 0x1122334455667788);
}

static void a_response_of_the_wrong_length_fails_the_read(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 100, IBV_SEND_SIGNALED);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 99);
	rig_sent(&rig, IBV_WC_BAD_RESP_ERR);
}

/* The answer of a peer that has twice the path MTU. */
static uint32_t answer_length(const struct vb_packet *request)
{
	return request->dma_length < 2 * RIG_MTU ? request->dma_length : 2 * RIG_MTU;
}

/* Nobody knows yet how long the way is: a cut would make windows of long ways grow slowly. */
static void silence_before_the_first_answer_cuts_nothing(void **state)
{
	struct vb_congestion before;

	(void)state;
	rig_open(&rig);
	before = rig.wired->req.congestion;
	rig_post(&rig, IBV_WR_RDMA_READ, 8 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	rig_wait_ns(&rig, 1100000);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(rig.wired->req.congestion.window_256, before.window_256);
	assert_int_equal(rig.wired->req.congestion.threshold_256, before.threshold_256);
}

enum { FAR_NS = 100000000 };

/* READs whose answers take FAR_NS, then one that is silent for longer and is asked for again.
 * Returns the window before that silence. */
static struct vb_congestion read_far_and_wait(void)
{
	struct vb_congestion before;

	rig_post(&rig, IBV_WR_RDMA_READ, 8, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 8; i++) {
		rig_wait_ns(&rig, FAR_NS);
		rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN + i, 8);
		rig_sent(&rig, IBV_WC_SUCCESS);
		rig.out_head = rig.out_tail;
		rig_post(&rig, IBV_WR_RDMA_READ, 8, IBV_SEND_SIGNALED);
	}
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	before = rig.wired->req.congestion;
	rig_wait_ns(&rig, vb_congestion_patience_ns(&rig.wired->req.congestion, rig.roce.now_ns));
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_REQUEST).psn, RIG_SQ_PSN + 8);
	rig_take_none(&rig);
	return before;
}

static void answer_after(uint64_t ns)
{
	rig_wait_ns(&rig, ns);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN + 8, 8);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* The peer waited for a CPU: the answer comes before the repeated request can have arrived. */
static void a_late_answer_cuts_nothing(void **state)
{
	struct vb_congestion before;

	(void)state;
	rig_open(&rig);
	before = read_far_and_wait();
	answer_after(1000000);
	assert_int_equal(rig.wired->req.congestion.window_256, before.window_256);
	assert_int_equal(rig.wired->req.congestion.threshold_256, before.threshold_256);
}

static void an_answer_that_was_lost_cuts_the_window(void **state)
{
	struct vb_congestion before;

	(void)state;
	rig_open(&rig);
	before = read_far_and_wait();
	answer_after(FAR_NS / 4 * 3);
	assert_true(rig.wired->req.congestion.window_256 < before.window_256);
}

/* The QP's timeout of 8 us and its retries end long before a single answer can come. */
static void each_try_has_the_time_of_a_round_trip(void **state)
{
	(void)state;
	rig.attr.timeout = 1;
	rig.attr.retry_cnt = 7;
	rig_open(&rig);
	read_far_and_wait();
	rig_wait_ns(&rig, 6ull * FAR_NS);
	rig_poll_none(&rig);
	answer_after(0);
}

/* After a second timeout the window is one packet. Asked for packet by packet, such a READ would
 * pass. */
static void a_repeated_read_shows_path_mtus_that_differ(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, RIG_MTU + 1, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	while (vb_congestion_window(&rig.wired->req.congestion) != 1) {
		rig.out_head = rig.out_tail;
		rig_wait_ns(&rig, 1100000);
	}
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, RIG_SQ_PSN);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, answer_length(&packet));
	rig_sent(&rig, IBV_WC_BAD_RESP_ERR);
}

/* Three packets under way leave room for one in a window of four. */
static void a_read_in_a_full_window_shows_path_mtus_that_differ(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig.wired->req.congestion.window_256 = 4 << 8;
	rig_post(&rig, IBV_WR_RDMA_WRITE, 3 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_READ, 4 * RIG_MTU, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 3; i++)
		rig_take(&rig);
	rig_ack(&rig, RIG_SQ_PSN + 2, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_FIRST, RIG_SQ_PSN + 3, answer_length(&packet));
	rig_sent(&rig, IBV_WC_BAD_RESP_ERR);
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
			rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, psn, RIG_MTU);
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
	while (una_psn != end_psn - 10)
		rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, una_psn++, RIG_MTU);
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_REQUEST).psn, end_psn);
	rig.out_head = rig.out_tail;
	while (rig.out_head == rig.out_tail)
		rig_wait_ns(&rig, 100000);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, una_psn);
	assert_int_equal(packet.dma_length, 10 * RIG_MTU);
	rig_take_none(&rig);
}

/* The peer may have got the first request, or the part: what is asked for next is of both. */
static void a_part_is_asked_for_as_before(void **state)
{
	struct vb_packet part;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 8 * RIG_MTU, IBV_SEND_SIGNALED);
	while (vb_congestion_window(&rig.wired->req.congestion) != 1) {
		rig.out_head = rig.out_tail;
		rig_wait_ns(&rig, 1100000);
	}
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN, RIG_MTU);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN + 1, RIG_MTU);
	part = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(part.psn, RIG_SQ_PSN + 2);
	assert_in_range(part.dma_length, RIG_MTU, 5 * RIG_MTU);
	while (rig.out_head == rig.out_tail)
		rig_wait_ns(&rig, 100000);
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_REQUEST).dma_length, part.dma_length);
}

static void answers_come_in_any_order(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 2 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_READ, RIG_MTU, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
	rig_give_original(&rig, RIG_SQ_PSN + 2, 7);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_LAST, RIG_SQ_PSN + 1, RIG_MTU);
	rig_poll_none(&rig);
	rig_take_none(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_FIRST, RIG_SQ_PSN, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_poll_none(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN + 4, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_take_none(&rig);
	assert_int_equal(rig.wired->req.answers.count, 0);
}

/* rxe forgets what is before the part that it repeated last. */
static void one_part_of_a_read_is_asked_for_at_a_time(void **state)
{
	static const uint32_t there[] = { 0, 2, 4, 5, 6, 7 };
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 8 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take(&rig);
	for (unsigned i = 0; i < 6; i++)
		rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, RIG_SQ_PSN + there[i], RIG_MTU);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, RIG_SQ_PSN + 1);
	assert_int_equal(packet.dma_length, RIG_MTU);
	rig_take_none(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN + 1, RIG_MTU);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, RIG_SQ_PSN + 3);
	assert_int_equal(packet.dma_length, RIG_MTU);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN + 3, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

static void a_wrong_answer_fails_its_read_when_its_turn_comes(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, RIG_MTU, IBV_SEND_SIGNALED);
	rig_post(&rig, IBV_WR_RDMA_READ, RIG_MTU, IBV_SEND_SIGNALED);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN + 1, 99);
	rig_poll_none(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_poll_none(&rig);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN + 1, 99);
	rig_sent(&rig, IBV_WC_BAD_RESP_ERR);
}

/* An on-demand region without memory behind it, for now. */
enum { ABSENT = 4096 };

static void *reserve(struct vb_mr **mr)
{
	void *at = mmap(NULL, ABSENT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vb_mr_spec spec = { .addr = (uintptr_t)at,
				   .length = ABSENT,
				   .iova = (uintptr_t)at,
				   .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND };

	assert_true(at != MAP_FAILED);
	assert_int_equal(vb_mr_register(rig.pd, &spec, mr), 0);
	return at;
}

static void post_into(enum ibv_wr_opcode opcode, void *at, const struct vb_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)at, 8, mr->ibv.lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED
	};

	if (opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.remote_addr = 0x1000;
	} else {
		wr.wr.atomic.remote_addr = 0x1000;
		wr.wr.atomic.compare_add = 5;
	}
	rig_post_wr(&rig, &wr);
}

static void release(void *at, struct vb_mr *mr)
{
	assert_int_equal(vb_mr_deregister(mr), 0);
	munmap(at, ABSENT);
}

/* The remote error wins: it goes out all the same, and nothing behind it until it is answered. */
static void a_read_finds_memory_that_came_back(void **state)
{
	struct vb_mr *mr;
	void *at;

	(void)state;
	rig_open(&rig);
	at = reserve(&mr);
	post_into(IBV_WR_RDMA_READ, at, mr);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	rig_take_none(&rig);
	assert_int_equal(mprotect(at, ABSENT, PROT_READ | PROT_WRITE), 0);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN, 8);
	rig_sent(&rig, IBV_WC_SUCCESS);
	assert_memory_equal(at, rig.payload, 8);
	rig_take_op(&rig, VB_OP_WRITE_ONLY);
	release(at, mr);
}

/* It must not be executed with nowhere to put its result, nor look as if it had been. */
static void an_atomic_without_memory_changes_nothing(void **state)
{
	struct vb_packet packet;
	struct vb_mr *mr;
	void *at;

	(void)state;
	rig_open(&rig);
	at = reserve(&mr);
	post_into(IBV_WR_ATOMIC_FETCH_AND_ADD, at, mr);
	packet = rig_take_op(&rig, VB_OP_FETCH_ADD);
	assert_int_equal(packet.swap_add, 0);
	assert_int_equal(mprotect(at, ABSENT, PROT_READ | PROT_WRITE), 0);
	rig_give_original(&rig, RIG_SQ_PSN, 77);
	rig_sent(&rig, IBV_WC_LOC_PROT_ERR);
	release(at, mr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(a_read_takes_a_psn_per_answer_packet),
		TEST_RC(an_ack_past_a_read_is_an_implied_nak),
		TEST_RC(what_is_missing_of_a_read_is_asked_for_again),
		TEST_RC(answers_come_in_any_order),
		TEST_RC(one_part_of_a_read_is_asked_for_at_a_time),
		TEST_RC(a_wrong_answer_fails_its_read_when_its_turn_comes),
		TEST_RC(a_marked_response_cuts_the_window),
		TEST_RC(no_more_reads_are_out_than_allowed),
		TEST_RC(a_fenced_request_waits_for_reads),
		TEST_RC(an_atomic_brings_the_original_value),
		TEST_RC(a_response_of_the_wrong_length_fails_the_read),
		TEST_RC(silence_before_the_first_answer_cuts_nothing),
		TEST_RC(a_late_answer_cuts_nothing),
		TEST_RC(an_answer_that_was_lost_cuts_the_window),
		TEST_RC(each_try_has_the_time_of_a_round_trip),
		TEST_RC(a_repeated_read_shows_path_mtus_that_differ),
		TEST_RC(a_read_in_a_full_window_shows_path_mtus_that_differ),
		TEST_RC(a_repeated_read_goes_forward_only),
		TEST_RC(a_repeated_read_is_part_of_one_request),
		TEST_RC(a_part_is_asked_for_as_before),
		TEST_RC(a_read_finds_memory_that_came_back),
		TEST_RC(an_atomic_without_memory_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

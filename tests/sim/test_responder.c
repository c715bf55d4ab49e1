/* SPDX-License-Identifier: BSD-2-Clause */
/* Promises of the responder of RC, with a peer that is played by hand. */
#include "rig_case.h"

static void take_ack(uint32_t psn, uint32_t msn)
{
	struct vb_packet packet = rig_take_op(&rig, VB_OP_ACKNOWLEDGE);

	assert_int_equal(packet.syndrome & VB_SYNDROME_KIND, VB_SYNDROME_ACK);
	assert_int_equal(packet.psn, psn & VB_PSN_MASK);
	assert_int_equal(packet.msn, msn);
}

static void a_message_is_received_and_acknowledged(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 4096);
	rig_give_op(&rig, VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	rig_give_op(&rig, VB_OP_SEND_MIDDLE, RIG_RQ_PSN + 1, RIG_MTU);
	rig_poll_none(&rig);
	rig_give_op(&rig, VB_OP_SEND_LAST, RIG_RQ_PSN + 2, 5);
	rig_received(&rig, 2 * RIG_MTU + 5);
	take_ack(RIG_RQ_PSN, 0);
	take_ack(RIG_RQ_PSN + 1, 0);
	take_ack(RIG_RQ_PSN + 2, 1);
}

static void psns_wrap(void **state)
{
	(void)state;
	rig.attr.rq_psn = VB_PSN_MASK;
	rig_open(&rig);
	rig_post_recv(&rig, 4096);
	rig_post_recv(&rig, 4096);
	rig_give_op(&rig, VB_OP_SEND_ONLY, VB_PSN_MASK, 5);
	rig_give_op(&rig, VB_OP_SEND_ONLY, 0, 6);
	rig_received(&rig, 5);
	rig_received(&rig, 6);
	rig_give_op(&rig, VB_OP_SEND_ONLY, VB_PSN_MASK, 5); /* a duplicate */
	rig_poll_none(&rig);
	take_ack(VB_PSN_MASK, 1);
	take_ack(0, 2);
	take_ack(0, 2);
}

static void a_gap_draws_one_nak(void **state)
{
	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_post_recv(&rig, 4096);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 1, 8);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 2, 8);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 3, 8);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN);
	rig_take_none(&rig);
	rig_poll_none(&rig);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	for (unsigned i = 0; i < 4; i++)
		rig_received(&rig, 8);
	take_ack(RIG_RQ_PSN + 3, 4);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 5, 8); /* another gap */
	rig_take_none(&rig);
	rig_wait_ns(&rig, 1000000);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN + 4);
}

static void behind_an_rnr_nak_nothing_is_said(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_give_op(&rig, VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	rig_give_op(&rig, VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 8);
	rig_take_nak(&rig, VB_SYNDROME_RNR | 12, RIG_RQ_PSN);
	rig_take_none(&rig);
	rig_post_recv(&rig, 4096);
	rig_give_op(&rig, VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	rig_give_op(&rig, VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 8);
	rig_received(&rig, RIG_MTU + 8);
}

static void write_with_imm_draws_rnr_for_its_last_packet(void **state)
{
	(void)state;
	rig_open(&rig);
	{
		struct vb_packet packet = rig_request(VB_OP_WRITE_FIRST, RIG_RQ_PSN, RIG_MTU);

		packet.va = (uintptr_t)rig.region;
		packet.rkey = rig.mr->ibv.rkey;
		packet.dma_length = RIG_MTU + 8;
		rig_give(&rig, packet);
	}
	rig_give_op(&rig, VB_OP_WRITE_LAST_IMM, RIG_RQ_PSN + 1, 8);
	rig_take_nak(&rig, VB_SYNDROME_RNR | 12, RIG_RQ_PSN + 1);
	rig_post_recv(&rig, 16);
	rig_give_op(&rig, VB_OP_WRITE_LAST_IMM, RIG_RQ_PSN + 1, 8);
	assert_int_equal(rig_poll(&rig).byte_len, RIG_MTU + 8);
	assert_memory_equal(rig.region, rig.payload, RIG_MTU);
	assert_memory_equal(rig.region + RIG_MTU, rig.payload, 8);
	take_ack(RIG_RQ_PSN + 1, 1);
}

static void a_duplicate_has_no_effect_and_gets_the_newest_psn(void **state)
{
	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_post_recv(&rig, 64);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 1, 8);
	rig_received(&rig, 8);
	rig_received(&rig, 8);
	rig.out_head = rig.out_tail;
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	take_ack(RIG_RQ_PSN + 1, 2);
	rig_poll_none(&rig);
}

static void a_read_is_answered(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig_give_read(&rig, RIG_RQ_PSN, 3, 2 * RIG_MTU + 1);
	rig_turn(&rig);
	packet = rig_take_op(&rig, VB_OP_READ_RESPONSE_FIRST);
	assert_int_equal(packet.psn, RIG_RQ_PSN);
	assert_int_equal(packet.msn, 1);
	assert_int_equal(packet.syndrome & VB_SYNDROME_KIND, VB_SYNDROME_ACK);
	assert_memory_equal(packet.payload, rig.region + 3, RIG_MTU);
	packet = rig_take_op(&rig, VB_OP_READ_RESPONSE_MIDDLE);
	assert_memory_equal(packet.payload, rig.region + 3 + RIG_MTU, RIG_MTU);
	packet = rig_take_op(&rig, VB_OP_READ_RESPONSE_LAST);
	assert_int_equal(packet.psn, RIG_RQ_PSN + 2);
	assert_int_equal(packet.payload_length, 1);
	rig_give_read(&rig, RIG_RQ_PSN + 3, 0, 0); /* took three PSNs; no bytes take one */
	rig_turn(&rig);
	packet = rig_take_op(&rig, VB_OP_READ_RESPONSE_ONLY);
	assert_int_equal(packet.payload_length, 0);
	rig_post_recv(&rig, 8);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 4, 8);
	take_ack(RIG_RQ_PSN + 4, 3);
}

/*
 * Soft-RoCE takes an ACK with the PSN of a READ for its answer, and completes it without the bytes:
 * one lost response would be wrong data.
 */
static void an_ack_never_has_the_psn_of_a_read_or_atomic(void **state)
{
	struct vb_packet send = rig_request(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);

	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	send.ack_request = true;
	rig_give(&rig, send);
	rig_give_read(&rig, RIG_RQ_PSN + 1, 0, 8);
	rig_turn(&rig);
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_RESPONSE_ONLY).psn, RIG_RQ_PSN + 1);
	rig_take_none(&rig); /* that was an answer to both */
	rig_give_atomic(&rig, RIG_RQ_PSN + 2, 0, 1);
	rig_take_op(&rig, VB_OP_ATOMIC_ACKNOWLEDGE);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8); /* a duplicate */
	take_ack(RIG_RQ_PSN, 1);
	rig_take_none(&rig);
}

static void a_part_of_a_read_is_repeated(void **state)
{
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	rig_give_read(&rig, RIG_RQ_PSN, 0, 4 * RIG_MTU);
	rig_turn(&rig);
	rig.out_head = rig.out_tail;
	rig_give_read(&rig, RIG_RQ_PSN + 2, 2 * RIG_MTU, 2 * RIG_MTU);
	rig_turn(&rig);
	packet = rig_take(&rig);
	assert_int_equal(packet.psn, RIG_RQ_PSN + 2);
	assert_memory_equal(packet.payload, rig.region + 2 * RIG_MTU, RIG_MTU);
	assert_int_equal(rig_take(&rig).psn, RIG_RQ_PSN + 3);
	rig_take_none(&rig);
	rig_give_read(&rig, RIG_RQ_PSN + 2, 2 * RIG_MTU, 3 * RIG_MTU); /* more than was asked for */
	rig_turn(&rig);
	rig_take_none(&rig);
}

/* The answer to the second is under way when the first is asked for again, and then the second. */
static void repeated_reads_are_answered_in_their_order(void **state)
{
	enum { FIRST = 3, SECOND = 2 * VB_TURN_PACKETS };

	(void)state;
	rig.attr.path_mtu = IBV_MTU_256;
	rig_open(&rig);
	rig_give_read(&rig, RIG_RQ_PSN, 0, FIRST * 256);
	rig_give_read(&rig, RIG_RQ_PSN + FIRST, 0, SECOND * 256);
	vb_hazard_enter(rig.roce.thread, rig.roce.nic->self->head_slot);
	assert_true(vb_reply_run(rig.wired));
	vb_hazard_leave(rig.roce.thread);
	rig_give_read(&rig, RIG_RQ_PSN + 1, 256, (FIRST - 1) * 256);
	rig_give_read(&rig, RIG_RQ_PSN + FIRST, 0, SECOND * 256);
	rig_turn(&rig);
	for (unsigned i = 0; i < VB_TURN_PACKETS; i++)
		assert_int_equal(rig_take(&rig).psn, RIG_RQ_PSN + i);
	for (unsigned i = 1; i < FIRST + SECOND; i++)
		assert_int_equal(rig_take(&rig).psn, RIG_RQ_PSN + i);
	rig_take_none(&rig);
}

static void a_duplicate_read_before_anything_else_is_nothing(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_give_read(&rig, RIG_RQ_PSN - 10, 0, 100);
	rig_give_atomic(&rig, RIG_RQ_PSN - 5, 0, 1);
	rig_turn(&rig);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_RTS);
}

static void an_atomic_is_executed_once(void **state)
{
	uint64_t word = 40;
	struct vb_packet packet;

	(void)state;
	rig_open(&rig);
	memcpy(rig.region + 64, &word, 8);
	rig_give_atomic(&rig, RIG_RQ_PSN, 64, 2);
	rig_give_atomic(&rig, RIG_RQ_PSN, 64, 2);
	rig_give_atomic(&rig, RIG_RQ_PSN + 1, 64, 3);
	rig_give_atomic(&rig, RIG_RQ_PSN, 64, 2);
	memcpy(&word, rig.region + 64, 8);
	assert_int_equal(word, 45);
	packet = rig_take_op(&rig, VB_OP_ATOMIC_ACKNOWLEDGE);
	assert_int_equal(packet.original, 40);
	assert_int_equal(rig_take_op(&rig, VB_OP_ATOMIC_ACKNOWLEDGE).original, 40);
	assert_int_equal(rig_take_op(&rig, VB_OP_ATOMIC_ACKNOWLEDGE).original, 42);
	packet = rig_take_op(&rig, VB_OP_ATOMIC_ACKNOWLEDGE);
	assert_int_equal(packet.original, 40);
	assert_int_equal(packet.psn, RIG_RQ_PSN);
}

/* Repeated ones take no resources. */
static void repeated_reads_are_not_too_many(void **state)
{
	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_give_read(&rig, RIG_RQ_PSN + i, 0, 8);
	rig_turn(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_give_read(&rig, RIG_RQ_PSN + i, 0, 8);
	rig_give_read(&rig, RIG_RQ_PSN + 4, 0, 8);
	rig_turn(&rig);
	assert_int_equal(vb_qp_state(rig.qp), IBV_QPS_RTS);
	for (unsigned i = 0; i < 9; i++)
		rig_take_op(&rig, VB_OP_READ_RESPONSE_ONLY);
	rig_take_none(&rig);
}

/* --- credits, congestion, events --- */

static uint8_t credits_with(unsigned receives)
{
	rig_open(&rig);
	for (unsigned i = 0; i < receives + 1; i++)
		rig_post_recv(&rig, 64);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	rig_poll(&rig);
	return rig_take_op(&rig, VB_OP_ACKNOWLEDGE).syndrome;
}

static void credits_tell_the_receives_that_are_left(void **state)
{
	(void)state;
	assert_int_equal(credits_with(3), 3);
}

/* Every code stands for a number of receives, and for those up to the next. */
static void credits_are_rounded_down(void **state)
{
	static const uint8_t receives[] = { 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48 };
	enum { MOST = 47 };
	uint8_t code = sizeof(receives) - 2;

	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < MOST + 1; i++)
		rig_post_recv(&rig, 64);
	for (unsigned left = MOST; left; left--) {
		while (receives[code] > left)
			code--;
		rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + MOST - left, 8);
		rig_poll(&rig);
		assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).syndrome, code);
	}
}

static void a_shared_queue_gives_no_credits(void **state)
{
	(void)state;
	rig.with_srq = true;
	assert_int_equal(credits_with(3), VB_CREDITS_NONE);
}

static void cnps_are_rate_limited(void **state)
{
	unsigned cnps = 0;

	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 20; i++)
		rig_post_recv(&rig, 64);
	rig.traffic_class = 3;
	for (unsigned i = 0; i < 20; i++) {
		rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + i, 8);
		rig_wait_ns(&rig, 1000);
	}
	while (rig.out_head != rig.out_tail)
		cnps += rig_take(&rig).opcode == (VB_TRANSPORT_CNP | VB_OP_CNP);
	assert_int_equal(cnps, 1);
}

static void a_received_packet_that_is_not_marked_draws_no_cnp(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig.traffic_class = 2;
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	take_ack(RIG_RQ_PSN, 1);
	rig_take_none(&rig);
}

/* While packets come in, wanted or not, an ACK may wait for a message that takes it along. */
static void an_ack_is_not_held_for_ever(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);

	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	packet.ack_request = true;
	rig_give(&rig, packet);
	for (unsigned i = 0; i < 2; i++) {
		vb_roce_turn(&rig.roce, true);
		rig_take_none(&rig);
		assert_true(vb_roce_next_ns(&rig.roce) > rig.roce.now_ns);
		rig.roce.now_ns += 2000;
	}
	vb_roce_turn(&rig.roce, true);
	take_ack(RIG_RQ_PSN, 1);
}

/* A message under way holds a receive of the shared queue; with the QP it must come back. */
static void a_failing_qp_gives_its_shared_receive_back(void **state)
{
	(void)state;
	rig.with_srq = true;
	rig_open(&rig);
	rig_post_recv(&rig, 4096);
	rig_give_op(&rig, VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	rig_modify(&rig, IBV_QPS_ERR);
	rig_turn(&rig);
	vb_rq_collect_all_returned(rig.roce.nic);
	{
		struct ibv_wc wc;
		int got = vb_cq_poll(rig.cq, 1, &wc);
		unsigned posted = 0;

		vb_rq_for_open(twin, &rig.srq->rq)
		{
			uint64_t word = atomic_load(&vb_rq_cell(&rig.srq->rq, twin->index)->word);

			posted += vb_cell_state(word) == VB_CELL_POSTED;
		}
		/* Flushed, or posted again for others; not lost. */
		assert_int_equal(got + (int)posted, 1);
	}
}

static void damage(uint32_t index)
{
	atomic_store(&vb_rq_cell(&rig.srq->rq, index)->word,
		     vb_cell_word(index + 77, 0, 0, VB_CELL_POSTED));
}

static bool srq_event(void)
{
	struct ibv_async_event event;

	if (vb_async_take(rig.srq->ibv.context, &event))
		return false;
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_ERR);
	assert_ptr_equal(event.element.srq, &rig.srq->ibv);
	rig.srq->ibv.events_completed++;
	return true;
}

/* By a process that has the segment. The owner hears of it once, and goes on. */
static void a_damaged_receive_of_an_srq_is_an_event(void **state)
{
	(void)state;
	rig.with_srq = true;
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_post_recv(&rig, 64);
	vb_srq_collect_damage(rig.srq);
	assert_false(srq_event());
	damage(0);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_SUCCESS);
	vb_srq_collect_damage(rig.srq);
	assert_true(srq_event());
	damage(2);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 1, 8);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_SUCCESS);
	vb_srq_collect_damage(rig.srq);
	assert_false(srq_event());
}

static void give_send(uint32_t psn)
{
	struct vb_packet packet = rig_request(VB_OP_SEND_ONLY, psn, 8);

	packet.ack_request = true;
	rig_give(&rig, packet);
}

/* The first is overtaken, in one look at the socket: then only the second is missing. */
static void a_nak_tells_of_what_is_missing_when_it_goes_out(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	for (unsigned i = 2; i < 5; i++)
		give_send(RIG_RQ_PSN + i);
	give_send(RIG_RQ_PSN);
	rig_turn(&rig);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN + 1);
	rig_take_none(&rig);
	rig_received(&rig, 8);
	rig_post_recv(&rig, 64);
	give_send(RIG_RQ_PSN + 5); /* the same gap: told already */
	rig_turn(&rig);
	rig_take_none(&rig);
}

/* A repetition finds the receive that was missing, before the RNR NAK is out: there is none. */
static void what_was_taken_in_draws_no_rnr_nak(void **state)
{
	(void)state;
	rig_open(&rig);
	give_send(RIG_RQ_PSN);
	rig_post_recv(&rig, 64);
	give_send(RIG_RQ_PSN);
	rig_turn(&rig);
	rig_received(&rig, 8);
	take_ack(RIG_RQ_PSN, 1);
	rig_take_none(&rig);
}

static void a_gap_that_is_filled_in_time_is_no_gap(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig_post_recv(&rig, 64);
	give_send(RIG_RQ_PSN + 1);
	give_send(RIG_RQ_PSN);
	give_send(RIG_RQ_PSN + 1);
	rig_turn(&rig);
	take_ack(RIG_RQ_PSN + 1, 2);
	rig_take_none(&rig);
	rig_received(&rig, 8);
	rig_received(&rig, 8);
}

/* The PSNs have come round, and the same one is an ATOMIC's again. */
static void the_newest_atomic_of_a_psn_is_repeated(void **state)
{
	const uint64_t *word;
	uint64_t first, second;

	(void)state;
	rig_open(&rig);
	word = (const uint64_t *)rig.region;
	first = *word;
	rig_give_atomic(&rig, RIG_RQ_PSN, 0, 3);
	assert_true(rig_take_op(&rig, VB_OP_ATOMIC_ACKNOWLEDGE).original == first);
	rig.wired->resp.expected_psn = RIG_RQ_PSN;
	second = *word;
	rig_give_atomic(&rig, RIG_RQ_PSN, 0, 3);
	assert_true(rig_take_op(&rig, VB_OP_ATOMIC_ACKNOWLEDGE).original == second);
	rig_give_atomic(&rig, RIG_RQ_PSN, 0, 3);
	assert_true(rig_take_op(&rig, VB_OP_ATOMIC_ACKNOWLEDGE).original == second);
	assert_true(*word == first + 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(a_message_is_received_and_acknowledged),
		TEST_RC(psns_wrap),
		TEST_RC(a_gap_draws_one_nak),
		TEST_RC(behind_an_rnr_nak_nothing_is_said),
		TEST_RC(write_with_imm_draws_rnr_for_its_last_packet),
		TEST_RC(a_duplicate_has_no_effect_and_gets_the_newest_psn),
		TEST_RC(a_read_is_answered),
		TEST_RC(an_ack_never_has_the_psn_of_a_read_or_atomic),
		TEST_RC(a_part_of_a_read_is_repeated),
		TEST_RC(repeated_reads_are_answered_in_their_order),
		TEST_RC(a_duplicate_read_before_anything_else_is_nothing),
		TEST_RC(an_atomic_is_executed_once),
		TEST_RC(repeated_reads_are_not_too_many),
		TEST_RC(credits_tell_the_receives_that_are_left),
		TEST_RC(credits_are_rounded_down),
		TEST_RC(a_shared_queue_gives_no_credits),
		TEST_RC(a_damaged_receive_of_an_srq_is_an_event),
		TEST_RC(cnps_are_rate_limited),
		TEST_RC(a_received_packet_that_is_not_marked_draws_no_cnp),
		TEST_RC(an_ack_is_not_held_for_ever),
		TEST_RC(a_failing_qp_gives_its_shared_receive_back),
		TEST_RC(a_nak_tells_of_what_is_missing_when_it_goes_out),
		TEST_RC(what_was_taken_in_draws_no_rnr_nak),
		TEST_RC(a_gap_that_is_filled_in_time_is_no_gap),
		TEST_RC(the_newest_atomic_of_a_psn_is_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets in the middle of a message that come in one burst: each is checked, in fewer steps. */
#include "rig_case.h"

enum { PACKETS = 8, BURST = 7 };

static uint32_t next_psn;

static void fill(uint8_t number)
{
	memset(rig.payload, number, sizeof(rig.payload));
}

/* A WRITE to the region begins; the rest of it comes in a burst. */
static void begin_write(void)
{
	struct vb_packet first = rig_request(VB_OP_WRITE_FIRST, RIG_RQ_PSN, RIG_MTU);

	rig_open(&rig);
	first.va = (uintptr_t)rig.region;
	first.rkey = rig.mr->ibv.rkey;
	first.dma_length = PACKETS * RIG_MTU;
	fill(0);
	rig_give(&rig, first);
	rig.burst = BURST;
	next_psn = RIG_RQ_PSN + 1;
}

static void give_middle(void)
{
	fill((uint8_t)(next_psn - RIG_RQ_PSN));
	rig_give(&rig, rig_request(VB_OP_WRITE_MIDDLE, next_psn++, RIG_MTU));
}

static void give_middles(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		give_middle();
}

static void end_write(void)
{
	fill(PACKETS - 1);
	rig_give_op(&rig, VB_OP_WRITE_LAST, next_psn, RIG_MTU);
}

static void assert_written(unsigned packets)
{
	for (unsigned i = 0; i < packets; i++) {
		assert_int_equal(rig.region[(size_t)i * RIG_MTU], i);
		assert_int_equal(rig.region[(size_t)(i + 1) * RIG_MTU - 1], i);
	}
}

static void a_burst_is_written(void **state)
{
	begin_write();
	give_middles(PACKETS - 2);
	assert_int_equal(rig.roce.sequel.burst, BURST);
	end_write();
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).psn, next_psn);
	assert_written(PACKETS);
}

/* The bit, like the PSN, differs from packet to packet. */
static void any_packet_may_ask_for_an_ack(void **state)
{
	begin_write();
	give_middles(2);
	rig_give_op(&rig, VB_OP_WRITE_MIDDLE, next_psn, RIG_MTU);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).psn, next_psn++);
	give_middle();
	rig_turn(&rig);
	rig_take_none(&rig);
}

static void a_damaged_packet_is_dropped(void **state)
{
	begin_write();
	give_middles(2);
	rig.damaged = true;
	give_middle();
	rig.damaged = false;
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_ICRC], 1);
	assert_written(3);
	assert_int_not_equal(rig.region[3 * RIG_MTU], 3);
	give_middle(); /* behind a gap: it is kept */
	assert_int_not_equal(rig.region[4 * RIG_MTU], 4);
	rig_wait_ns(&rig, 1000000);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).syndrome, VB_NAK_SEQUENCE);
	next_psn = RIG_RQ_PSN + 3;
	give_middles(PACKETS - 4);
	end_write();
	assert_written(PACKETS);
}

static void the_last_bytes_of_a_region_are_not_passed(void **state)
{
	begin_write();
	give_middles(PACKETS - 2);
	give_middle(); /* the message ends here */
	give_middle();
	rig_turn(&rig);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).syndrome, VB_NAK_INVALID_REQUEST);
	assert_written(PACKETS - 1);
}

static void another_pkey_is_refused(void **state)
{
	begin_write();
	give_middles(2);
	rig.pkey = 0x1234;
	give_middle();
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_PKEY], 1);
	assert_written(3);
}

static void a_qp_that_fails_takes_no_more(void **state)
{
	begin_write();
	give_middles(2);
	assert_true(vb_qp_enter_error(rig.qp));
	give_middle();
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_STATE], 1);
	assert_written(3);
}

static void a_region_that_is_gone_is_not_written(void **state)
{
	struct vb_mr_spec spec = { .length = RIG_REGION };

	begin_write();
	give_middles(2);
	assert_int_equal(vb_mr_deregister(rig.mr), 0);
	give_middle();
	rig_turn(&rig);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).syndrome, VB_NAK_ACCESS);
	assert_written(3);
	spec.addr = spec.iova = (uintptr_t)rig.region;
	assert_int_equal(vb_mr_register(rig.pd, &spec, &rig.mr), 0); /* for rig_close */
}

static void a_qp_that_goes_is_forgotten(void **state)
{
	begin_write();
	give_middles(2);
	vb_roce_forget_sequel(rig.wired);
	assert_int_equal(rig.roce.sequel.burst, 0);
	give_middles(PACKETS - 4);
	end_write();
	assert_written(PACKETS);
}

/* --- packets that lie one behind the other --- */

static void hold_middles(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		fill((uint8_t)(next_psn - RIG_RQ_PSN));
		rig_hold(&rig, rig_request(VB_OP_WRITE_MIDDLE, next_psn++, RIG_MTU));
	}
}

static void what_lies_together_is_written(void **state)
{
	struct vb_packet asks;

	begin_write();
	hold_middles(3);
	asks = rig_request(VB_OP_WRITE_MIDDLE, next_psn, RIG_MTU);
	asks.ack_request = true;
	fill((uint8_t)(next_psn++ - RIG_RQ_PSN));
	rig_hold(&rig, asks);
	hold_middles(2);
	rig_give_held(&rig);
	assert_written(PACKETS - 1);
	rig_turn(&rig);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).psn, next_psn - 1);
	end_write();
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).psn, next_psn);
	assert_written(PACKETS);
}

static void a_damaged_packet_among_them_is_dropped(void **state)
{
	begin_write();
	hold_middles(2);
	rig.damaged = true;
	hold_middles(1);
	rig.damaged = false;
	hold_middles(3);
	rig_give_held(&rig);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_ICRC], 1);
	assert_written(3);
	assert_int_not_equal(rig.region[3 * RIG_MTU], 3);
	assert_int_not_equal(rig.region[4 * RIG_MTU], 4); /* behind the gap: it is kept */
	next_psn = RIG_RQ_PSN + 3;
	give_middle();
	assert_written(PACKETS - 1);
}

static void reserved_bits_mean_nothing(void **state)
{
	begin_write();
	hold_middles(2);
	rig.reserved = 0x01;
	hold_middles(3);
	rig_give_held(&rig);
	assert_written(6);
	assert_int_equal(rig.roce.reserved, 3);
}

static void a_repetition_among_them_changes_nothing(void **state)
{
	begin_write();
	hold_middles(2);
	next_psn--;
	hold_middles(3);
	rig_give_held(&rig);
	assert_int_equal(rig.wired->counters.duplicates, 1);
	assert_written(5);
}

static void they_end_with_the_message(void **state)
{
	begin_write();
	hold_middles(PACKETS);
	rig_give_held(&rig);
	rig_turn(&rig);
	assert_int_equal(rig_take_op(&rig, VB_OP_ACKNOWLEDGE).syndrome, VB_NAK_INVALID_REQUEST);
	assert_written(PACKETS - 1);
}

static void packets_for_another_qp_are_not_among_them(void **state)
{
	struct vb_packet other = rig_request(VB_OP_WRITE_MIDDLE, RIG_RQ_PSN + 3, RIG_MTU);

	begin_write();
	hold_middles(2);
	other.dest_qpn = rig.qp->ibv.qp_num + 1;
	rig_hold(&rig, other);
	hold_middles(2);
	rig_give_held(&rig);
	assert_int_equal(rig.roce.drops[VB_PACKET_DROP_UNKNOWN_QP], 1);
	assert_written(5);
}

/* A READ has been asked for, and its answer begins. */
static void begin_read(void)
{
	rig_open(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, PACKETS * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	fill(0);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_FIRST, RIG_SQ_PSN, RIG_MTU);
	rig.burst = BURST;
	next_psn = RIG_SQ_PSN + 1;
}

static void hold_answers(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		fill((uint8_t)(next_psn - RIG_SQ_PSN));
		rig_hold(&rig, rig_request(VB_OP_READ_RESPONSE_MIDDLE, next_psn++, RIG_MTU));
	}
}

static void end_read(void)
{
	fill(PACKETS - 1);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_LAST, RIG_SQ_PSN + PACKETS - 1, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
	assert_written(PACKETS);
}

static void answers_that_lie_together_are_stored(void **state)
{
	begin_read();
	hold_answers(PACKETS - 2);
	rig_give_held(&rig);
	assert_int_equal(rig.wired->req.una_psn, next_psn);
	assert_written(PACKETS - 1);
	end_read();
}

static void a_damaged_answer_among_them_is_asked_for_again(void **state)
{
	begin_read();
	hold_answers(2);
	rig.damaged = true;
	hold_answers(1);
	rig.damaged = false;
	hold_answers(3);
	rig_give_held(&rig);
	assert_int_equal(rig.wired->req.una_psn, RIG_SQ_PSN + 3);
	assert_written(3);
	rig_turn(&rig);
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_REQUEST).psn, RIG_SQ_PSN + 3);
	fill(3);
	rig_give_response(&rig, VB_OP_READ_RESPONSE_ONLY, RIG_SQ_PSN + 3, RIG_MTU);
	end_read();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(a_burst_is_written),
		TEST_RC(any_packet_may_ask_for_an_ack),
		TEST_RC(a_damaged_packet_is_dropped),
		TEST_RC(the_last_bytes_of_a_region_are_not_passed),
		TEST_RC(another_pkey_is_refused),
		TEST_RC(a_qp_that_fails_takes_no_more),
		TEST_RC(a_region_that_is_gone_is_not_written),
		TEST_RC(a_qp_that_goes_is_forgotten),
		TEST_RC(what_lies_together_is_written),
		TEST_RC(a_damaged_packet_among_them_is_dropped),
		TEST_RC(reserved_bits_mean_nothing),
		TEST_RC(a_repetition_among_them_changes_nothing),
		TEST_RC(they_end_with_the_message),
		TEST_RC(packets_for_another_qp_are_not_among_them),
		TEST_RC(answers_that_lie_together_are_stored),
		TEST_RC(a_damaged_answer_among_them_is_asked_for_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

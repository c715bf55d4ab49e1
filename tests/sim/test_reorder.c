/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that come behind a gap: they wait for it, within bounds. */
#include "rig_case.h"

enum { GAP_NS = 1000000 };

static void take_ack(uint32_t psn, uint32_t msn)
{
	struct vb_packet packet = rig_take_op(&rig, VB_OP_ACKNOWLEDGE);

	assert_int_equal(packet.syndrome & VB_SYNDROME_KIND, VB_SYNDROME_ACK);
	assert_int_equal(packet.psn, psn & VB_PSN_MASK);
	assert_int_equal(packet.msn, msn);
}

static void any_order_becomes_the_right_one(void **state)
{
	static const uint32_t order[] = { 3, 1, 4, 2, 0 };

	(void)state;
	rig.attr.rq_psn = VB_PSN_MASK - 1;
	rig_open(&rig);
	for (unsigned i = 0; i < 5; i++)
		rig_post_recv(&rig, 64);
	for (unsigned i = 0; i < 5; i++) {
		struct vb_packet packet = rig_request(
			VB_OP_SEND_ONLY, (VB_PSN_MASK - 1 + order[i]) & VB_PSN_MASK, order[i] + 1);

		packet.ack_request = true;
		rig_give(&rig, packet);
	}
	rig_turn(&rig);
	for (unsigned i = 0; i < 5; i++)
		rig_received(&rig, i + 1);
	take_ack(VB_PSN_MASK + 3, 5);
	rig_take_none(&rig);
	assert_int_equal(rig.roce.nic->kept_bytes, rig.wired->resp.reorder.size * sizeof(void *));
}

/* A READ uses up as many PSNs as its answer has packets. */
static void a_read_behind_a_gap_is_answered_behind_it(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig_post_recv(&rig, 64);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 4, 8);
	rig_give_read(&rig, RIG_RQ_PSN + 1, 0, 3 * RIG_MTU);
	rig_turn(&rig);
	rig_take_none(&rig);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	assert_int_equal(rig_take_op(&rig, VB_OP_READ_RESPONSE_FIRST).psn, RIG_RQ_PSN + 1);
	rig_take_op(&rig, VB_OP_READ_RESPONSE_MIDDLE);
	rig_take_op(&rig, VB_OP_READ_RESPONSE_LAST);
	take_ack(RIG_RQ_PSN + 4, 3);
}

/* As behind any RNR NAK: the requester sends all of it again. */
static void without_a_receive_all_behind_it_is_forgotten(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 1, 8);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 2, 8);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	rig_received(&rig, 8);
	rig_take_nak(&rig, VB_SYNDROME_RNR | 12, RIG_RQ_PSN + 1);
	assert_int_equal(rig.roce.nic->kept_bytes, 0);
	rig_post_recv(&rig, 64);
	rig_post_recv(&rig, 64);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 2, 8);
	rig_poll_none(&rig);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 1, 8);
	rig_received(&rig, 8);
	rig_poll_none(&rig);
}

static void a_refusal_ends_it(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig_give_op(&rig, VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 8); /* of no message */
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 2, 8);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	rig_received(&rig, 8);
	rig_take_nak(&rig, VB_NAK_INVALID_REQUEST, RIG_RQ_PSN + 1);
	assert_int_equal(rig.roce.nic->kept_bytes, 0);
}

/* A NIC goes back: what it repeats has been taken in, and is acknowledged at once. */
static void a_requester_that_goes_back_is_answered_at_once(void **state)
{
	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 6; i++)
		rig_post_recv(&rig, 64);
	for (uint32_t i = 1; i < 6; i++)
		rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + i, 8);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN);
	rig_take_none(&rig);
	for (uint32_t i = 0; i < 6; i++) {
		rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + i, 8);
		take_ack(RIG_RQ_PSN + 5, 6);
	}
	rig_take_none(&rig);
	for (unsigned i = 0; i < 6; i++)
		rig_received(&rig, 8);
	rig_poll_none(&rig);
}

/* Of two gaps the second is told when the requester has passed it again, and not before. */
static void a_second_gap_waits_for_the_repetition(void **state)
{
	(void)state;
	rig_open(&rig);
	for (unsigned i = 0; i < 8; i++)
		rig_post_recv(&rig, 64);
	for (uint32_t i = 1; i < 8; i++)
		if (i != 3)
			rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + i, 8);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	take_ack(RIG_RQ_PSN + 2, 3);
	rig_take_none(&rig);
	for (uint32_t i = 4; i < 7; i++)
		rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + i, 8);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN + 3);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 3, 8);
	take_ack(RIG_RQ_PSN + 7, 8);
}

/* --- packets that are late, and not lost --- */

static void give_sends(uint32_t psn, uint32_t end_psn)
{
	for (; psn != end_psn; psn++)
		rig_give(&rig, rig_request(VB_OP_SEND_ONLY, psn, 8));
	rig_turn(&rig);
}

static void give_asking(uint32_t psn)
{
	struct vb_packet packet = rig_request(VB_OP_SEND_ONLY, psn, 8);

	packet.ack_request = true;
	rig_give(&rig, packet);
	rig_turn(&rig);
}

static void open_with_receives(unsigned count)
{
	rig_open(&rig);
	while (count--)
		rig_post_recv(&rig, 64);
}

/* A packet comes behind many others, but before it is called missing: later gaps have more time. */
static void a_late_packet_makes_patient(void **state)
{
	const uint32_t psn = RIG_RQ_PSN;

	(void)state;
	open_with_receives(16);
	give_sends(psn + 1, psn + 3);
	rig_wait_ns(&rig, 50000);
	give_sends(psn, psn + 1);
	assert_int_equal(rig.wired->resp.lateness.ns, 50000);
	rig.out_head = rig.out_tail;
	give_sends(psn + 4, psn + 10);
	rig_wait_ns(&rig, 90000);
	rig_take_none(&rig);
	rig_wait_ns(&rig, GAP_NS);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, psn + 3);
}

/* It was called missing, and its repetition was for nothing. */
static void a_needless_repetition_makes_patient(void **state)
{
	const uint32_t psn = RIG_RQ_PSN;

	(void)state;
	open_with_receives(16);
	give_sends(psn + 1, psn + 4);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, psn);
	rig_wait_ns(&rig, 20000);
	give_sends(psn, psn + 1);
	assert_int_equal(rig.wired->resp.lateness.ns, 0); /* it may be the repetition */
	give_asking(psn);
	assert_in_range(rig.wired->resp.lateness.ns, 20000, 30000);
	rig.out_head = rig.out_tail;
	give_sends(psn + 5, psn + 8);
	rig_take_none(&rig);
	rig_wait_ns(&rig, GAP_NS);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, psn + 4);
}

/* What comes twice because the requester goes back, or missed an ACK, was not called missing. */
static void a_requester_that_goes_back_makes_nobody_patient(void **state)
{
	const uint32_t psn = RIG_RQ_PSN;

	(void)state;
	open_with_receives(40);
	give_sends(psn + 1, psn + 16);
	rig_wait_ns(&rig, 20000);
	give_sends(psn, psn + 16);
	give_sends(psn + 9, psn + 10);
	assert_int_equal(rig.wired->resp.expected_psn, psn + 16);
	assert_int_equal(rig.wired->resp.lateness.ns, 0);
}

/* The requester asked by itself after a silence, and once more when it got the report. */
static void repetitions_alone_make_nobody_patient(void **state)
{
	const uint32_t psn = RIG_RQ_PSN;

	(void)state;
	open_with_receives(40);
	rig.wired->resp.asked = true;
	give_sends(psn + 1, psn + 16);
	rig_wait_ns(&rig, 300000);
	give_asking(psn);
	give_asking(psn);
	give_sends(psn + 17, psn + 18);
	rig_wait_ns(&rig, 50000);
	give_asking(psn + 16);
	assert_int_equal(rig.wired->resp.expected_psn, psn + 18);
	assert_int_equal(rig.wired->resp.lateness.ns, 0);
}

static void patience_ends_where_packets_come_in_order(void **state)
{
	const uint32_t psn = RIG_RQ_PSN;

	(void)state;
	rig_open(&rig);
	rig.wired->resp.lateness.ns = VB_LATENESS_MOST_NS;
	for (uint32_t i = 0; i < 128 * VB_LATENESS_CALM; i++)
		rig_give(&rig, rig_request(VB_OP_WRITE_ONLY, psn + i, 0));
	assert_in_range(rig.wired->resp.lateness.ns, 0, 1000);
}

static void give_write(uint32_t psn)
{
	struct vb_packet packet = rig_request(VB_OP_WRITE_MIDDLE, psn, RIG_MTU);

	rig_give(&rig, packet);
}

/* One packet is missing for ever, and the peer fills all memory that it can get. */
static void memory_is_bounded(void **state)
{
	(void)state;
	rig_open(&rig);
	for (uint32_t i = 1; i < VB_KEPT_AHEAD_MAX + 1000; i++)
		give_write(RIG_RQ_PSN + i);
	assert_in_range(rig.roce.nic->kept_bytes, VB_KEPT_BYTES_MAX / 4, VB_KEPT_BYTES_MAX / 2);
	assert_true(rig.roce.drops[VB_PACKET_DROP_SEQUENCE] > 0);
	vb_roce_drop(rig.wired);
	rig.wired = NULL;
	assert_int_equal(rig.roce.nic->kept_bytes, 0);
}

/* A peer that breaks the rules: a request inside the PSNs of a READ, and a READ of 4 GB. */
static void requests_that_overlap_do_no_harm(void **state)
{
	struct vb_packet packet = rig_request(VB_OP_READ_REQUEST, RIG_RQ_PSN + 20, 0);

	(void)state;
	rig_open(&rig);
	rig_post_recv(&rig, 64);
	rig_post_recv(&rig, 64);
	rig.wired->resp.asked = true;
	rig_give_read(&rig, RIG_RQ_PSN + 1, 0, 8 * RIG_MTU);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 3, 8);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN + 9, 8);
	packet.dma_length = UINT32_MAX;
	rig_give(&rig, packet);
	rig_wait_ns(&rig, GAP_NS);
	rig_give_op(&rig, VB_OP_SEND_ONLY, RIG_RQ_PSN, 8);
	rig_received(&rig, 8);
	rig_received(&rig, 8);
	assert_int_equal(rig.wired->resp.expected_psn, RIG_RQ_PSN + 10);
	assert_int_equal(rig.wired->resp.reorder.count, 0);
}

/* --- reports --- */

static struct vb_gaps take_report(void)
{
	struct vb_packet packet = rig_take_op(&rig, VB_TRANSPORT_VENDOR | VB_OP_GAPS);
	struct vb_gaps gaps;

	assert_true(vb_gaps_parse(packet.psn, packet.payload, packet.payload_length, &gaps));
	return gaps;
}

static void no_report_comes_unasked(void **state)
{
	(void)state;
	rig_open(&rig);
	for (uint32_t i = 1; i < 100; i++)
		if (i % 10)
			rig_give_op(&rig, VB_OP_WRITE_MIDDLE, RIG_RQ_PSN + i, RIG_MTU);
	rig_wait_ns(&rig, 100 * GAP_NS);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN);
	rig_take_none(&rig);
}

static void who_asks_is_told_of_all_gaps(void **state)
{
	struct vb_gaps gaps;

	(void)state;
	rig_open(&rig);
	for (uint32_t i = 1; i < 10; i++)
		if (i != 4 && i != 5)
			give_write(RIG_RQ_PSN + i);
	rig_turn(&rig);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN);
	rig_give(&rig, rig_request(VB_TRANSPORT_VENDOR | VB_OP_GAPS_ASK, 0, 0));
	rig_turn(&rig);
	gaps = take_report();
	assert_int_equal(gaps.psn, RIG_RQ_PSN);
	assert_int_equal(gaps.end_psn, RIG_RQ_PSN + 10);
	assert_int_equal(gaps.held, 7);
	assert_int_equal(gaps.count, 2);
	assert_int_equal(gaps.gap[1].psn, RIG_RQ_PSN + 4);
	assert_int_equal(gaps.gap[1].end_psn, RIG_RQ_PSN + 6);
	rig_take_none(&rig);
}

/* A report without gaps says that packets arrive, and that they are not lost yet. */
static void a_young_gap_is_not_in_the_report(void **state)
{
	struct vb_gaps gaps;

	(void)state;
	open_with_receives(16);
	rig.wired->resp.asked = true;
	rig.wired->resp.lateness.ns = 100000;
	give_sends(RIG_RQ_PSN + 1, RIG_RQ_PSN + 5);
	rig_wait_ns(&rig, 100000);
	give_asking(RIG_RQ_PSN + 6);
	rig_turn(&rig);
	gaps = take_report();
	assert_int_equal(gaps.count, 0);
	assert_int_equal(gaps.held, 5);
	rig_take_none(&rig);
	/* The first gap is old before the second. */
	rig_wait_ns(&rig, 80000);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN);
	gaps = take_report();
	assert_int_equal(gaps.count, 1);
	assert_int_equal(gaps.gap[0].end_psn, RIG_RQ_PSN + 1);
	rig_wait_ns(&rig, GAP_NS);
	gaps = take_report();
	assert_int_equal(gaps.count, 2);
	rig_take_none(&rig);
}

/* Reports do not flood the network: one follows the other after a while. */
static void reports_have_a_pause_between_them(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_give(&rig, rig_request(VB_TRANSPORT_VENDOR | VB_OP_GAPS_ASK, 0, 0));
	for (uint32_t i = 1; i < 100; i++)
		give_write(RIG_RQ_PSN + i);
	rig_turn(&rig);
	rig_take_nak(&rig, VB_NAK_SEQUENCE, RIG_RQ_PSN);
	take_report();
	rig_take_none(&rig);
	rig_wait_ns(&rig, GAP_NS);
	assert_int_equal(take_report().held, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(any_order_becomes_the_right_one),
		TEST_RC(a_read_behind_a_gap_is_answered_behind_it),
		TEST_RC(without_a_receive_all_behind_it_is_forgotten),
		TEST_RC(a_refusal_ends_it),
		TEST_RC(a_requester_that_goes_back_is_answered_at_once),
		TEST_RC(a_second_gap_waits_for_the_repetition),
		TEST_RC(a_late_packet_makes_patient),
		TEST_RC(a_needless_repetition_makes_patient),
		TEST_RC(a_requester_that_goes_back_makes_nobody_patient),
		TEST_RC(repetitions_alone_make_nobody_patient),
		TEST_RC(patience_ends_where_packets_come_in_order),
		TEST_RC(memory_is_bounded),
		TEST_RC(requests_that_overlap_do_no_harm),
		TEST_RC(no_report_comes_unasked),
		TEST_RC(who_asks_is_told_of_all_gaps),
		TEST_RC(a_young_gap_is_not_in_the_report),
		TEST_RC(reports_have_a_pause_between_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

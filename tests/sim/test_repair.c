/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the requester sends again. A device of RoCEv2 goes back, and must never see anything that is
 * not RoCEv2. A peer of our own kind shows itself, is asked, and then gets what it misses.
 */
#include "path/roce/requester.h"
#include "rig_case.h"

enum { PACKETS = 16, ASK = VB_TRANSPORT_VENDOR | VB_OP_GAPS_ASK };

/* Sends a message of PACKETS packets, the first PSN of which is psn. */
static void send_long(void)
{
	rig_post(&rig, IBV_WR_RDMA_WRITE, PACKETS * RIG_MTU, IBV_SEND_SIGNALED);
	rig.out_head = rig.out_tail;
}

static void take_psns(uint32_t psn, uint32_t end_psn)
{
	for (; psn != end_psn; psn++)
		assert_int_equal(rig_take(&rig).psn, psn);
}

static void report(uint32_t psn, uint32_t end_psn, uint32_t held, const struct vb_gap *gaps,
		   uint32_t count)
{
	struct vb_packet packet = rig_request(VB_TRANSPORT_VENDOR | VB_OP_GAPS, psn, 0);
	struct vb_gaps all = { .psn = psn, .end_psn = end_psn, .held = held, .count = count };
	uint8_t payload[VB_GAPS_LENGTH_MAX];

	if (count)
		memcpy(all.gap, gaps, count * sizeof(*gaps));
	packet.payload = payload;
	packet.payload_length = vb_gaps_emit(&all, payload);
	rig_give(&rig, packet);
	rig_turn(&rig);
}

/* Shows the requester a peer that keeps packets, and reports gaps. */
static void become_known(void)
{
	static const struct vb_gap gap = { RIG_SQ_PSN + PACKETS, RIG_SQ_PSN + PACKETS + 1 };

	rig_open(&rig);
	send_long();
	rig_ack(&rig, RIG_SQ_PSN, VB_NAK_SEQUENCE);
	take_psns(RIG_SQ_PSN, RIG_SQ_PSN + PACKETS / 2);
	rig_take_none(&rig);
	rig_ack(&rig, RIG_SQ_PSN + PACKETS - 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_take_op(&rig, ASK);
	rig_take_none(&rig);
	send_long();
	report(gap.psn, gap.psn + 4, 3, &gap, 1);
	assert_true(rig.wired->req.repair.known);
	take_psns(gap.psn, gap.psn + 1);
	rig_take_none(&rig);
	rig_ack(&rig, gap.psn + PACKETS - 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* It has dropped what came behind the gap: half of it comes again at once, then the rest. */
static void a_device_that_goes_back_sees_nothing_else(void **state)
{
	uint32_t psn = RIG_SQ_PSN;

	(void)state;
	rig_open(&rig);
	for (unsigned round = 0; round < 20; round++, psn += PACKETS) {
		rig.wired->req.congestion.window_256 = 4 * PACKETS << 8;
		send_long();
		rig_wait_ns(&rig, 10000);
		rig_ack(&rig, psn + 4, VB_NAK_SEQUENCE);
		take_psns(psn + 4, psn + 10);
		rig_take_none(&rig);
		rig_wait_ns(&rig, 10000);
		rig_ack(&rig, psn + 4, VB_CREDITS_NONE);
		take_psns(psn + 10, psn + PACKETS);
		rig_take_none(&rig);
		rig_ack(&rig, psn + PACKETS - 1, VB_CREDITS_NONE);
		rig_sent(&rig, IBV_WC_SUCCESS);
	}
	assert_int_equal(rig.wired->req.repair.asks, 0);
}

/* An ACK for packets that were not sent again, and never a report: the questions end. */
static void a_peer_that_never_reports_is_asked_a_few_times(void **state)
{
	uint32_t psn = RIG_SQ_PSN;
	unsigned asked = 0;

	(void)state;
	rig_open(&rig);
	for (unsigned round = 0; round < 20; round++, psn += PACKETS) {
		send_long();
		rig_wait_ns(&rig, 10000);
		rig_ack(&rig, psn, VB_NAK_SEQUENCE);
		rig_ack(&rig, psn + PACKETS - 1, VB_CREDITS_NONE);
		rig_sent(&rig, IBV_WC_SUCCESS);
		while (rig.out_head != rig.out_tail)
			asked += rig_take(&rig).opcode == ASK;
	}
	assert_in_range(asked, 1, 4);
}

static void a_report_that_nobody_asked_for_is_not_believed(void **state)
{
	static const struct vb_gap gap = { RIG_SQ_PSN + 4, RIG_SQ_PSN + 5 };

	(void)state;
	rig_open(&rig);
	send_long();
	report(gap.psn, gap.psn + 4, 3, &gap, 1);
	rig_take_none(&rig);
	assert_int_equal(rig.wired->req.una_psn, RIG_SQ_PSN);
	assert_false(rig.wired->req.repair.known);
}

static void a_known_peer_gets_what_it_misses(void **state)
{
	const uint32_t psn = RIG_SQ_PSN + 2 * PACKETS;
	const struct vb_gap gaps[] = { { psn + 2, psn + 3 }, { psn + 6, psn + 8 } };

	(void)state;
	become_known();
	send_long();
	report(psn + 2, psn + 12, 7, gaps, 2);
	take_psns(psn + 2, psn + 3);
	take_psns(psn + 6, psn + 8);
	rig_take_none(&rig);
	/* The same gaps again, before the repetitions can have arrived. */
	report(psn + 2, psn + 12, 7, gaps, 2);
	rig_ack(&rig, psn + 2, VB_NAK_SEQUENCE);
	rig_take_none(&rig);
	rig_wait_ns(&rig, 100000);
	report(psn + 6, psn + 12, 4, gaps + 1, 1);
	take_psns(psn + 6, psn + 8);
	rig_take_none(&rig);
	rig_ack(&rig, psn + PACKETS - 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_take_none(&rig);
}

/* The last packet is lost, and no later one tells of it. */
static void a_silent_known_peer_gets_one_packet(void **state)
{
	const uint32_t psn = RIG_SQ_PSN + 2 * PACKETS;
	uint32_t window;

	(void)state;
	become_known();
	send_long();
	window = vb_congestion_window(&rig.wired->req.congestion);
	while (rig.out_head == rig.out_tail)
		rig_wait_ns(&rig, 100000);
	take_psns(psn, psn + 1);
	rig_take_none(&rig);
	assert_in_range(vb_congestion_window(&rig.wired->req.congestion), window / 2, window);
	rig_ack(&rig, psn + PACKETS - 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* Otherwise silences would look like long round trips, which make for longer silences. */
static void a_repaired_packet_shows_no_round_trip(void **state)
{
	const uint32_t psn = RIG_SQ_PSN + 2 * PACKETS;
	uint64_t before_ns;

	(void)state;
	become_known();
	before_ns = rig.wired->req.congestion.rtt_ns;
	for (uint32_t i = 0; i < 10; i++) {
		rig.wired->req.congestion.window_256 = 4 * PACKETS << 8;
		send_long();
		while (rig.out_head == rig.out_tail)
			rig_wait_ns(&rig, 100000);
		rig_ack(&rig, psn + (i + 1) * PACKETS - 1, VB_CREDITS_NONE);
		rig_sent(&rig, IBV_WC_SUCCESS);
		rig.out_head = rig.out_tail;
	}
	assert_int_equal(rig.wired->req.congestion.rtt_ns, before_ns);
}

static void an_rnr_nak_sends_all_of_it_again(void **state)
{
	const uint32_t psn = RIG_SQ_PSN + 2 * PACKETS;

	(void)state;
	become_known();
	send_long();
	rig_ack(&rig, psn + 4, VB_SYNDROME_RNR | 12);
	rig_wait_ns(&rig, 640001);
	take_psns(psn + 4, psn + 5);
	rig_take_none(&rig);
	rig_ack(&rig, psn + 4, VB_CREDITS_NONE);
	take_psns(psn + 5, psn + PACKETS);
	rig_ack(&rig, psn + PACKETS - 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* A READ that has not arrived is asked for as it was, and never in part. */
static void a_lost_read_is_asked_for_as_a_whole(void **state)
{
	const uint32_t psn = RIG_SQ_PSN + 2 * PACKETS;
	const struct vb_gap gap = { psn, psn + 4 };
	struct vb_packet packet;

	(void)state;
	become_known();
	rig_post(&rig, IBV_WR_RDMA_READ, 4 * RIG_MTU, IBV_SEND_SIGNALED);
	send_long();
	report(psn, psn + 8, 4, &gap, 1);
	packet = rig_take_op(&rig, VB_OP_READ_REQUEST);
	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.dma_length, 4 * RIG_MTU);
	rig_take_none(&rig);
	for (uint32_t i = 0; i < 4; i++)
		rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, psn + i, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
	rig_ack(&rig, psn + 3 + PACKETS, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* No later answer tells of it. */
static void the_lost_end_of_a_read_is_asked_for_until_it_comes(void **state)
{
	const uint32_t psn = RIG_SQ_PSN + 2 * PACKETS;

	(void)state;
	become_known();
	rig_post(&rig, IBV_WR_RDMA_READ, 4 * RIG_MTU, IBV_SEND_SIGNALED);
	rig_take_op(&rig, VB_OP_READ_REQUEST);
	for (uint32_t i = 0; i < 3; i++)
		rig_give_response(&rig, VB_OP_READ_RESPONSE_MIDDLE, psn + i, RIG_MTU);
	for (unsigned times = 0; times < 5; times++) {
		for (unsigned ms = 0; ms < 100 && rig.out_head == rig.out_tail; ms++)
			rig_wait_ns(&rig, 1000000);
		assert_int_equal(rig_take_op(&rig, VB_OP_READ_REQUEST).psn, psn + 3);
	}
	rig_give_response(&rig, VB_OP_READ_RESPONSE_LAST, psn + 3, RIG_MTU);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* Numbers of a report that the peer cannot mean: no packet is sent for them. */
static void a_report_about_packets_that_were_never_sent_is_refused(void **state)
{
	const uint32_t psn = RIG_SQ_PSN + 2 * PACKETS;
	const struct vb_gap far = { psn + PACKETS, psn + PACKETS + 1 };
	const struct vb_gap past = { psn - 2, psn - 1 };

	(void)state;
	become_known();
	send_long();
	report(far.psn, far.psn + 4, 3, &far, 1);
	report(past.psn, psn + 4, 3, &past, 1);
	report(psn, psn + PACKETS + 1, PACKETS, NULL, 0);
	rig_take_none(&rig);
	assert_int_equal(rig.wired->req.una_psn, psn);
	assert_int_equal(rig.wired->req.repair.held, 0);
	rig_ack(&rig, psn + PACKETS - 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

/* Packets arrive behind a gap that may close by itself: nothing is sent again, and no time runs. */
static void a_report_without_gaps_is_a_sign_of_life(void **state)
{
	const uint32_t psn = RIG_SQ_PSN + 2 * PACKETS;

	(void)state;
	become_known();
	send_long();
	for (uint32_t held = 1; held < PACKETS; held++) {
		rig_wait_ns(&rig, 150000);
		report(psn, psn + 1 + held, held, NULL, 0);
		rig_take_none(&rig);
	}
	assert_int_equal(vb_requester_in_flight(&rig.wired->req), 1);
	rig_ack(&rig, psn + PACKETS - 1, VB_CREDITS_NONE);
	rig_sent(&rig, IBV_WC_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(a_device_that_goes_back_sees_nothing_else),
		TEST_RC(a_peer_that_never_reports_is_asked_a_few_times),
		TEST_RC(a_report_that_nobody_asked_for_is_not_believed),
		TEST_RC(a_known_peer_gets_what_it_misses),
		TEST_RC(a_silent_known_peer_gets_one_packet),
		TEST_RC(a_repaired_packet_shows_no_round_trip),
		TEST_RC(an_rnr_nak_sends_all_of_it_again),
		TEST_RC(a_lost_read_is_asked_for_as_a_whole),
		TEST_RC(the_lost_end_of_a_read_is_asked_for_until_it_comes),
		TEST_RC(a_report_about_packets_that_were_never_sent_is_refused),
		TEST_RC(a_report_without_gaps_is_a_sign_of_life),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "path/roce/congestion.h"

enum { MTU = 1024, RTT_NS = 20000 };

static struct vb_congestion c;

static int begin(void **state)
{
	(void)state;
	vb_congestion_init(&c, MTU);
	return 0;
}

static void a_full_window_grows(void **state)
{
	uint32_t before = vb_congestion_window(&c);

	(void)state;
	vb_congestion_acked(&c, before, 0, 0);
	assert_true(vb_congestion_window(&c) > before);
	for (unsigned i = 0; i < 1000; i++)
		vb_congestion_acked(&c, vb_congestion_window(&c), 0, 0);
	assert_int_equal(vb_congestion_window(&c), c.window_max);
}

static void an_unused_window_does_not_grow(void **state)
{
	uint32_t before = vb_congestion_window(&c);

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		vb_congestion_acked(&c, 1, 0, 0);
	assert_int_equal(vb_congestion_window(&c), before);
}

/* The requester sends more only when it has taken in all answers that have come. */
static void a_window_doubles_per_round_trip_if_answers_come_together(void **state)
{
	const uint32_t before = vb_congestion_window(&c);

	(void)state;
	vb_congestion_measured(&c, RTT_NS, 1000);
	for (uint32_t out = before; out--;)
		vb_congestion_acked(&c, 1, out, 1000000);
	assert_int_equal(vb_congestion_window(&c), 2 * before);
}

static void a_loss_cuts_once_per_round_trip(void **state)
{
	uint32_t before = vb_congestion_window(&c), after;

	(void)state;
	vb_congestion_measured(&c, 100000, 1000);
	vb_congestion_lost(&c, 1, 1000000);
	after = vb_congestion_window(&c);
	assert_true(after < before);
	vb_congestion_lost(&c, 1, 1000000 + 99999);
	assert_int_equal(vb_congestion_window(&c), after);
	vb_congestion_lost(&c, 1, 1000000 + 200000);
	assert_true(vb_congestion_window(&c) < after);
}

static void losses_never_close_the_window(void **state)
{
	(void)state;
	for (uint64_t now_ns = 1000000; now_ns < 1000000000; now_ns += 1000000)
		vb_congestion_lost(&c, 8, now_ns);
	assert_true(vb_congestion_window(&c) >= 1);
}

/* One loss among many packets is damage; where a switch marks packets, its queue may be full. */
static void a_single_loss_cuts_only_where_cnps_come(void **state)
{
	uint32_t before;

	(void)state;
	vb_congestion_measured(&c, RTT_NS, 1000);
	vb_congestion_acked(&c, 1000, 0, 1000);
	before = vb_congestion_window(&c);
	assert_false(vb_congestion_lost(&c, 1, 1000000));
	assert_int_equal(vb_congestion_window(&c), before);
	vb_congestion_marked(&c, 2000000);
	before = vb_congestion_window(&c);
	assert_true(vb_congestion_lost(&c, 1, 3000000));
	assert_true(vb_congestion_window(&c) < before);
}

/* With 100 ms a packet per round trip would take minutes. ACKs tell of few packets each. */
static void a_window_of_a_long_way_grows_by_a_part_of_itself(void **state)
{
	(void)state;
	vb_congestion_measured(&c, 100000000, 1000);
	assert_int_equal(c.window_max, 16384);
	for (uint32_t before = 256; before <= 8192; before *= 2) {
		c.window_256 = c.threshold_256 = before << 8;
		for (unsigned i = 0; i < before / 16; i++)
			vb_congestion_acked(&c, 16, before - 16, 1000);
		assert_in_range(vb_congestion_window(&c), before + before / 70,
				before + before / 50 + 1);
	}
}

/* Rounds of a window each, with a CNP, and with a loss in some of them. */
static void run_marked(unsigned rounds, uint64_t rtt_ns, unsigned loss_every)
{
	for (unsigned i = 1; i <= rounds; i++) {
		uint64_t now_ns = i * 1000000ull;

		vb_congestion_measured(&c, rtt_ns, now_ns);
		vb_congestion_acked(&c, vb_congestion_window(&c), 0, 0);
		vb_congestion_marked(&c, now_ns);
		if (loss_every && i % loss_every == 0)
			vb_congestion_lost(&c, 8, now_ns);
	}
}

static void a_cnp_cuts_once_per_round_trip(void **state)
{
	uint32_t before = vb_congestion_window(&c);

	(void)state;
	vb_congestion_measured(&c, 100000, 1000);
	vb_congestion_marked(&c, 1000000);
	vb_congestion_marked(&c, 1000000 + 99999);
	assert_int_equal(vb_congestion_window(&c), before * 3 / 4);
}

static void fill_window(void)
{
	for (unsigned i = 0; i < 1000; i++)
		vb_congestion_acked(&c, vb_congestion_window(&c), 0, 1000);
}

/* Anybody can send them. A second of floods, and of a CNP every few milliseconds. */
static void cnps_alone_take_half_of_the_window(void **state)
{
	enum { ROUNDS = 20000, ROUND_NS = 50000 };
	static const unsigned every[] = { 1, 20, 80, 400 };

	(void)state;
	for (unsigned k = 0; k < sizeof(every) / sizeof(every[0]); k++) {
		uint64_t before, sum = 0;

		vb_congestion_init(&c, MTU);
		fill_window();
		before = vb_congestion_window(&c);
		for (uint64_t i = 1; i <= ROUNDS; i++) {
			vb_congestion_measured(&c, RTT_NS, i * ROUND_NS);
			vb_congestion_acked(&c, vb_congestion_window(&c), 0, i * ROUND_NS);
			if (i % every[k] == 0)
				vb_congestion_marked(&c, i * ROUND_NS);
			sum += vb_congestion_window(&c);
		}
		assert_in_range(sum / ROUNDS, before * 3 / 8, before);
	}
}

/* A switch that marks what 256 hosts send leaves less than a packet per round trip to each. */
static void a_window_below_a_packet_is_a_pause(void **state)
{
	(void)state;
	vb_congestion_measured(&c, RTT_NS, 1000);
	for (uint64_t i = 1; i <= 40; i++) {
		vb_congestion_measured(&c, 10 * RTT_NS, i * 1000000);
		vb_congestion_marked(&c, i * 1000000);
	}
	assert_int_equal(vb_congestion_window(&c), 1);
	assert_true(c.window_256 < 256);
	assert_in_range(c.gap_ns, c.rtt_ns, 64 * c.rtt_ns);
	/* The switch is gone: no window stays closed. */
	for (unsigned i = 0; i < 1000; i++)
		vb_congestion_acked(&c, vb_congestion_window(&c), 0, 1000000000 + i * 1000ull);
	assert_int_equal(c.gap_ns, 0);
	assert_int_equal(vb_congestion_window(&c), c.window_max);
}

/* A false alarm is no loss, and confirms no CNP. */
static void a_false_alarm_confirms_no_cnp(void **state)
{
	(void)state;
	vb_congestion_measured(&c, RTT_NS, 1000);
	vb_congestion_timeout(&c, 1000000);
	assert_true(c.lost_ns);
	vb_congestion_undo(&c);
	assert_false(c.lost_ns);
}

static void cnps_and_a_long_queue_take_more(void **state)
{
	(void)state;
	vb_congestion_measured(&c, RTT_NS, 1000);
	run_marked(200, 10000000, 0);
	assert_in_range(vb_congestion_window(&c), 1, 4);
}

static void cnps_and_losses_take_more(void **state)
{
	(void)state;
	run_marked(1000, RTT_NS, 1);
	assert_in_range(vb_congestion_window(&c), 1, 8);
}

static void when_cnps_end_the_window_grows_again(void **state)
{
	(void)state;
	run_marked(1000, RTT_NS, 10);
	for (unsigned i = 0; i < 1000; i++)
		vb_congestion_acked(&c, vb_congestion_window(&c), 0, 0);
	assert_int_equal(vb_congestion_window(&c), c.window_max);
}

static void a_timeout_sends_one_packet_at_a_time(void **state)
{
	uint32_t before = vb_congestion_window(&c);

	(void)state;
	vb_congestion_timeout(&c, 1000000);
	assert_int_equal(vb_congestion_window(&c), 1);
	vb_congestion_timeout(&c, 1000000);
	vb_congestion_undo(&c);
	assert_int_equal(vb_congestion_window(&c), before);
}

static void a_false_alarm_takes_no_earlier_timeout_back(void **state)
{
	uint32_t after;

	(void)state;
	vb_congestion_timeout(&c, 1000000);
	after = vb_congestion_window(&c);
	vb_congestion_alarm(&c);
	vb_congestion_undo(&c);
	assert_int_equal(vb_congestion_window(&c), after);
}

static void a_long_queue_stops_the_growth(void **state)
{
	uint32_t before = vb_congestion_window(&c);

	(void)state;
	vb_congestion_measured(&c, RTT_NS, 1000);
	for (unsigned i = 0; i < 100; i++)
		vb_congestion_measured(&c, 10000000, 1000 + i);
	vb_congestion_acked(&c, before, 0, 0);
	assert_int_equal(vb_congestion_window(&c), before);
}

static void patience_is_four_round_trips_at_least(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++)
		vb_congestion_measured(&c, 1000000, 1000 + i);
	assert_in_range(vb_congestion_patience_ns(&c, 2000), 3990000, 5000000);
	vb_congestion_init(&c, MTU);
	vb_congestion_measured(&c, 1000, 1000);
	assert_int_equal(vb_congestion_patience_ns(&c, 2000), 200000);
}

/* Nobody waits for a CPU as long as for a distant peer. */
static void patience_with_a_distant_peer_is_little_more_than_its_round_trip(void **state)
{
	(void)state;
	vb_congestion_measured(&c, 60000000, 1000);
	assert_int_equal(vb_congestion_patience_most_ns(&c, 2000), 70000000);
	for (unsigned i = 0; i < 100; i++)
		vb_congestion_measured(&c, 60000000, 1000 + i);
	assert_in_range(vb_congestion_patience_ns(&c, 2000), 69000000, 71000000);
	vb_congestion_init(&c, MTU);
	vb_congestion_measured(&c, 1000, 1000);
	assert_int_equal(vb_congestion_patience_most_ns(&c, 2000), 800000);
}

static void a_false_alarm_makes_patient_for_a_while(void **state)
{
	(void)state;
	vb_congestion_measured(&c, 1000, 1000);
	vb_congestion_late(&c, 4000000, 5000000);
	assert_int_equal(vb_congestion_patience_ns(&c, 6000000), 6000000);
	/* A shorter one does not take it back, a longer one counts up to a limit. */
	vb_congestion_late(&c, 1000000, 7000000);
	assert_int_equal(vb_congestion_patience_ns(&c, 8000000), 6000000);
	vb_congestion_late(&c, 900000000, 8000000);
	assert_int_equal(vb_congestion_patience_ns(&c, 9000000), 10000000);
	assert_int_equal(vb_congestion_patience_ns(&c, 210000000), 200000);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_full_window_grows),
		TEST(an_unused_window_does_not_grow),
		TEST(a_window_doubles_per_round_trip_if_answers_come_together),
		TEST(a_loss_cuts_once_per_round_trip),
		TEST(losses_never_close_the_window),
		TEST(a_single_loss_cuts_only_where_cnps_come),
		TEST(a_window_of_a_long_way_grows_by_a_part_of_itself),
		TEST(a_cnp_cuts_once_per_round_trip),
		TEST(cnps_alone_take_half_of_the_window),
		TEST(a_window_below_a_packet_is_a_pause),
		TEST(a_false_alarm_confirms_no_cnp),
		TEST(cnps_and_a_long_queue_take_more),
		TEST(cnps_and_losses_take_more),
		TEST(when_cnps_end_the_window_grows_again),
		TEST(a_timeout_sends_one_packet_at_a_time),
		TEST(a_false_alarm_takes_no_earlier_timeout_back),
		TEST(a_long_queue_stops_the_growth),
		TEST(patience_is_four_round_trips_at_least),
		TEST(patience_with_a_distant_peer_is_little_more_than_its_round_trip),
		TEST(a_false_alarm_makes_patient_for_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

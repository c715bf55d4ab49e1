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
	vb_congestion_acked(&c, before, 0);
	assert_true(vb_congestion_window(&c) > before);
	for (unsigned i = 0; i < 1000; i++)
		vb_congestion_acked(&c, vb_congestion_window(&c), 0);
	assert_int_equal(vb_congestion_window(&c), c.window_max);
}

static void an_unused_window_does_not_grow(void **state)
{
	uint32_t before = vb_congestion_window(&c);

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		vb_congestion_acked(&c, 1, 0);
	assert_int_equal(vb_congestion_window(&c), before);
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

/* Rounds of a window each, with a CNP, and with a loss in some of them. */
static void run_marked(unsigned rounds, uint64_t rtt_ns, unsigned loss_every)
{
	for (unsigned i = 1; i <= rounds; i++) {
		uint64_t now_ns = i * 1000000ull;

		vb_congestion_measured(&c, rtt_ns, now_ns);
		vb_congestion_acked(&c, vb_congestion_window(&c), 0);
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

/* Anybody can send them. */
static void cnps_alone_take_half_of_the_window(void **state)
{
	uint32_t before;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		vb_congestion_acked(&c, vb_congestion_window(&c), 0);
	before = vb_congestion_window(&c);
	run_marked(10000, RTT_NS, 0);
	assert_in_range(vb_congestion_window(&c), before / 2, before * 3 / 4);
}

static void cnps_and_a_long_queue_take_more(void **state)
{
	(void)state;
	vb_congestion_measured(&c, RTT_NS, 1000);
	run_marked(200, 10000000, 0);
	assert_in_range(vb_congestion_window(&c), 2, 4);
}

static void cnps_and_losses_take_more(void **state)
{
	(void)state;
	run_marked(1000, RTT_NS, 1);
	assert_in_range(vb_congestion_window(&c), 2, 8);
}

static void when_cnps_end_the_window_grows_again(void **state)
{
	(void)state;
	run_marked(1000, RTT_NS, 10);
	for (unsigned i = 0; i < 1000; i++)
		vb_congestion_acked(&c, vb_congestion_window(&c), 0);
	assert_int_equal(vb_congestion_window(&c), c.window_max);
}

static void a_timeout_sends_one_packet_at_a_time(void **state)
{
	uint32_t before = vb_congestion_window(&c);

	(void)state;
	vb_congestion_timeout(&c);
	assert_int_equal(vb_congestion_window(&c), 1);
	vb_congestion_timeout(&c);
	vb_congestion_undo(&c);
	assert_int_equal(vb_congestion_window(&c), before);
}

static void a_long_queue_stops_the_growth(void **state)
{
	uint32_t before = vb_congestion_window(&c);

	(void)state;
	vb_congestion_measured(&c, RTT_NS, 1000);
	for (unsigned i = 0; i < 100; i++)
		vb_congestion_measured(&c, 10000000, 1000 + i);
	vb_congestion_acked(&c, before, 0);
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
		TEST(a_loss_cuts_once_per_round_trip),
		TEST(losses_never_close_the_window),
		TEST(a_cnp_cuts_once_per_round_trip),
		TEST(cnps_alone_take_half_of_the_window),
		TEST(cnps_and_a_long_queue_take_more),
		TEST(cnps_and_losses_take_more),
		TEST(when_cnps_end_the_window_grows_again),
		TEST(a_timeout_sends_one_packet_at_a_time),
		TEST(a_long_queue_stops_the_growth),
		TEST(patience_is_four_round_trips_at_least),
		TEST(patience_with_a_distant_peer_is_little_more_than_its_round_trip),
		TEST(a_false_alarm_makes_patient_for_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

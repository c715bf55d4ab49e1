/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/timer.h"

enum { COUNT = 300 };

static void timers_come_in_the_order_of_their_times(void **state)
{
	struct vb_timers timers = { 0 };
	struct vb_timer all[COUNT] = { 0 }, *timer;
	uint64_t last_ns = 0;
	unsigned fired = 0;

	(void)state;
	assert_int_equal(vb_timers_reserve(&timers, COUNT), 0);
	for (unsigned i = 0; i < COUNT; i++)
		vb_timer_set(&timers, &all[i], (i * 7919u) % 1000);
	while ((timer = vb_timers_pop(&timers, 1000))) {
		uint64_t due_ns = (unsigned)(timer - all) * 7919u % 1000;

		assert_true(due_ns >= last_ns);
		assert_true(timer->due_ns == VB_NEVER_NS);
		last_ns = due_ns;
		fired++;
	}
	assert_int_equal(fired, COUNT);
	vb_timers_fini(&timers);
}

static void nothing_fires_before_its_time(void **state)
{
	struct vb_timers timers = { 0 };
	struct vb_timer timer = { 0 };

	(void)state;
	assert_int_equal(vb_timers_reserve(&timers, 1), 0);
	vb_timer_set(&timers, &timer, 100);
	assert_null(vb_timers_pop(&timers, 99));
	assert_true(vb_timers_next_ns(&timers) == 100);
	assert_ptr_equal(vb_timers_pop(&timers, 100), &timer);
	assert_null(vb_timers_pop(&timers, 1000));
	vb_timers_fini(&timers);
}

static void a_timer_can_be_moved_both_ways(void **state)
{
	struct vb_timers timers = { 0 };
	struct vb_timer timer = { 0 };

	(void)state;
	assert_int_equal(vb_timers_reserve(&timers, 1), 0);
	vb_timer_set(&timers, &timer, 100);
	vb_timer_set(&timers, &timer, 200);
	assert_null(vb_timers_pop(&timers, 150));
	assert_true(vb_timers_next_ns(&timers) <= 200);
	vb_timer_set(&timers, &timer, 160);
	assert_ptr_equal(vb_timers_pop(&timers, 160), &timer);
	vb_timers_fini(&timers);
}

static void never_is_never(void **state)
{
	struct vb_timers timers = { 0 };
	struct vb_timer timer = { 0 };

	(void)state;
	assert_int_equal(vb_timers_reserve(&timers, 1), 0);
	vb_timer_set(&timers, &timer, 100);
	vb_timer_set(&timers, &timer, VB_NEVER_NS);
	assert_null(vb_timers_pop(&timers, 1000));
	assert_true(vb_timers_next_ns(&timers) == VB_NEVER_NS);
	vb_timers_fini(&timers);
}

static void a_removed_timer_does_not_fire(void **state)
{
	struct vb_timers timers = { 0 };
	struct vb_timer all[COUNT] = { 0 }, *timer;
	unsigned fired = 0;

	(void)state;
	assert_int_equal(vb_timers_reserve(&timers, COUNT), 0);
	for (unsigned i = 0; i < COUNT; i++)
		vb_timer_set(&timers, &all[i], (i * 31u) % 97);
	for (unsigned i = 0; i < COUNT; i += 2)
		vb_timer_remove(&timers, &all[i]);
	while ((timer = vb_timers_pop(&timers, 1000))) {
		assert_true((timer - all) % 2);
		fired++;
	}
	assert_int_equal(fired, COUNT / 2);
	vb_timers_fini(&timers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers_come_in_the_order_of_their_times),
		cmocka_unit_test(nothing_fires_before_its_time),
		cmocka_unit_test(a_timer_can_be_moved_both_ways),
		cmocka_unit_test(never_is_never),
		cmocka_unit_test(a_removed_timer_does_not_fire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

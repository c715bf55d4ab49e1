/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of posted work: which ranges meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check/check.h"
#include "check/report.h"
#include "check/watch.h"

enum { SPACE = 512, LENGTH_MAX = 24, RANGES = 400 };

void vb_watch_ends(struct vb_work *work)
{
	(void)work;
}

void vb_watch_forget(const struct vb_object *owner)
{
	(void)owner;
}

void vb_report(enum vb_rule rule, const struct vb_call *calls, const char *format, ...)
{
	(void)rule;
	(void)calls;
	(void)format;
}

static int begin(void **state)
{
	(void)state;
	vb_ranges_forget();
	vb_work_epoch = 0;
	return 0;
}

static void a_range_is_found_by_start_and_length(void **state)
{
	struct vb_range *range = vb_range_get(4096, 64);

	(void)state;
	assert_ptr_equal(vb_range_get(4096, 64), range);
	assert_ptr_not_equal(vb_range_get(4096, 65), range);
	assert_ptr_not_equal(vb_range_get(4097, 64), range);
}

static void neighbours_are_alone(void **state)
{
	struct vb_range *low = vb_range_get(1000, 10), *high = vb_range_get(1010, 10);

	(void)state;
	low->writes = 1;
	assert_true(low->alone && high->alone);
	assert_null(vb_range_rival(high, true));
	vb_range_get(1009, 2);
	assert_false(low->alone || high->alone);
	assert_null(vb_range_rival(high, true));
	assert_ptr_equal(vb_range_rival(vb_range_get(1009, 2), false), low);
}

static void readers_meet_writers_only(void **state)
{
	struct vb_range *first = vb_range_get(0, 100), *second = vb_range_get(50, 100);

	(void)state;
	first->reads = 1;
	assert_null(vb_range_rival(second, false));
	assert_ptr_equal(vb_range_rival(second, true), first);
	first->writes = 1;
	assert_ptr_equal(vb_range_rival(second, false), first);
}

static void a_range_may_be_its_own_rival(void **state)
{
	struct vb_range *range = vb_range_get(0, 100);

	(void)state;
	assert_null(vb_range_rival(range, true));
	range->reads = 1;
	assert_null(vb_range_rival(range, false));
	assert_ptr_equal(vb_range_rival(range, true), range);
}

static void a_write_is_known_by_its_time(void **state)
{
	struct vb_range *sent = vb_range_get(0, 100), *received = vb_range_get(99, 1);

	(void)state;
	received->written = 7;
	assert_true(vb_range_written(sent, 6));
	assert_false(vb_range_written(sent, 7));
	received->writes = 1;
	assert_true(vb_range_written(sent, 7));
}

/* --- against a simple search --- */

static struct vb_range *all[RANGES];

static uint32_t draw(uint32_t below)
{
	static uint32_t state = 1;

	state = state * 1664525u + 1013904223u;
	return (state >> 8) % below;
}

static bool meet(const struct vb_range *range, uint64_t addr, uint64_t length)
{
	return range->addr < addr + length && addr < range->addr + range->length;
}

static bool any_in_use(uint64_t addr, uint64_t length, const struct vb_range *but)
{
	for (unsigned i = 0; i < RANGES; i++)
		if (all[i] != but && meet(all[i], addr, length) &&
		    (all[i]->reads || all[i]->writes))
			return true;
	return false;
}

static void the_tree_finds_what_a_search_finds(void **state)
{
	(void)state;
	for (unsigned i = 0; i < RANGES; i++)
		all[i] = vb_range_get(draw(SPACE), 1 + draw(LENGTH_MAX));
	for (unsigned turn = 0; turn < 2000; turn++) {
		struct vb_range *changed = all[draw(RANGES)], *asked = all[draw(RANGES)];
		const uint64_t addr = draw(SPACE), length = 1 + draw(LENGTH_MAX);

		changed->reads = draw(20) == 0;
		changed->writes = draw(20) == 0;
		assert_int_equal(vb_range_in_use(addr, length) != NULL,
				 any_in_use(addr, length, NULL));
		if (!asked->reads && !asked->writes)
			assert_int_equal(vb_range_rival(asked, true) != NULL,
					 any_in_use(asked->addr, asked->length, asked));
	}
}

/* A program with ever other buffers does not fill the memory, and what is posted stays. */
static void idle_ranges_are_dropped(void **state)
{
	struct vb_range *posted = vb_range_get(64, 64);

	(void)state;
	posted->writes = 1;
	for (uint64_t i = 2; i < 600000; i++)
		assert_non_null(vb_range_get(64 * i, 64));
	assert_ptr_equal(vb_range_get(64, 64), posted);
	assert_ptr_equal(vb_range_in_use(100, 1), posted);
	assert_null(vb_range_in_use(128, 64 * 600000ull));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_range_is_found_by_start_and_length, begin),
		cmocka_unit_test_setup(neighbours_are_alone, begin),
		cmocka_unit_test_setup(readers_meet_writers_only, begin),
		cmocka_unit_test_setup(a_range_may_be_its_own_rival, begin),
		cmocka_unit_test_setup(a_write_is_known_by_its_time, begin),
		cmocka_unit_test_setup(the_tree_finds_what_a_search_finds, begin),
		cmocka_unit_test_setup(idle_ranges_are_dropped, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A sender whose receives ran out keeps away from the owner that posts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nic/qp.h"
#include "path/local/step.h"

enum { CELLS = 64, QUARTER = CELLS / 4, FIRST = 1000 };

static struct vb_cell cells[CELLS];
static struct vb_remote remote;
static uint64_t now_ns;

/* All receives of the lap before are completed, and none is posted again. */
static int begin(void **state)
{
	(void)state;
	for (uint32_t i = FIRST - CELLS; i != FIRST; i++)
		atomic_store(&cells[i % CELLS].word, vb_cell_word(i, 0, 0, VB_CELL_DONE));
	remote = (struct vb_remote){ .cells = cells, .mask = CELLS - 1, .next_recv = FIRST };
	vb_apart_begin(&remote);
	now_ns = 5000000;
	return 0;
}

static void post(uint32_t count)
{
	for (uint32_t i = FIRST; i != FIRST + count; i++)
		atomic_store(&cells[i % CELLS].word, vb_cell_word(i, 0, 0, VB_CELL_POSTED));
}

/* The time after which a sender that missed a receive looks again. */
static uint64_t wait_of_a_miss(void)
{
	uint64_t since_ns = now_ns;

	vb_apart_missed(&remote, now_ns);
	while (vb_apart_waits(&remote, now_ns))
		now_ns += 64;
	return now_ns - since_ns;
}

static void nothing_is_missing_and_nobody_waits(void **state)
{
	(void)state;
	assert_false(vb_apart_waits(&remote, now_ns));
	vb_apart_found(&remote);
	assert_int_equal(remote.apart.distance, QUARTER);
}

static void a_sender_waits_until_a_quarter_of_the_ring_is_posted(void **state)
{
	(void)state;
	vb_apart_missed(&remote, now_ns);
	assert_true(vb_apart_waits(&remote, now_ns));
	post(QUARTER);
	assert_true(vb_apart_waits(&remote, now_ns));
	post(QUARTER + 1);
	assert_false(vb_apart_waits(&remote, now_ns));
	vb_apart_found(&remote);
	assert_int_equal(remote.apart.distance, QUARTER);
	assert_false(vb_apart_waits(&remote, now_ns));
}

static void a_sender_waits_for_a_short_time_only(void **state)
{
	uint64_t wait_ns;

	(void)state;
	post(1);
	wait_ns = wait_of_a_miss();
	assert_in_range(wait_ns, 1, 100000);
	vb_apart_found(&remote);
	assert_int_equal(remote.apart.distance, QUARTER / 2);
	assert_true(wait_of_a_miss() < wait_ns);
}

static void an_owner_that_posts_single_receives_is_not_waited_for(void **state)
{
	(void)state;
	post(1);
	for (int i = 0; i < 8; i++) {
		wait_of_a_miss();
		vb_apart_found(&remote);
	}
	assert_int_equal(remote.apart.distance, 0);
	assert_int_equal(wait_of_a_miss(), 0);
}

static void the_distance_grows_again_up_to_a_quarter(void **state)
{
	(void)state;
	remote.apart.distance = 0;
	post(CELLS / 2);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(wait_of_a_miss(), 0);
		vb_apart_found(&remote);
	}
	assert_int_equal(remote.apart.distance, QUARTER);
}

static void a_receive_of_the_lap_before_is_not_posted(void **state)
{
	const uint32_t far = FIRST + QUARTER;

	(void)state;
	atomic_store(&cells[far % CELLS].word, vb_cell_word(far - CELLS, 0, 0, VB_CELL_POSTED));
	vb_apart_missed(&remote, now_ns);
	assert_true(vb_apart_waits(&remote, now_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_missing_and_nobody_waits, begin),
		cmocka_unit_test_setup(a_sender_waits_until_a_quarter_of_the_ring_is_posted, begin),
		cmocka_unit_test_setup(a_sender_waits_for_a_short_time_only, begin),
		cmocka_unit_test_setup(an_owner_that_posts_single_receives_is_not_waited_for,
				       begin),
		cmocka_unit_test_setup(the_distance_grows_again_up_to_a_quarter, begin),
		cmocka_unit_test_setup(a_receive_of_the_lap_before_is_not_posted, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

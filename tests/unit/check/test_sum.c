/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums over buffers of posted work: which changes show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check/check.h"
#include "check/report.h"
#include "check/watch.h"

enum { LARGE = 65536, HEAD = 128, TAIL = 64, FIRST = 64, WINDOW = 512, STEP = 61 };

static double numbers[LARGE / sizeof(double)];
static uint8_t *const bytes = (uint8_t *)numbers;

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
	for (unsigned i = 0; i < LARGE; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 256);
	return 0;
}

/* Work with this memory, in two pieces. */
static struct vb_work work_of(uint64_t length)
{
	struct vb_work work = { .length = length, .piece_count = 2 };
	const uint64_t half = length / 2;

	work.inside[0].range = vb_range_get((uintptr_t)bytes, half);
	work.inside[1].range = vb_range_get((uintptr_t)bytes + half, length - half);
	return work;
}

static bool shows(const struct vb_work *work, uint64_t at)
{
	bool same;

	bytes[at]++;
	same = vb_sum_send_same(work);
	bytes[at]--;
	return !same;
}

static bool shows_block(const struct vb_work *work, uint64_t at, uint64_t length)
{
	bool same;

	for (uint64_t i = at; i < at + length; i++)
		bytes[i]++;
	same = vb_sum_send_same(work);
	for (uint64_t i = at; i < at + length; i++)
		bytes[i]--;
	return !same;
}

static void each_byte_of_a_send_shows(void **state)
{
	static const uint64_t lengths[] = { 1, 2, 63, 64, 65, 4096, 4097, LARGE };

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct vb_work work = work_of(lengths[i]);
		struct vb_queue queue = { 0 };
		const uint64_t step = lengths[i] > 4096 ? STEP : 1;

		vb_sum_send(&queue, &work);
		assert_true(work.summed && vb_sum_send_same(&work));
		for (uint64_t at = 0; at < lengths[i]; at += step)
			assert_true(shows(&work, at));
		assert_true(shows(&work, lengths[i] - 1));
	}
}

/* Sums of words would not see it: the bit of each sign counts twice. */
static void other_signs_show(void **state)
{
	struct vb_work work = work_of(LARGE);
	struct vb_queue queue = { 0 };

	(void)state;
	vb_sum_send(&queue, &work);
	for (unsigned i = 0; i < LARGE / sizeof(double); i++)
		numbers[i] = -numbers[i];
	assert_false(vb_sum_send_same(&work));
}

static void bytes_that_change_places_show(void **state)
{
	struct vb_work work = work_of(LARGE);
	struct vb_queue queue = { 0 };
	uint8_t line[64];

	(void)state;
	vb_sum_send(&queue, &work);
	memcpy(line, bytes + 1024, sizeof(line));
	memcpy(bytes + 1024, bytes + 2048, sizeof(line));
	memcpy(bytes + 2048, line, sizeof(line));
	assert_false(vb_sum_send_same(&work));
}

static void the_first_long_sends_are_summed_wholly_and_windows_of_later_ones(void **state)
{
	struct vb_work work = work_of(LARGE);
	struct vb_queue queue = { 0 };
	unsigned middle = 0, early = 0, half = 0;

	(void)state;
	for (unsigned i = 0; i < FIRST; i++) {
		vb_sum_send(&queue, &work);
		assert_true(work.whole);
	}
	for (unsigned i = 0; i < 4096; i++) {
		vb_sum_send(&queue, &work);
		assert_false(work.whole);
		assert_true(vb_sum_send_same(&work));
		assert_true(shows(&work, 0) && shows(&work, HEAD - 1));
		assert_true(shows(&work, LARGE - TAIL) && shows(&work, LARGE - 1));
		assert_true(shows(&work, work.window) && shows(&work, work.window + WINDOW - 1));
		middle += shows(&work, LARGE / 2);
		early += shows(&work, HEAD + 1);
		half += shows_block(&work, LARGE / 4, LARGE / 2);
	}
	/* A byte: one time in 127; half of the bytes: every other time. */
	assert_in_range(middle, 4096 / 128 / 2, 4096 / 128 * 2);
	assert_true(early > 0);
	assert_in_range(half, 4096 / 2 - 300, 4096 / 2 + 300);
}

static void equal_changes_of_all_bytes_show(void **state)
{
	(void)state;
	for (uint64_t length = 32; length <= LARGE; length *= 2) {
		for (unsigned bit = 0; bit < 8; bit++) {
			struct vb_work work = work_of(length);
			struct vb_queue queue = { 0 };

			memset(bytes, 0, length);
			vb_sum_send(&queue, &work);
			memset(bytes, 1 << bit, length);
			assert_false(vb_sum_send_same(&work));
			for (uint64_t at = 0; at < length; at++)
				bytes[at] = at % 8 == 7 ? 1 << bit : 0;
			assert_false(vb_sum_send_same(&work));
		}
	}
}

static void short_sends_are_always_summed_wholly(void **state)
{
	struct vb_work work = work_of(4096);
	struct vb_queue queue = { .long_count = 2 * FIRST };

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		vb_sum_send(&queue, &work);
		assert_true(work.whole);
	}
}

/* --- receives --- */

static bool shows_behind(const struct vb_work *work, uint64_t filled, uint64_t at)
{
	bool same;

	bytes[at]++;
	same = vb_sum_receive_same(work, filled);
	bytes[at]--;
	return !same;
}

static void writes_behind_a_message_show(void **state)
{
	struct vb_work work = work_of(LARGE);
	struct vb_queue queue = { 0 };

	(void)state;
	vb_sum_receive(&queue, &work);
	assert_true(vb_sum_receive_same(&work, 0));
	for (uint64_t at = 0; at < LARGE; at += STEP)
		assert_true(shows_behind(&work, 0, at));
	assert_false(shows_behind(&work, 100, 99));
	assert_true(shows_behind(&work, 100, 512));
	assert_true(shows_behind(&work, 4096, 4096));
	assert_true(shows_behind(&work, 4097, LARGE - 1));
	assert_false(shows_behind(&work, LARGE, LARGE - 1));
}

static void a_message_covers_writes(void **state)
{
	static const uint64_t lengths[] = { 1, 64, 100, 1000, 5000, LARGE };

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct vb_work work = work_of(lengths[i]);
		struct vb_queue queue = { .long_count = i % 2 ? 2 * FIRST : 0 };

		vb_sum_receive(&queue, &work);
		memset(bytes, 0x55, lengths[i]);
		assert_true(vb_sum_receive_same(&work, lengths[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_byte_of_a_send_shows, begin),
		cmocka_unit_test_setup(other_signs_show, begin),
		cmocka_unit_test_setup(bytes_that_change_places_show, begin),
		cmocka_unit_test_setup(
			the_first_long_sends_are_summed_wholly_and_windows_of_later_ones, begin),
		cmocka_unit_test_setup(equal_changes_of_all_bytes_show, begin),
		cmocka_unit_test_setup(short_sends_are_always_summed_wholly, begin),
		cmocka_unit_test_setup(writes_behind_a_message_show, begin),
		cmocka_unit_test_setup(a_message_covers_writes, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The delay line: order, bounds, and packets that wait to be overtaken. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/delay_line.h"

static struct vb_delay_line line;

static int open_line(void **state)
{
	vb_delay_line_init(&line, 8, 100);
	return 0;
}

static int close_line(void **state)
{
	vb_delay_line_fini(&line);
	return line.count || line.bytes;
}

static int push(char name, uint32_t flow, uint64_t due_ns, bool until_overtaken)
{
	struct vb_delay_input input = {
		.bytes = &name,
		.length = 1,
		.flow = flow,
		.due_ns = due_ns,
		.until_overtaken = until_overtaken,
	};

	return vb_delay_push(&line, &input);
}

/* The names of all packets that are due, in order. */
static const char *due(uint64_t now_ns)
{
	static char names[16];
	unsigned count = 0;
	struct vb_delayed *packet;

	while ((packet = vb_delay_pop_due(&line, now_ns))) {
		names[count++] = (char)packet->bytes[0];
		free(packet);
	}
	names[count] = '\0';
	return names;
}

static void packets_leave_when_they_are_due_and_in_that_order(void **state)
{
	assert_true(vb_delay_next_due_ns(&line) == VB_NEVER_NS);
	assert_int_equal(push('c', 0, 300, false), 0);
	assert_int_equal(push('a', 0, 100, false), 0);
	assert_int_equal(push('b', 0, 200, false), 0);
	assert_int_equal(vb_delay_next_due_ns(&line), 100);
	assert_string_equal(due(99), "");
	assert_string_equal(due(200), "ab");
	assert_int_equal(vb_delay_next_due_ns(&line), 300);
	assert_string_equal(due(VB_NEVER_NS), "c");
	assert_string_equal(due(VB_NEVER_NS), "");
}

static void those_due_at_the_same_time_keep_their_order(void **state)
{
	for (char name = 'a'; name < 'f'; name++)
		assert_int_equal(push(name, 0, 50, false), 0);
	assert_string_equal(due(50), "abcde");
}

static void one_that_is_overtaken_leaves_behind_the_overtaker(void **state)
{
	push('a', 1, 1000, true);
	push('b', 2, 1000, true);
	push('c', 1, 1000, false);
	assert_string_equal(due(10), "");
	vb_delay_pass(&line, 1, 10);
	assert_int_equal(vb_delay_next_due_ns(&line), 10);
	assert_string_equal(due(10), "a"); /* b is of another flow, c is only late */
	assert_string_equal(due(1000), "bc");
}

static void one_that_nobody_overtakes_leaves_in_the_end(void **state)
{
	push('a', 1, 1000, true);
	vb_delay_pass(&line, 2, 10);
	assert_string_equal(due(999), "");
	assert_string_equal(due(1000), "a");
}

static void several_held_packets_keep_their_order(void **state)
{
	push('a', 1, 1000, true);
	push('b', 1, 900, true);
	push('x', 9, 5, false);
	vb_delay_pass(&line, 1, 10);
	assert_string_equal(due(10), "xba");
}

static void bytes_and_context_are_copied(void **state)
{
	struct {
		uint64_t where;
		char who[5];
	} context = { 42, "peer" };
	char bytes[] = "payload";
	struct vb_delay_input input = {
		.bytes = bytes,
		.length = sizeof(bytes),
		.context = &context,
		.context_length = sizeof(context),
		.due_ns = 1,
	};
	struct vb_delayed *packet;

	assert_int_equal(vb_delay_push(&line, &input), 0);
	memset(bytes, 0, sizeof(bytes));
	memset(&context, 0, sizeof(context));
	packet = vb_delay_pop_due(&line, 1);
	assert_non_null(packet);
	assert_int_equal(packet->length, sizeof(bytes));
	assert_string_equal((char *)packet->bytes, "payload");
	assert_int_equal(packet->context_length, sizeof(context));
	assert_int_equal((uintptr_t)packet->context % _Alignof(max_align_t), 0);
	memcpy(&context, packet->context, sizeof(context));
	assert_int_equal(context.where, 42);
	assert_string_equal(context.who, "peer");
	free(packet);
}

static void it_takes_no_more_than_it_is_allowed(void **state)
{
	static const char big[101];
	struct vb_delay_input input = { .bytes = big, .length = 101, .due_ns = 1 };

	assert_int_equal(vb_delay_push(&line, &input), -ENOBUFS);
	input.length = 60;
	assert_int_equal(vb_delay_push(&line, &input), 0);
	assert_int_equal(vb_delay_push(&line, &input), -ENOBUFS);
	input.length = 40;
	assert_int_equal(vb_delay_push(&line, &input), 0);
	assert_int_equal(line.refused, 2);
	due(1);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(push('a', 0, 1, false), 0);
	assert_int_equal(push('b', 0, 1, false), -ENOBUFS);
	assert_string_equal(due(1), "aaaaaaaa");
	assert_int_equal(push('b', 0, 1, false), 0);
}

static void what_is_left_is_freed_with_it(void **state)
{
	push('a', 0, 1, false);
	push('b', 0, 2, true); /* the leak checker looks */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_line, close_line)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(packets_leave_when_they_are_due_and_in_that_order),
		TEST(those_due_at_the_same_time_keep_their_order),
		TEST(one_that_is_overtaken_leaves_behind_the_overtaker),
		TEST(one_that_nobody_overtakes_leaves_in_the_end),
		TEST(several_held_packets_keep_their_order),
		TEST(bytes_and_context_are_copied),
		TEST(it_takes_no_more_than_it_is_allowed),
		TEST(what_is_left_is_freed_with_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* VERBENA_EXPLAIN. The setting is read once, so each case is a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../child.h"
#include "base/log.h"

static void set_explain(const char *value)
{
	if (value)
		setenv("VERBENA_EXPLAIN", value, 1);
	else
		unsetenv("VERBENA_EXPLAIN");
}

static int says_hello(const void *value)
{
	set_explain(value);
	vb_explain("QP %d says %s", 17, "hello");
	return 0;
}

static void without_the_setting_nothing_is_printed(void **state)
{
	static const char *const values[] = { NULL, "", "0" };
	char said[1024];

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		assert_int_equal(child_run(says_hello, values[i], said, sizeof(said)), 0);
		assert_string_equal(said, "");
	}
}

static void with_it_one_line_names_the_process_and_the_reason(void **state)
{
	char said[1024], *rest;

	assert_int_equal(child_run(says_hello, "1", said, sizeof(said)), 0);
	assert_memory_equal(said, "verbena[", 8);
	assert_true(strtol(said + 8, &rest, 10) > 1);
	assert_string_equal(rest, "]: QP 17 says hello\n");
}

static int is_read_once(const void *arg)
{
	set_explain("0");
	vb_explain("before");
	set_explain("1");
	vb_explain("after");
	return 0;
}

static void the_setting_is_read_once(void **state)
{
	char said[1024];

	assert_int_equal(child_run(is_read_once, NULL, said, sizeof(said)), 0);
	assert_string_equal(said, "");
}

/* Standard error is a pipe that keeps writes apart, so that one read is one write. */
static int writes_once(const void *length)
{
	char text[2048], line[4096];
	int ends[2], said = dup(STDERR_FILENO);
	ssize_t got;

	memset(text, 'x', sizeof(text));
	text[*(const size_t *)length] = '\0';
	set_explain("1");
	child_check(!pipe2(ends, O_DIRECT | O_NONBLOCK) && dup2(ends[1], STDERR_FILENO) >= 0);
	vb_explain("%s", text);
	dup2(said, STDERR_FILENO);
	got = read(ends[0], line, sizeof(line));
	child_check(got > 0 && memchr(line, '\n', (size_t)got) == line + got - 1);
	child_check(!memchr(line, '\0', (size_t)got));
	child_check(read(ends[0], line, sizeof(line)) < 0 && errno == EAGAIN);
	return 0;
}

static void a_line_is_one_write_with_one_newline_however_long(void **state)
{
	static const size_t lengths[] = { 0, 1, 400, 2000 };
	size_t around;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		assert_child_passes(writes_once, &lengths[i]);
	for (around = 485; around <= 512; around++)
		assert_child_passes(writes_once, &around);
}

struct errno_row {
	const char *value;
	int error;
	bool closed; /* there is no standard error */
};

static int keeps_errno(const void *arg)
{
	const struct errno_row *row = arg;
	int said = dup(STDERR_FILENO), after;

	set_explain(row->value);
	if (row->closed)
		close(STDERR_FILENO);
	errno = row->error;
	vb_explain("something failed");
	after = errno;
	dup2(said, STDERR_FILENO);
	child_check(after == row->error);
	return 0;
}

static void errno_is_kept_even_when_there_is_nowhere_to_print(void **state)
{
	static const struct errno_row rows[] = {
		{ NULL, EINVAL, false }, { "1", ENOMEM, false }, { "1", 0, false },
		{ "1", EBUSY, true },    { "1", 0, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_child_passes(keeps_errno, &rows[i]);
}

/* --- sentences that come again --- */

static unsigned count_of(const char *said, const char *text)
{
	unsigned count = 0;

	for (; (said = strstr(said, text)); said += strlen(text))
		count++;
	return count;
}

static int probes_for_a_limit(const void *times)
{
	set_explain("1");
	for (int i = 0; i < *(const int *)times; i++)
		vb_explain("%d bytes exceed the limit %d", 1024 + i, 1024);
	return 0;
}

static void a_sentence_is_printed_the_1st_10th_and_100th_time(void **state)
{
	static const struct {
		int times;
		unsigned lines;
		const char *last;
	} rows[] = {
		{ 1, 1, ": 1024 bytes exceed the limit 1024\n" },
		{ 9, 1, ": 1024 bytes exceed the limit 1024\n" },
		{ 10, 2, ": 1033 bytes exceed the limit 1024 (10 times so far)\n" },
		{ 99, 2, ": 1033 bytes exceed the limit 1024 (10 times so far)\n" },
		{ 100, 3, ": 1123 bytes exceed the limit 1024 (100 times so far)\n" },
		{ 1009, 4, ": 2023 bytes exceed the limit 1024 (1000 times so far)\n" },
	};
	char said[2048];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *end;

		assert_int_equal(child_run(probes_for_a_limit, &rows[i].times, said, sizeof(said)),
				 0);
		assert_int_equal(count_of(said, "exceed"), rows[i].lines);
		assert_true(strlen(said) > strlen(rows[i].last));
		end = said + strlen(said) - strlen(rows[i].last);
		assert_string_equal(end, rows[i].last);
	}
}

static int says_of_each_object(const void *arg)
{
	set_explain("1");
	for (unsigned round = 0; round < 5; round++)
		for (unsigned qpn = 0xa00; qpn < 0xa04; qpn++)
			vb_explain("QP 0x%06x, %s wr_id %u: refused", qpn,
				   round % 2 ? "READ" : "SEND", round);
	return 0;
}

static void words_and_objects_tell_sentences_apart(void **state)
{
	char said[2048];

	assert_int_equal(child_run(says_of_each_object, NULL, said, sizeof(said)), 0);
	assert_int_equal(count_of(said, "SEND"), 4);
	assert_int_equal(count_of(said, "READ"), 4);
	for (char digit = '0'; digit < '4'; digit++) {
		const char name[] = { 'a', '0', digit, ',', '\0' };

		assert_int_equal(count_of(said, name), 2);
	}
}

static int forks_and_says(const void *arg)
{
	int status;

	says_hello("1");
	if (!fork())
		_exit(says_hello("1"));
	child_check(wait(&status) > 0 && !status);
	return says_hello("1");
}

static void a_child_of_fork_says_what_its_parent_has_said(void **state)
{
	char said[1024];

	assert_int_equal(child_run(forks_and_says, NULL, said, sizeof(said)), 0);
	assert_int_equal(count_of(said, "hello\n"), 2);
}

static int says_more_than_is_counted(const void *arg)
{
	set_explain("1");
	for (unsigned object = 0; object < 3000; object++)
		vb_explain("object 0x%x", object);
	vb_explain("the last one");
	return 0;
}

static void nothing_is_kept_back_that_could_not_be_counted(void **state)
{
	static char said[256 * 1024];

	assert_int_equal(child_run(says_more_than_is_counted, NULL, said, sizeof(said)), 0);
	assert_int_equal(count_of(said, "object 0x"), 3000);
	assert_int_equal(count_of(said, "the last one"), 1);
}

static int announces(const void *arg)
{
	set_explain("1");
	for (int i = 0; i < 25; i++)
		vb_explain_each("packet %d is lost", i);
	set_explain("0");
	for (int i = 0; i < 25; i++)
		vb_complain("a setting is wrong");
	return 0;
}

static void events_and_complaints_are_printed_each_time(void **state)
{
	char said[4096];

	assert_int_equal(child_run(announces, NULL, said, sizeof(said)), 0);
	assert_int_equal(count_of(said, "is lost\n"), 25);
	assert_int_equal(count_of(said, "is wrong\n"), 25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_setting_nothing_is_printed),
		cmocka_unit_test(with_it_one_line_names_the_process_and_the_reason),
		cmocka_unit_test(the_setting_is_read_once),
		cmocka_unit_test(a_line_is_one_write_with_one_newline_however_long),
		cmocka_unit_test(errno_is_kept_even_when_there_is_nowhere_to_print),
		cmocka_unit_test(a_sentence_is_printed_the_1st_10th_and_100th_time),
		cmocka_unit_test(words_and_objects_tell_sentences_apart),
		cmocka_unit_test(a_child_of_fork_says_what_its_parent_has_said),
		cmocka_unit_test(nothing_is_kept_back_that_could_not_be_counted),
		cmocka_unit_test(events_and_complaints_are_printed_each_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* VERBENA_EXPLAIN. The setting is read once, so each case is a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>

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
		{ "1", EBUSY, true },	 { "1", 0, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_child_passes(keeps_errno, &rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_setting_nothing_is_printed),
		cmocka_unit_test(with_it_one_line_names_the_process_and_the_reason),
		cmocka_unit_test(the_setting_is_read_once),
		cmocka_unit_test(a_line_is_one_write_with_one_newline_however_long),
		cmocka_unit_test(errno_is_kept_even_when_there_is_nowhere_to_print),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

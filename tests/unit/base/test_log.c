/* SPDX-License-Identifier: BSD-2-Clause */
/* VERBENA_EXPLAIN. The setting is read once, so each case is a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio_ext.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../child.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"

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

/* --- a file, a terminal, the end of the program --- */

/* The end of a program, without the lines of the test that its buffer has inherited. */
static _Noreturn void end(void)
{
	__fpurge(stdout);
	exit(0);
}

static int says_three_times_and_ends(const void *value)
{
	set_explain(value);
	for (int i = 0; i < 3; i++)
		vb_explain("QP 0x000001 refuses request %d", i);
	end();
}

static void the_end_of_the_program_tells_the_last_count(void **state)
{
	char said[1024];

	assert_int_equal(child_run(says_three_times_and_ends, "1", said, sizeof(said)), 0);
	assert_int_equal(count_of(said, "refuses request"), 2);
	assert_non_null(strstr(said, "refuses request 0 (3 times in all)\n"));
}

static void a_program_with_failures_hints_at_explain_if_it_should(void **state)
{
	char said[1024];

	assert_int_equal(child_run(says_three_times_and_ends, "hint", said, sizeof(said)), 0);
	assert_int_equal(count_of(said, "\n"), 1);
	assert_non_null(
		strstr(said, "3 RDMA calls or completions failed: `verbena run --explain`"));
	assert_int_equal(child_run(says_three_times_and_ends, NULL, said, sizeof(said)), 0);
	assert_string_equal(said, "");
}

static int has_no_failure(const void *value)
{
	set_explain(value);
	vb_explain_note("all is well");
	end();
}

static void a_program_without_failures_hints_at_nothing(void **state)
{
	char said[1024];

	assert_int_equal(child_run(has_no_failure, "hint", said, sizeof(said)), 0);
	assert_string_equal(said, "");
	assert_int_equal(child_run(has_no_failure, "1", said, sizeof(said)), 0);
	assert_non_null(strstr(said, "all is well"));
}

static void sentences_are_appended_to_a_file(void **state)
{
	char name[] = "/tmp/verbena-test-log-XXXXXX", said[1024], text[1024];
	const int fd = mkstemp(name);
	ssize_t length;

	assert_true(fd >= 0 && write(fd, "before\n", 7) == 7);
	assert_int_equal(child_run(says_hello, name, said, sizeof(said)), 0);
	assert_string_equal(said, "");
	length = pread(fd, text, sizeof(text) - 1, 0);
	unlink(name);
	close(fd);
	assert_true(length > 0);
	text[length] = '\0';
	assert_memory_equal(text, "before\nverbena[", 15);
	assert_non_null(strstr(text, "]: QP 17 says hello\n"));
}

static void without_the_file_standard_error_takes_its_place(void **state)
{
	char said[1024];

	assert_int_equal(child_run(says_hello, "/nowhere/at/all", said, sizeof(said)), 0);
	assert_non_null(strstr(said, "/nowhere/at/all: No such file or directory"));
	assert_non_null(strstr(said, "QP 17 says hello\n"));
}

/* Standard error is a terminal; what it shows is the result. */
static int says_on_a_terminal(const void *no_color)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY), shown;
	char text[1024];
	ssize_t length;

	child_check(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
	shown = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	child_check(shown >= 0 && dup2(shown, STDERR_FILENO) >= 0);
	setenv("TERM", "xterm", 1);
	if (no_color)
		setenv("NO_COLOR", no_color, 1);
	else
		unsetenv("NO_COLOR");
	says_hello("1");
	length = read(terminal, text, sizeof(text) - 1);
	child_check(length > 0);
	text[length] = '\0';
	child_check(!strchr(text, '\033') == (no_color != NULL));
	child_check(strstr(text, "QP 17 says hello"));
	return 0;
}

static void a_terminal_has_colours_unless_its_user_wants_none(void **state)
{
	assert_child_passes(says_on_a_terminal, NULL);
	assert_child_passes(says_on_a_terminal, "1");
}

static int call_fails(int err, bool explains)
{
	VB_NO_CANCEL;

	if (explains)
		vb_explain("call_fails: it does not like %d", err);
	return vb_return_errno(-err);
}

/* The calls inside say what is wrong; one that cleans up behind them succeeds. */
static int call_of_calls(int err)
{
	VB_NO_CANCEL;
	const int inner = call_fails(err, true);

	call_fails(0, false);
	return vb_return_errno(-inner);
}

static int fails_silently(const void *arg)
{
	set_explain("1");
	child_check(call_fails(EINVAL, false) == EINVAL && errno == EINVAL);
	child_check(call_fails(EAGAIN, false) == EAGAIN);
	child_check(!call_fails(0, false));
	return 0;
}

static void a_call_that_fails_without_a_sentence_gets_a_line(void **state)
{
	char said[1024];

	assert_int_equal(child_run(fails_silently, NULL, said, sizeof(said)), 0);
	assert_non_null(strstr(said, "]: call_fails: Invalid argument (errno 22)\n"));
	assert_null(strchr(strchr(said, '\n') + 1, '\n'));
}

static int fails_with_a_sentence(const void *arg)
{
	set_explain("1");
	call_fails(EINVAL, true);
	call_of_calls(EBUSY);
	return 0;
}

static void a_failure_that_was_explained_gets_no_other_line(void **state)
{
	char said[1024];

	assert_int_equal(child_run(fails_with_a_sentence, NULL, said, sizeof(said)), 0);
	assert_null(strstr(said, "errno"));
}

static int fails_after_a_sentence(const void *arg)
{
	set_explain("1");
	call_fails(EINVAL, true);
	vb_explain_work("QP 17 has failed");
	call_fails(EBUSY, false);
	return 0;
}

static void sentences_of_others_explain_no_call(void **state)
{
	char said[1024];

	assert_int_equal(child_run(fails_after_a_sentence, NULL, said, sizeof(said)), 0);
	assert_non_null(strstr(said, "]: call_fails: Device or resource busy (errno 16)\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_that_fails_without_a_sentence_gets_a_line),
		cmocka_unit_test(a_failure_that_was_explained_gets_no_other_line),
		cmocka_unit_test(sentences_of_others_explain_no_call),
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
		cmocka_unit_test(the_end_of_the_program_tells_the_last_count),
		cmocka_unit_test(a_program_with_failures_hints_at_explain_if_it_should),
		cmocka_unit_test(a_program_without_failures_hints_at_nothing),
		cmocka_unit_test(sentences_are_appended_to_a_file),
		cmocka_unit_test(without_the_file_standard_error_takes_its_place),
		cmocka_unit_test(a_terminal_has_colours_unless_its_user_wants_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of variables, and what their values mean. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/environment.h"

static void set(enum vb_variable variable, const char *value)
{
	if (value)
		setenv(vb_environment_rows[variable].name, value, 1);
	else
		unsetenv(vb_environment_rows[variable].name);
}

static void every_row_is_whole_and_has_a_name_of_its_own(void **state)
{
	for (int i = 0; i < VB_ENV_COUNT; i++) {
		const struct vb_environment_row *row = &vb_environment_rows[i];

		assert_true(row->name && *row->name && row->meaning && *row->meaning);
		assert_true(row->otherwise && *row->otherwise);
		assert_int_equal(!strncmp(row->name, "VERBENA_", 8), i < VB_ENV_OURS);
		for (int other = 0; other < i; other++)
			assert_string_not_equal(row->name, vb_environment_rows[other].name);
	}
}

static void the_first_value_is_the_one_without_the_variable(void **state)
{
	for (int i = 0; i < VB_ENV_COUNT; i++)
		if (vb_environment_rows[i].values[0])
			assert_string_equal(vb_environment_rows[i].values[0],
					    vb_environment_rows[i].otherwise);
}

static void empty_is_not_set_unless_it_is_asked_for(void **state)
{
	set(VB_ENV_DEVICES, NULL);
	assert_null(vb_environment(VB_ENV_DEVICES));
	assert_null(vb_environment_text(VB_ENV_DEVICES));
	set(VB_ENV_DEVICES, "");
	assert_string_equal(vb_environment(VB_ENV_DEVICES), "");
	assert_null(vb_environment_text(VB_ENV_DEVICES));
	set(VB_ENV_DEVICES, "lo");
	assert_string_equal(vb_environment(VB_ENV_DEVICES), "lo");
	assert_string_equal(vb_environment_text(VB_ENV_DEVICES), "lo");
}

static void a_flag_is_anything_but_empty_and_0(void **state)
{
	static const struct {
		const char *text;
		bool value;
	} rows[] = { { NULL, false }, { "", false },  { "0", false },
		     { "1", true },   { "00", true }, { "no", true } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		set(VB_ENV_EXPLAIN, rows[i].text);
		assert_int_equal(vb_environment_flag(VB_ENV_EXPLAIN), rows[i].value);
	}
}

static void a_number_has_the_default_of_its_row(void **state)
{
	static const struct {
		const char *text;
		int value;
	} rows[] = { { NULL, 1000 }, { "", 1000 }, { "20", 20 }, { "0", 0 }, { "soon", 0 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		set(VB_ENV_SOCKETS_WAIT_MS, rows[i].text);
		assert_int_equal(vb_environment_number(VB_ENV_SOCKETS_WAIT_MS), rows[i].value);
	}
	set(VB_ENV_RS_INLINE, NULL);
	assert_int_equal(vb_environment_number(VB_ENV_RS_INLINE), 0);
}

static void a_choice_is_one_of_the_values(void **state)
{
	static const struct {
		const char *text;
		int value;
	} rows[] = { { NULL, 0 },  { "", 0 },           { "auto", 0 },       { "wire", 1 },
		     { "sim", 3 }, { "Wire", -EINVAL }, { "wire ", -EINVAL } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		set(VB_ENV_PATH, rows[i].text);
		assert_int_equal(vb_environment_choice(VB_ENV_PATH), rows[i].value);
	}
}

static void a_list_has_whole_words(void **state)
{
	static const struct {
		const char *text;
		bool has;
	} rows[] = { { NULL, false },          { "", false },          { "+system", true },
		     { "lo,+system", true },   { "+system lo", true }, { ",, +system,\t", true },
		     { "+systems,lo", false }, { "system", false },    { "a+system", false } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		set(VB_ENV_DEVICES, rows[i].text);
		assert_int_equal(vb_environment_has(VB_ENV_DEVICES, VB_WORD_SYSTEM), rows[i].has);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_whole_and_has_a_name_of_its_own),
		cmocka_unit_test(the_first_value_is_the_one_without_the_variable),
		cmocka_unit_test(empty_is_not_set_unless_it_is_asked_for),
		cmocka_unit_test(a_flag_is_anything_but_empty_and_0),
		cmocka_unit_test(a_number_has_the_default_of_its_row),
		cmocka_unit_test(a_choice_is_one_of_the_values),
		cmocka_unit_test(a_list_has_whole_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBENA_PATH, VERBENA_KEYS, VERBENA_LANES and VERBENA_MAP. They are read once, so each case is a
 * process of its own.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../child.h"
#include "base/config.h"

struct row {
	const char *text;
	enum vb_path_choice choice;
	int err;
};

static int is_as_told(const void *arg)
{
	const struct row *row = arg;

	unsetenv("VERBENA_EXPLAIN");
	unsetenv("VERBENA_PATH");
	if (row->text)
		setenv("VERBENA_PATH", row->text, 1);
	child_check(vb_config_path() == row->choice);
	child_check(vb_config_check() == row->err);
	child_check(vb_config_check() == row->err);
	return 0;
}

static void a_path_is_chosen_by_its_name(void **state)
{
	static const struct row rows[] = {
		{ NULL, VB_PATH_AUTO, 0 },   { "", VB_PATH_AUTO, 0 },   { "wire", VB_PATH_WIRE, 0 },
		{ "slot", VB_PATH_SLOT, 0 }, { "sim", VB_PATH_SIM, 0 },
	};
	char said[1024];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(child_run(is_as_told, &rows[i], said, sizeof(said)), 0);
		assert_string_equal(said, "");
	}
}

static void another_name_is_an_error_that_is_said_once(void **state)
{
	static const char *const texts[] = { "Wire", "wire ", "udp", "0" };
	char said[1024], wanted[128];

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		const struct row row = { texts[i], VB_PATH_AUTO, -EINVAL };
		const char *line;

		assert_int_equal(child_run(is_as_told, &row, said, sizeof(said)), 0);
		snprintf(wanted, sizeof(wanted),
			 "VERBENA_PATH is '%s', which is none of auto, wire, slot and sim\n",
			 texts[i]);
		line = strstr(said, wanted);
		assert_non_null(line);
		assert_string_equal(line, wanted);
	}
}

static int keys_are_distinct(const void *text)
{
	unsetenv("VERBENA_EXPLAIN");
	unsetenv("VERBENA_PATH");
	setenv("VERBENA_KEYS", text, 1);
	if (vb_config_check() == -EINVAL)
		return 2;
	return vb_config_distinct_keys();
}

enum { SAID = 1024 };

static int keys_of(const char *text, char said[SAID])
{
	int status = child_run(keys_are_distinct, text, said, SAID);

	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void keys_are_equal_unless_told_otherwise(void **state)
{
	char said[SAID];

	assert_int_equal(keys_of("", said), 0);
	assert_int_equal(keys_of("equal", said), 0);
	assert_int_equal(keys_of("distinct", said), 1);
	assert_string_equal(said, "");
	assert_int_equal(keys_of("Distinct", said), 2);
	assert_non_null(
		strstr(said, "VERBENA_KEYS is 'Distinct', which is neither equal nor distinct\n"));
}

struct lanes_row {
	const char *text;
	unsigned lanes;
	int err;
};

static int lanes_are_as_told(const void *arg)
{
	const struct lanes_row *row = arg;

	unsetenv("VERBENA_EXPLAIN");
	unsetenv("VERBENA_LANES");
	if (row->text)
		setenv("VERBENA_LANES", row->text, 1);
	child_check(vb_config_lanes() == row->lanes);
	child_check(vb_config_check() == row->err);
	child_check(vb_config_check() == row->err);
	return 0;
}

static void lanes_are_a_number(void **state)
{
	static const struct lanes_row rows[] = {
		{ NULL, 0, 0 },        { "", 0, 0 },          { "1", 1, 0 },
		{ "16", 16, 0 },       { "0", 0, -EINVAL },   { "17", 0, -EINVAL },
		{ "2 ", 0, -EINVAL },  { "all", 0, -EINVAL }, { "-1", 0, -EINVAL },
		{ "1.5", 0, -EINVAL },
	};
	char said[1024], wanted[128];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		snprintf(wanted, sizeof(wanted),
			 "VERBENA_LANES is '%s', which is no number from 1 to 16\n", rows[i].text);
		assert_int_equal(child_run(lanes_are_as_told, &rows[i], said, sizeof(said)), 0);
		if (rows[i].err)
			assert_non_null(strstr(said, wanted));
		else
			assert_string_equal(said, "");
	}
}

struct map_row {
	const char *devices;
	enum vb_map_choice choice;
};

static int maps_as_told(const void *arg)
{
	const struct map_row *row = arg;

	setenv("VERBENA_MAP", "always", 1);
	unsetenv("VERBENA_DEVICES");
	if (row->devices)
		setenv("VERBENA_DEVICES", row->devices, 1);
	child_check(vb_config_map() == row->choice);
	return 0;
}

/* Their NICs keep the physical pages of regions, which a mapping would change. */
static void nothing_is_mapped_beside_devices_of_the_host(void **state)
{
	static const struct map_row rows[] = {
		{ NULL, VB_MAP_ALWAYS },
		{ "lo", VB_MAP_ALWAYS },
		{ "lo,+system", VB_MAP_OFF },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_child_passes(maps_as_told, &rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_chosen_by_its_name),
		cmocka_unit_test(another_name_is_an_error_that_is_said_once),
		cmocka_unit_test(keys_are_equal_unless_told_otherwise),
		cmocka_unit_test(lanes_are_a_number),
		cmocka_unit_test(nothing_is_mapped_beside_devices_of_the_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

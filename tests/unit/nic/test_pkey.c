/* SPDX-License-Identifier: BSD-2-Clause */
/* P_Keys: which of them fit, and how the table is read. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../child.h"
#include "nic/pkey.h"

static void partitions_and_members(void **state)
{
	assert_true(vb_pkey_fits(0xffff, 0xffff));
	assert_true(vb_pkey_fits(0xffff, 0x7fff));
	assert_true(vb_pkey_fits(0x7fff, 0xffff));
	assert_false(vb_pkey_fits(0x7fff, 0x7fff));
	assert_true(vb_pkey_fits(0x8001, 0x0001));
	assert_false(vb_pkey_fits(0x8001, 0x8002));
	assert_false(vb_pkey_fits(0xffff, 0x8001));
	assert_false(vb_pkey_fits(0, 0));
	assert_false(vb_pkey_fits(0x8000, 0x8000));
	assert_false(vb_pkey_fits(0x8000, 0));
}

static const struct {
	const char *text;
	unsigned count; /* 0: refused ... */
	uint16_t first, last;
	const char *why; /* ... with these words */
} rows[] = {
	{ "0xffff", 1, 0xffff, 0xffff },
	{ "0xffff,0x8001,0x0002", 3, 0xffff, 2 },
	{ " 0x8001\n32770\t", 2, 0x8001, 0x8002 },
	{ "1,,2,", 2, 1, 2 },
	{ "", 0, .why = "no P_Key" },
	{ " ,\n", 0, .why = "no P_Key" },
	{ "ffff", 0, .why = "'ffff' is no P_Key" },
	{ "0xffff,0x10000", 0, .why = "'0x10000' is no P_Key" },
	{ "-1", 0, .why = "'-1' is no P_Key" },
	{ "0xffff;0x8001", 0, .why = "is no P_Key" },
	{ "0xffff,0x8000", 0, .why = "'0x8000' names no partition" },
	{ "0", 0, .why = "'0' names no partition" },
	{ "99999999999999999999999", 0, .why = "is no P_Key" },
};

static void lists(void **state)
{
	uint16_t keys[VB_PKEYS_MAX];
	char why[VB_PKEY_WHY_MAX];
	unsigned count;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const int err = vb_pkey_parse(rows[i].text, keys, &count, why);

		assert_int_equal(err, rows[i].count ? 0 : -EINVAL);
		if (err) {
			assert_non_null(strstr(why, rows[i].why));
			continue;
		}
		assert_int_equal(count, rows[i].count);
		assert_int_equal(keys[0], rows[i].first);
		assert_int_equal(keys[count - 1], rows[i].last);
		for (unsigned k = count; k < VB_PKEYS_MAX; k++)
			assert_int_equal(keys[k], 0);
	}
}

static void as_many_as_there_is_room_for(void **state)
{
	char text[8 * (VB_PKEYS_MAX + 1)] = "", why[VB_PKEY_WHY_MAX];
	uint16_t keys[VB_PKEYS_MAX];
	unsigned count;

	for (int i = 1; i <= VB_PKEYS_MAX; i++)
		sprintf(text + strlen(text), "%d,", i);
	assert_int_equal(vb_pkey_parse(text, keys, &count, why), 0);
	assert_int_equal(count, VB_PKEYS_MAX);
	strcat(text, "77");
	assert_int_equal(vb_pkey_parse(text, keys, &count, why), -EINVAL);
	assert_non_null(strstr(why, "'77'"));
}

/* --- the environment, each in a process of its own: it is read once --- */

static int without_variables(const void *arg)
{
	child_check(!vb_pkey_load() && vb_pkey_table_length() == 1);
	child_check(vb_pkey_at(0) == 0xffff && vb_pkey_index(0xffff) == 0 && !vb_pkey_file());
	child_check(vb_pkey_index(0x7fff) == -EINVAL && vb_pkey_index_of(0x7fff) == 0);
	child_check(vb_pkey_index_of(0x8001) == -EINVAL && !vb_pkey_reload());
	return 0;
}

static int with_a_list(const void *arg)
{
	setenv("VERBENA_PKEYS", "0x7fff,0x0005,0x8005", 1);
	child_check(!vb_pkey_load() && vb_pkey_table_length() == 3);
	setenv("VERBENA_PKEYS", "bad", 1); /* too late */
	child_check(!vb_pkey_load() && vb_pkey_at(1) == 5);
	child_check(vb_pkey_index(5) == 1 && vb_pkey_index(0x8005) == 2);
	/* Full members first. */
	child_check(vb_pkey_index_of(5) == 2 && vb_pkey_index_of(0xffff) == 0);
	return 0;
}

static int with_a_bad_list(const void *arg)
{
	setenv("VERBENA_PKEYS", "0xffff,oops", 1);
	child_check(vb_pkey_load() == -EINVAL && vb_pkey_load() == -EINVAL);
	return 0;
}

static int with_no_such_file(const void *arg)
{
	setenv("VERBENA_PKEYS_FILE", "/nonexistent/pkeys", 1);
	child_check(vb_pkey_load() == -EINVAL && !vb_pkey_file());
	return 0;
}

static int with_a_file(const void *arg)
{
	char path[] = "/tmp/verbena-test-pkeys-XXXXXX";
	const int fd = mkstemp(path);

	child_check(fd >= 0 && write(fd, "0x8001\n0x8002\n", 14) == 14);
	setenv("VERBENA_PKEYS", "0x9999", 1); /* the file comes first */
	setenv("VERBENA_PKEYS_FILE", path, 1);
	child_check(!vb_pkey_load() && vb_pkey_table_length() == VB_PKEYS_MAX);
	child_check(vb_pkey_at(0) == 0x8001 && vb_pkey_at(1) == 0x8002 && !vb_pkey_at(2));
	child_check(!vb_pkey_reload()); /* the same */
	child_check(!ftruncate(fd, 6) && vb_pkey_reload() && !vb_pkey_at(1));
	child_check(!ftruncate(fd, 2) && !vb_pkey_reload() && vb_pkey_at(0) == 0x8001);
	child_check(!unlink(path) && !vb_pkey_reload() && vb_pkey_at(0) == 0x8001);
	close(fd);
	return 0;
}

static void environment(void **state)
{
	static int (*const cases[])(const void *) = { without_variables, with_a_list,
						      with_a_bad_list, with_no_such_file,
						      with_a_file };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_child_passes(cases[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(partitions_and_members),
		cmocka_unit_test(lists),
		cmocka_unit_test(as_many_as_there_is_room_for),
		cmocka_unit_test(environment),
	};

	unsetenv("VERBENA_PKEYS");
	unsetenv("VERBENA_PKEYS_FILE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}

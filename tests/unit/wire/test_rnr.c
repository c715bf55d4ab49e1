/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "wire/rnr.h"

/* IBA table 45, in units of 10 us. */
static const uint32_t table[32] = {
	65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
	48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static void codes_last_as_long_as_the_table_says(void **state)
{
	for (uint8_t code = 0; code < 32; code++)
		assert_int_equal(vb_rnr_timer_ns(code), table[code] * 10000ull);
}

static void only_five_bits_count(void **state)
{
	assert_int_equal(vb_rnr_timer_ns(0x20 | 12), 640000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_last_as_long_as_the_table_says),
		cmocka_unit_test(only_five_bits_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A world follows from its seed alone, whatever worlds there were before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

enum { FIRST = 20, WORLDS = 60 };

static struct world_stats course_of(uint64_t seed)
{
	struct world_stats stats = { 0 };
	char failure[400];

	if (!world_run(seed, false, &stats, failure, sizeof(failure)))
		fail_msg("world %llu: %s", (unsigned long long)seed, failure);
	return stats;
}

static void worlds_do_not_know_of_each_other(void **state)
{
	static struct world_stats before[WORLDS];

	(void)state;
	for (unsigned i = 0; i < WORLDS; i++)
		before[i] = course_of(FIRST + i);
	for (unsigned i = WORLDS; i-- > 0;) {
		const struct world_stats again = course_of(FIRST + i);

		assert_memory_equal(&before[i], &again, sizeof(again));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(worlds_do_not_know_of_each_other) };
	const int failed = cmocka_run_group_tests(tests, NULL, NULL);

	network_fini();
	return failed;
}

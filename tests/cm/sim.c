/* SPDX-License-Identifier: BSD-2-Clause */
/* Worlds of processes that connect; ../sim/driver.h has the options. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>

#include "../sim/driver.h"

enum { SELF_CHECKS = 300 };

static struct stats stats;

static bool run(uint64_t seed, bool verbose, char *failure, size_t size)
{
	return world_run(seed, verbose, SABOTAGE_NONE, &stats, failure, size);
}

static void summary(const char *prefix, unsigned failures, double took_s)
{
	printf("%s%" PRIu64 " worlds, %u failed, %.0f a second; %" PRIu64 " attempts: %" PRIu64
	       " established, %" PRIu64 " disconnected sides, %" PRIu64 " rejected (%" PRIu64
	       " stale), %" PRIu64 " unreachable, %" PRIu64 " SIDR answers\n%s%" PRIu64
	       " messages, %" PRIu64 " lost, %" PRIu64 " said again; %" PRIu64 " crashes, %" PRIu64
	       " sides left alone; %.0f hours of virtual time\n",
	       prefix, stats.worlds, failures, (double)stats.worlds / took_s, stats.attempts,
	       stats.established, stats.disconnected, stats.rejected, stats.stale,
	       stats.unreachable, stats.sidr_answered, prefix, stats.messages, stats.lost,
	       stats.resent, stats.crashes, stats.widowed, (double)stats.virtual_ns / 3.6e12);
}

/* Of the worlds of each kind of sabotage some must fail. */
static unsigned self_check(void)
{
	static const char *const names[SABOTAGES] = {
		[SABOTAGE_RTU] = "no RTU arrives",
		[SABOTAGE_DREQ] = "no DREQ arrives",
		[SABOTAGE_REJ] = "no REJ arrives",
		[SABOTAGE_DATA] = "the private data of a REP arrives changed",
	};
	unsigned failures = 0;
	char failure[256];

	printf("1..%d\n", SABOTAGES - 1);
	for (unsigned i = 1; i < SABOTAGES; i++) {
		unsigned noticed = 0;

		for (uint64_t seed = 1; seed <= SELF_CHECKS; seed++)
			noticed += !world_run(seed, false, i, &stats, failure, sizeof(failure));
		printf("%sok %u - noticed in %u of %d worlds: %s\n", noticed ? "" : "not ", i,
		       noticed, SELF_CHECKS, names[i]);
		failures += !noticed;
	}
	return failures;
}

int main(int argc, char **argv)
{
	static const struct driver driver = {
		.batch = 5000, .run = run, .summary = summary, .self_check = self_check
	};

	return driver_main(argc, argv, &driver);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Worlds of hosts with QPs; driver.h has the options. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>

#include "driver.h"

static struct world_stats stats;

static bool run(uint64_t seed, bool verbose, char *failure, size_t size)
{
	return world_run(seed, verbose, &stats, failure, size);
}

static void summary(const char *prefix, unsigned failures, double took_s)
{
	printf("%s%" PRIu64 " worlds, %u failed, %.0f a second; %" PRIu64 " operations, %" PRIu64
	       " packets for %" PRIu64 " useful ones\n%s%" PRIu64 " QPs failed, %" PRIu64
	       " packets sent again, %" PRIu64 " timeouts, %" PRIu64 " sequence NAKs, %" PRIu64
	       " RNR NAKs, %" PRIu64 " implied NAKs, %" PRIu64 " CNPs, %.1f s of virtual time\n",
	       prefix, stats.worlds, failures, (double)stats.worlds / took_s, stats.ops,
	       stats.packets, stats.useful, prefix, stats.failed_qps, stats.retransmits,
	       stats.timeouts, stats.naks, stats.rnrs, stats.implied, stats.cnps,
	       (double)stats.virtual_ns * 1e-9);
	printf("%sfirst failure of send queues, by status:", prefix);
	for (unsigned i = 0; i < 32; i++)
		if (stats.statuses[i])
			printf(" %u: %" PRIu64, i, stats.statuses[i]);
	putchar('\n');
}

int main(int argc, char **argv)
{
	static const struct driver driver = {
		.batch = 1000, .run = run, .summary = summary, .lanes = world_lanes
	};
	const int status = driver_main(argc, argv, &driver);

	network_fini();
	return status;
}

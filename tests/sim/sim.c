/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *   sim [--seed S] [--worlds N] [--seconds T] [-v]   one line per world that fails, and a summary
 *   sim --tap [--seed S] [--worlds N]                one test per 1,000 worlds
 */
#include "sim.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 1000, FAILURES_SHOWN = 20 };

struct options {
	uint64_t seed, worlds;
	double seconds; /* 0: no limit */
	bool verbose, tap;
	const char *seeds; /* file of seeds that failed once */
	const char *self;
};

static struct world_stats stats;
static unsigned failures;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool run(const struct options *options, uint64_t seed)
{
	char failure[400];

	if (world_run(seed, options->verbose, &stats, failure, sizeof(failure)))
		return true;
	if (failures++ < FAILURES_SHOWN)
		printf("%sworld %" PRIu64 ": %s   (%s --seed %" PRIu64 " --worlds 1 -v)\n",
		       options->tap ? "# " : "", seed, failure, options->self, seed);
	fflush(stdout);
	return false;
}

/* Seeds that failed once come first. */
static unsigned run_past(const struct options *options)
{
	FILE *file = options->seeds ? fopen(options->seeds, "r") : NULL;
	unsigned failed = 0;
	char line[200];

	if (options->seeds && !file) {
		perror(options->seeds);
		exit(2);
	}
	while (file && fgets(line, sizeof(line), file))
		if (line[0] >= '0' && line[0] <= '9')
			failed += !run(options, strtoull(line, NULL, 10));
	if (file)
		fclose(file);
	return failed;
}

static void summary(double took_s)
{
	printf("%" PRIu64 " worlds, %u failed, %.0f a second; %" PRIu64 " operations, %" PRIu64
	       " packets for %" PRIu64 " useful ones\n%" PRIu64 " QPs failed, %" PRIu64
	       " packets sent again, %" PRIu64 " timeouts, %" PRIu64 " sequence NAKs, %" PRIu64
	       " RNR NAKs, %" PRIu64 " implied NAKs, %" PRIu64 " CNPs, %.1f s of virtual time\n",
	       stats.worlds, failures, (double)stats.worlds / took_s, stats.ops, stats.packets,
	       stats.useful, stats.failed_qps, stats.retransmits, stats.timeouts, stats.naks,
	       stats.rnrs, stats.implied, stats.cnps, (double)stats.virtual_ns * 1e-9);
	printf("first failure of send queues, by status:");
	for (unsigned i = 0; i < 32; i++)
		if (stats.statuses[i])
			printf(" %u: %" PRIu64, i, stats.statuses[i]);
	putchar('\n');
}

static void run_tap(const struct options *options)
{
	unsigned batches = (unsigned)((options->worlds + BATCH - 1) / BATCH);

	printf("1..%u\n", batches + 1);
	printf("%sok 1 - seeds of past failures\n", run_past(options) ? "not " : "");
	for (unsigned i = 0; i < batches; i++) {
		unsigned before = failures;

		for (unsigned k = 0; k < BATCH && i * BATCH + k < options->worlds; k++)
			run(options, options->seed + i * BATCH + k);
		printf("%sok %u - worlds from seed %" PRIu64 " on\n",
		       failures > before ? "not " : "", i + 2, options->seed + i * BATCH);
		fflush(stdout);
	}
}

static void run_plain(const struct options *options)
{
	double begin_s = now_s();

	run_past(options);
	for (uint64_t i = 0; i < options->worlds; i++) {
		run(options, options->seed + i);
		if (options->seconds && now_s() - begin_s > options->seconds)
			break;
	}
	summary(now_s() - begin_s);
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "worlds", required_argument, NULL, 'w' },
		{ "seconds", required_argument, NULL, 't' },
		{ "seeds", required_argument, NULL, 'f' },
		{ "tap", no_argument, NULL, 'T' },
		{ "verbose", no_argument, NULL, 'v' },
		{ 0 },
	};
	bool worlds = false;
	int c;

	while ((c = getopt_long(argc, argv, "v", known, NULL)) != -1) {
		switch (c) {
		case 's':
			options->seed = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			options->worlds = strtoull(optarg, NULL, 0);
			worlds = true;
			break;
		case 't':
			options->seconds = strtod(optarg, NULL);
			break;
		case 'f':
			options->seeds = optarg;
			break;
		case 'T':
			options->tap = true;
			break;
		case 'v':
			options->verbose = true;
			break;
		default:
			exit(2);
		}
	}
	if (options->seconds && !worlds)
		options->worlds = UINT64_MAX;
}

int main(int argc, char **argv)
{
	struct options options = { .seed = 1, .worlds = 1000, .self = argv[0] };

	parse(argc, argv, &options);
	if (options.tap)
		run_tap(&options);
	else
		run_plain(&options);
	network_fini();
	return failures != 0;
}

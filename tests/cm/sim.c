/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *   cm-sim [--seed S] [--worlds N] [--seconds T] [-v]   one line per world that fails, a summary
 *   cm-sim --tap [--seed S] [--worlds N]                one test per 5,000 worlds
 *   cm-sim --self-check                                 does the oracle notice what is wrong?
 */
#include "sim.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 5000, FAILURES_SHOWN = 20 };

struct options {
	uint64_t seed, worlds;
	double seconds; /* 0: no limit */
	bool verbose, tap, self_check;
	const char *seeds; /* file of seeds that failed once */
	const char *self;
};

static struct stats stats;
static unsigned failures;

static double now_s(void)
{
	return (double)vb_now_ns() * 1e-9;
}

static bool run(const struct options *options, uint64_t seed)
{
	char failure[256];

	if (world_run(seed, options->verbose, SABOTAGE_NONE, &stats, failure, sizeof(failure)))
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

static void summary(const char *prefix, double took_s)
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

static void run_tap(const struct options *options)
{
	unsigned batches = (unsigned)((options->worlds + BATCH - 1) / BATCH);
	double begin_s = now_s();

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
	summary("# ", now_s() - begin_s);
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
	summary("", now_s() - begin_s);
}

/* 300 worlds of each kind of sabotage: some of them must fail. */
static void run_self_check(void)
{
	static const char *const names[SABOTAGES] = {
		[SABOTAGE_RTU] = "no RTU arrives",
		[SABOTAGE_DREQ] = "no DREQ arrives",
		[SABOTAGE_REJ] = "no REJ arrives",
		[SABOTAGE_DATA] = "the private data of a REP arrives changed",
	};
	char failure[256];

	printf("1..%d\n", SABOTAGES - 1);
	for (unsigned i = 1; i < SABOTAGES; i++) {
		unsigned noticed = 0;

		for (uint64_t seed = 1; seed <= 300; seed++)
			noticed += !world_run(seed, false, i, &stats, failure, sizeof(failure));
		printf("%sok %u - noticed in %u of 300 worlds: %s\n", noticed ? "" : "not ", i,
		       noticed, names[i]);
		failures += !noticed;
	}
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
		{ "self-check", no_argument, NULL, 'c' },
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
		case 'c':
			options->self_check = true;
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
	if (options.self_check)
		run_self_check();
	else if (options.tap)
		run_tap(&options);
	else
		run_plain(&options);
	return failures != 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FAILURES_SHOWN = 20, FAILURE_SIZE = 400 };

struct options {
	uint64_t seed, worlds;
	double seconds; /* 0: no limit */
	bool verbose, tap, self_check;
	const char *seeds; /* file of seeds that failed once */
	const char *self;
	unsigned lanes; /* 0: as the driver likes */
};

static const struct driver *driver;
static unsigned failures;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool run(const struct options *options, uint64_t seed)
{
	char failure[FAILURE_SIZE], lanes[24] = "";

	if (driver->run(seed, options->verbose, failure, sizeof(failure)))
		return true;
	if (options->lanes)
		snprintf(lanes, sizeof(lanes), " --lanes %u", options->lanes);
	if (failures++ < FAILURES_SHOWN)
		printf("%sworld %" PRIu64 ": %s   (%s%s --seed %" PRIu64 " --worlds 1 -v)\n",
		       options->tap ? "# " : "", seed, failure, options->self, lanes, seed);
	fflush(stdout);
	return false;
}

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

static void run_batch(const struct options *options, unsigned number)
{
	const uint64_t first = (uint64_t)number * driver->batch;
	const unsigned before = failures;

	for (uint64_t i = first; i < first + driver->batch && i < options->worlds; i++)
		run(options, options->seed + i);
	printf("%sok %u - worlds from seed %" PRIu64 " on\n", failures > before ? "not " : "",
	       number + 2, options->seed + first);
	fflush(stdout);
}

static void run_tap(const struct options *options)
{
	const unsigned batches = (unsigned)((options->worlds + driver->batch - 1) / driver->batch);
	const double begin_s = now_s();

	printf("1..%u\n", batches + 1);
	printf("%sok 1 - seeds of past failures\n", run_past(options) ? "not " : "");
	for (unsigned i = 0; i < batches; i++)
		run_batch(options, i);
	driver->summary("# ", failures, now_s() - begin_s);
}

static void run_plain(const struct options *options)
{
	const double begin_s = now_s();

	run_past(options);
	for (uint64_t i = 0; i < options->worlds; i++) {
		run(options, options->seed + i);
		if (options->seconds && now_s() - begin_s > options->seconds)
			break;
	}
	driver->summary("", failures, now_s() - begin_s);
}

static void take_option(struct options *options, int c)
{
	switch (c) {
	case 's':
		options->seed = strtoull(optarg, NULL, 0);
		break;
	case 'w':
		options->worlds = strtoull(optarg, NULL, 0);
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
	case 'l':
		options->lanes = (unsigned)strtoul(optarg, NULL, 0);
		if (driver->lanes && options->lanes) {
			driver->lanes(options->lanes);
			break;
		}
		exit(2);
	case 'c':
		options->self_check = driver->self_check;
		if (options->self_check)
			break;
		/* fall through */
	default:
		exit(2);
	}
}

static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "worlds", required_argument, NULL, 'w' },
		{ "seconds", required_argument, NULL, 't' },
		{ "seeds", required_argument, NULL, 'f' },
		{ "tap", no_argument, NULL, 'T' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "lanes", required_argument, NULL, 'l' },
		{ "self-check", no_argument, NULL, 'c' },
		{ 0 },
	};
	struct options options = { .seed = 1, .self = argv[0] };
	int c;

	while ((c = getopt_long(argc, argv, "v", known, NULL)) != -1)
		take_option(&options, c);
	if (!options.worlds)
		options.worlds = options.seconds ? UINT64_MAX : 1000;
	return options;
}

int driver_main(int argc, char **argv, const struct driver *chosen)
{
	struct options options;

	driver = chosen;
	options = parse(argc, argv);
	if (options.self_check)
		failures += driver->self_check();
	else if (options.tap)
		run_tap(&options);
	else
		run_plain(&options);
	return failures != 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many hosts on one switch, see scale.h:
 *
 *   sim-scale [--seed S] [--seconds T] [--rules NAME] [--only TEXT] [--csv FILE]
 *             [--mtu B] [--rate MBPS] [--buffer KB] [--delay NS] [--marks FROM,ALL,PPM] [--ms T]
 *   sim-scale --tap       a few scenarios, for a short time: the promises as tests
 *
 * The first form goes through all scenarios and rules, with further seeds while there is time, and
 * fails if a promise is broken.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report.h"
#include "rules.h"

enum { SCENARIOS_MAX = 32 };

struct options {
	uint64_t seed;
	double seconds;
	int rules; /* -1: all */
	const char *only, *csv;
	bool tap;
	struct network_plan plan;
	struct timetable times;
};

/* What is promised of our rules. */
static const double goodput_least = 0.9, fairness_least = 0.95;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool is_promised(const char *name)
{
	return !strncmp(name, "incast", 6) || !strncmp(name, "all-to-all", 10) ||
	       !strncmp(name, "loss", 4) || !strcmp(name, "late 20 %");
}

static bool is_kept(const struct scenario *scenario, const struct figures *figures)
{
	return !figures->retry_exceeded &&
	       (!is_promised(scenario->name) ||
		(figures->share[0] >= goodput_least && figures->fairness[0] >= fairness_least));
}

/* --- tests --- */

static const char *const tested[] = { "incast 2",     "incast 16",     "incast 256",
				      "near and far", "slow receiver", "loss 0.1 %",
				      "loss 1 %",     "late 20 %",     "all-to-all 16" };

static unsigned index_of(const char *name)
{
	unsigned index = 0;

	while (index < scenario_count() && strcmp(scenario_name(index), name))
		index++;
	if (index == scenario_count())
		abort();
	return index;
}

static int run_tap(const struct options *options)
{
	enum { COUNT = sizeof(tested) / sizeof(tested[0]) };
	unsigned failed = 0;

	printf("1..%u\n", (unsigned)COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		struct scenario scenario;
		const struct figures figures =
			measure(index_of(tested[i]), RULES_OWN, &options->plan, &options->times,
				options->seed, &scenario);
		const bool kept = is_kept(&scenario, &figures);

		failed += !kept;
		printf("%sok %u - %s%s\n", kept ? "" : "not ", i + 1, tested[i],
		       is_promised(tested[i]) ? ": link full, flows equal, no QP fails"
					      : ": no QP fails");
		printf("# goodput %.3f, fairness %.3f, RETRY_EXC %llu, %.2f s\n", figures.share[0],
		       figures.fairness[0], (unsigned long long)figures.retry_exceeded,
		       figures.took_s);
		fflush(stdout);
	}
	return failed != 0;
}

/* --- the table --- */

static struct result results[SCENARIOS_MAX][RULES_COUNT];
static unsigned broken;

/* "incast 2" is not a part of "incast 256". */
static bool is_named(const char *name, const char *text)
{
	const char *at = strstr(name, text);

	return at && (at[strlen(text)] < '0' || at[strlen(text)] > '9');
}

static bool is_chosen(const struct options *options, unsigned scenario, unsigned rules)
{
	return (options->rules < 0 || (unsigned)options->rules == rules) &&
	       (!options->only || is_named(scenario_name(scenario), options->only));
}

static void run_one(const struct options *options, unsigned index, unsigned rules, uint64_t seed)
{
	struct scenario scenario;
	const struct figures figures =
		measure(index, rules, &options->plan, &options->times, seed, &scenario);

	result_add(&results[index][rules], &scenario, &figures);
	if (rules != RULES_OWN || is_kept(&scenario, &figures))
		return;
	broken++;
	printf("%s with seed %llu: goodput %.3f, fairness %.3f, RETRY_EXC %llu\n", scenario.name,
	       (unsigned long long)seed, figures.share[0], figures.fairness[0],
	       (unsigned long long)figures.retry_exceeded);
}

/* False: the time is over. */
static bool run_round(const struct options *options, uint64_t seed, double end_s)
{
	for (unsigned k = 0; k < RULES_COUNT; k++)
		for (unsigned i = 0; i < scenario_count(); i++) {
			if (!is_chosen(options, i, k))
				continue;
			if (now_s() > end_s)
				return false;
			run_one(options, i, k, seed);
		}
	return true;
}

static void write_csv(const struct options *options)
{
	FILE *out = options->csv ? fopen(options->csv, "w") : NULL;

	if (!options->csv)
		return;
	if (!out) {
		perror(options->csv);
		exit(2);
	}
	report_csv_head(out);
	for (unsigned i = 0; i < scenario_count(); i++)
		for (unsigned k = 0; k < RULES_COUNT; k++)
			if (results[i][k].courses)
				report_csv_row(out, &results[i][k], k);
	fclose(out);
}

static void print_table(const struct options *options)
{
	unsigned courses = 0, missing = 0;

	report_head(stdout);
	for (unsigned i = 0; i < scenario_count(); i++)
		for (unsigned k = 0; k < RULES_COUNT; k++) {
			courses += results[i][k].courses;
			missing += is_chosen(options, i, k) && !results[i][k].courses;
			if (results[i][k].courses)
				report_row(stdout, &results[i][k], k);
		}
	printf("\n%u courses, seeds from %llu on; %u broke a promise\n", courses,
	       (unsigned long long)options->seed, broken);
	if (missing)
		printf("%u rows are missing: the time was over\n", missing);
}

static int run_table(const struct options *options)
{
	const double begin_s = now_s();
	uint64_t seed = options->seed;

	while (run_round(options, seed++, begin_s + options->seconds) &&
	       now_s() - begin_s < options->seconds)
		;
	print_table(options);
	write_csv(options);
	return broken != 0;
}

/* --- options --- */

static int rules_by_name(const char *name)
{
	for (unsigned i = 0; i < RULES_COUNT; i++)
		if (!strcmp(rules_names[i], name))
			return (int)i;
	fprintf(stderr, "sim-scale: no rules are called \"%s\"\n", name);
	exit(2);
}

static uint32_t number(const char *text)
{
	char *end;
	const unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || !value || value > UINT32_MAX) {
		fprintf(stderr, "sim-scale: \"%s\" is no number above 0\n", text);
		exit(2);
	}
	return (uint32_t)value;
}

static void take_marks(struct network_plan *plan, const char *text)
{
	if (sscanf(text, "%u,%u,%u", &plan->mark_from, &plan->mark_all, &plan->mark_ppm) == 3)
		return;
	fprintf(stderr, "sim-scale: --marks wants bytes, bytes and parts per million\n");
	exit(2);
}

/* Milliseconds from the beginning to the dark. */
static struct timetable timetable(uint32_t ms)
{
	const uint64_t dark_ns = ms * 1000000ull;

	return (struct timetable){
		.warm_ns = dark_ns / 3,
		.dark_ns = dark_ns,
		.light_ns = dark_ns + 1000000,
		.end_ns = dark_ns + 1000000 + dark_ns / 3,
	};
}

static void take_option(struct options *options, int c)
{
	struct network_plan *plan = &options->plan;

	switch (c) {
	case 's':
		options->seed = strtoull(optarg, NULL, 0);
		break;
	case 't':
		options->seconds = strtod(optarg, NULL);
		break;
	case 'r':
		options->rules = rules_by_name(optarg);
		break;
	case 'o':
		options->only = optarg;
		break;
	case 'c':
		options->csv = optarg;
		break;
	case 'T':
		options->tap = true;
		options->times = timetable(30);
		break;
	case 'm':
		plan->mtu = number(optarg);
		break;
	case 'R':
		plan->rate_mbps = number(optarg);
		break;
	case 'b':
		plan->buffer = number(optarg) << 10;
		break;
	case 'd':
		plan->delay_ns = number(optarg);
		break;
	case 'k':
		take_marks(plan, optarg);
		break;
	case 'M':
		options->times = timetable(number(optarg));
		break;
	default:
		exit(2);
	}
}

/* Links of 40 Gb/s, and the marks of DCQCN's paper; the buffer is 1/32 of 12 MB. */
static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "rules", required_argument, NULL, 'r' },
		{ "only", required_argument, NULL, 'o' },
		{ "csv", required_argument, NULL, 'c' },
		{ "tap", no_argument, NULL, 'T' },
		{ "mtu", required_argument, NULL, 'm' },
		{ "rate", required_argument, NULL, 'R' },
		{ "buffer", required_argument, NULL, 'b' },
		{ "delay", required_argument, NULL, 'd' },
		{ "marks", required_argument, NULL, 'k' },
		{ "ms", required_argument, NULL, 'M' },
		{ 0 },
	};
	struct options options = {
		.seed = 1,
		.rules = -1,
		.plan = { .rate_mbps = 40000,
			  .delay_ns = 1500,
			  .mtu = 1024,
			  .buffer = 384 << 10,
			  .mark_from = 5000,
			  .mark_all = 200000,
			  .mark_ppm = 10000,
			  .input_room = 208 << 10 },
		.times = timetable(48),
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
		take_option(&options, c);
	if (optind != argc || (options.plan.mtu & (options.plan.mtu - 1)) ||
	    options.plan.mtu < 256 || options.plan.mtu > 4096) {
		fprintf(stderr, "sim-scale: the MTU is a power of 2 from 256 to 4096\n");
		exit(2);
	}
	rules_link_mbps = options.plan.rate_mbps;
	return options;
}

int main(int argc, char **argv)
{
	const struct options options = parse(argc, argv);
	const int status = options.tap ? run_tap(&options) : run_table(&options);

	fabric_fini();
	return status;
}

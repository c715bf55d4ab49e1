/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

static double lower(double a, double b)
{
	return a < b ? a : b;
}

/* A course that did not recover is the longest. */
static double longer(double a, double b)
{
	return a < 0 || b < 0 ? -1 : a > b ? a : b;
}

void result_add(struct result *result, const struct scenario *scenario,
		const struct figures *figures)
{
	struct figures *worst = &result->worst, *sum = &result->sum;

	result->scenario = *scenario;
	if (!result->courses++)
		*worst = *figures;
	for (unsigned i = 0; i < scenario->class_count; i++) {
		worst->share[i] = lower(worst->share[i], figures->share[i]);
		worst->fairness[i] = lower(worst->fairness[i], figures->fairness[i]);
	}
	worst->recover_us = longer(worst->recover_us, figures->recover_us);
	if (figures->queue_max > worst->queue_max)
		worst->queue_max = figures->queue_max;
	sum->queue_mean += figures->queue_mean;
	sum->queue_p99 += figures->queue_p99;
	sum->sent += figures->sent;
	sum->lost += figures->lost;
	sum->repeated += figures->repeated;
	sum->timeouts += figures->timeouts;
	sum->marks += figures->marks;
	sum->cnps += figures->cnps;
	sum->retry_exceeded += figures->retry_exceeded;
	sum->took_s += figures->took_s;
}

void report_head(FILE *out)
{
	fprintf(out,
		"| scenario | flows | rules | goodput | fairness | queue KB: mean | p99 | max | "
		"lost %% | repeated %% | timeouts | CNPs | RETRY_EXC | recovers, us |\n"
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* The figures of the network stand in the row of the first class. */
static void row_network(FILE *out, const struct result *result)
{
	const struct figures *sum = &result->sum, *worst = &result->worst;
	const unsigned n = result->courses;

	fprintf(out, " %.0f | %.0f | %.0f | %.2f | %.2f | %llu | %llu | %llu |",
		sum->queue_mean / n / 1024, sum->queue_p99 / n / 1024, worst->queue_max / 1024,
		percent(sum->lost, sum->sent), percent(sum->repeated, sum->sent),
		(unsigned long long)sum->timeouts / n, (unsigned long long)sum->cnps / n,
		(unsigned long long)sum->retry_exceeded);
	if (worst->recover_us < 0)
		fprintf(out, " never |\n");
	else
		fprintf(out, " %.0f |\n", worst->recover_us);
}

void report_row(FILE *out, const struct result *result, enum rules rules)
{
	const struct scenario *scenario = &result->scenario;

	for (unsigned i = 0; i < scenario->class_count; i++) {
		fprintf(out, "| %s | %s | %s | %.3f | %.3f |", scenario->name,
			scenario->classes[i].name, rules_names[rules], result->worst.share[i],
			result->worst.fairness[i]);
		if (i)
			fprintf(out, " | | | | | | | | |\n");
		else
			row_network(out, result);
	}
	fflush(out);
}

void report_csv_head(FILE *out)
{
	fprintf(out, "scenario,flows,rules,hosts,goodput,fairness,queue_mean,queue_p99,queue_max,"
		     "lost_percent,repeated_percent,timeouts,cnps,retry_exceeded,recover_us\n");
}

void report_csv_row(FILE *out, const struct result *result, enum rules rules)
{
	const struct scenario *scenario = &result->scenario;
	const struct figures *sum = &result->sum, *worst = &result->worst;
	const unsigned n = result->courses;

	for (unsigned i = 0; i < scenario->class_count; i++)
		fprintf(out, "%s,%s,%s,%u,%.4f,%.4f,%.0f,%.0f,%.0f,%.3f,%.3f,%llu,%llu,%llu,%.0f\n",
			scenario->name, scenario->classes[i].name, rules_names[rules],
			scenario->hosts, worst->share[i], worst->fairness[i], sum->queue_mean / n,
			sum->queue_p99 / n, worst->queue_max, percent(sum->lost, sum->sent),
			percent(sum->repeated, sum->sent), (unsigned long long)sum->timeouts / n,
			(unsigned long long)sum->cnps / n, (unsigned long long)sum->retry_exceeded,
			worst->recover_us);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The course of a scenario, and its figures:
 *
 *   begin .. warm: windows find their size    warm .. dark: goodput, fairness, queues, repetitions
 *   dark .. light: watched ports lose all     light .. end: the time to recover
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scale.h"

enum {
	BEGIN_NS = 1000000,
	SAMPLE_NS = 5000,
	BIN_NS = 50000,
	BINS_STEADY = 4, /* bins above the mark that count as recovered */
};

static struct vb_wired_counters counters_of(const struct world *world)
{
	struct vb_wired_counters sum = { 0 };

	for (unsigned i = 0; i < world->end_count; i++) {
		const struct vb_wired_counters *one = &end_wired(world->ends[i])->counters;

		sum.retransmits += one->retransmits;
		sum.timeouts += one->timeouts;
		sum.cnp_sent += one->cnp_sent;
	}
	return sum;
}

static uint32_t taken(const struct end *end, uint32_t since_psn)
{
	return (end_taken_psn(end) - since_psn) & VB_PSN_MASK;
}

/* --- goodput and fairness --- */

static void figures_begin(struct world *world, struct vb_wired_counters *before)
{
	for (unsigned i = 0; i < world->end_count; i++)
		world->ends[i]->warm_psn = end_taken_psn(world->ends[i]);
	*before = counters_of(world);
	world->counting = true;
}

static void class_figures(struct world *world, const struct scenario *scenario, unsigned class)
{
	const double seconds = (double)(world->times.dark_ns - world->times.warm_ns) * 1e-9;
	double sum = 0, squares = 0;
	unsigned count = 0;

	for (unsigned i = 0; i < world->end_count; i++) {
		const struct end *end = world->ends[i];
		double mbps;

		if (!end->sends || end->class != class)
			continue;
		mbps = (double)taken(end, end->warm_psn) * world->plan.mtu * 8e-6 / seconds;
		sum += mbps;
		squares += mbps * mbps;
		count++;
	}
	world->figures.share[class] = sum / scenario->classes[class].due_mbps;
	world->figures.fairness[class] = squares > 0 ? sum * sum / (count * squares) : 0;
}

static double queue_p99(const struct world *world)
{
	uint64_t left = world->queue_samples / 100;

	for (unsigned i = QUEUE_STEPS; i--;) {
		if (world->queue_steps[i] > left)
			return (i + 1) * 1024.0;
		left -= world->queue_steps[i];
	}
	return 0;
}

static void figures_end(struct world *world, const struct scenario *scenario,
			const struct vb_wired_counters *before)
{
	const struct vb_wired_counters now = counters_of(world);
	struct figures *figures = &world->figures;

	world->counting = false;
	for (unsigned i = 0; i < scenario->class_count; i++)
		class_figures(world, scenario, i);
	figures->sent = world->sent;
	figures->lost = world->lost;
	figures->marks = world->marks;
	figures->repeated = now.retransmits - before->retransmits;
	figures->timeouts = now.timeouts - before->timeouts;
	figures->cnps = now.cnp_sent - before->cnp_sent;
	figures->queue_mean = world->queue_samples ? world->queue_sum / world->queue_samples : 0;
	figures->queue_max = world->queue_max;
	figures->queue_p99 = queue_p99(world);
}

/* --- samples --- */

static void sample_queues(struct world *world)
{
	for (unsigned i = 0; i < world->host_count && world->counting; i++) {
		const struct link *link = &world->hosts[i].down;
		double bytes;
		unsigned step;

		if (!link->watched)
			continue;
		bytes = fabric_queue_bytes(world, link);
		step = (unsigned)(bytes / 1024);
		world->queue_steps[step < QUEUE_STEPS ? step : QUEUE_STEPS - 1]++;
		world->queue_sum += bytes;
		world->queue_samples++;
	}
	agenda_add(&world->agenda, world->now_ns + SAMPLE_NS, EVENT_SAMPLE, 0, NULL);
}

/* The sum of all that has arrived since the beginning. */
static void sample_bin(struct world *world)
{
	const uint64_t bin = (world->now_ns - world->begin_ns) / BIN_NS;
	double packets = 0;

	for (unsigned i = 0; i < world->end_count; i++)
		if (world->ends[i]->sends)
			packets += taken(world->ends[i], 0);
	if (bin < BINS_MAX)
		world->bins[bin] = packets;
	agenda_add(&world->agenda, world->now_ns + BIN_NS, EVENT_BIN, 0, NULL);
}

static double recover_us(const struct world *world)
{
	const struct timetable *times = &world->times;
	const unsigned warm = (unsigned)(times->warm_ns / BIN_NS);
	const unsigned dark = (unsigned)(times->dark_ns / BIN_NS);
	const unsigned end = (unsigned)(times->end_ns / BIN_NS);
	const double usual = (world->bins[dark] - world->bins[warm]) / (dark - warm);

	for (unsigned at = (unsigned)(times->light_ns / BIN_NS); at + BINS_STEADY < end; at++)
		if (world->bins[at + BINS_STEADY] - world->bins[at] >= 0.9 * BINS_STEADY * usual)
			return (double)(at * (uint64_t)BIN_NS - times->light_ns) * 1e-3;
	return -1;
}

/* --- the course --- */

static void handle(struct world *world, const struct event *event)
{
	switch ((enum event_kind)event->kind) {
	case EVENT_SWITCH:
		fabric_switch(world, event->subject);
		break;
	case EVENT_ARRIVE:
		fabric_arrive(world, event->subject);
		break;
	case EVENT_INPUT:
		fabric_input(world, event->subject);
		break;
	case EVENT_TURN:
		host_turn(world, event->subject, event->at_ns);
		break;
	case EVENT_SAMPLE:
		sample_queues(world);
		break;
	case EVENT_BIN:
		sample_bin(world);
		break;
	}
	world->figures.events++;
}

static void run_until(struct world *world, uint64_t since_begin_ns)
{
	const uint64_t end_ns = world->begin_ns + since_begin_ns;
	uint64_t at_ns;

	while (agenda_next(&world->agenda, &at_ns) && at_ns <= end_ns) {
		const struct event event = agenda_pop(&world->agenda);

		world->now_ns = event.at_ns;
		handle(world, &event);
	}
	world->now_ns = end_ns;
}

static void darken(struct world *world, bool dark)
{
	for (unsigned i = 0; i < world->host_count; i++)
		world->hosts[i].down.dark = dark && world->hosts[i].down.watched;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void course(struct world *world, const struct scenario *scenario)
{
	struct vb_wired_counters before;

	ends_begin(world);
	sample_queues(world);
	sample_bin(world);
	run_until(world, world->times.warm_ns);
	figures_begin(world, &before);
	run_until(world, world->times.dark_ns);
	figures_end(world, scenario, &before);
	darken(world, true);
	run_until(world, world->times.light_ns);
	darken(world, false);
	run_until(world, world->times.end_ns);
	world->figures.recover_us = recover_us(world);
}

struct figures measure(unsigned index, enum rules rules, const struct network_plan *plan,
		       const struct timetable *times, uint64_t seed, struct scenario *about)
{
	static struct world world;
	const double begin_s = now_s();

	rules_forget();
	rules_chosen = rules;
	world = (struct world){ .plan = *plan, .times = *times, .rng = { seed } };
	world.now_ns = world.begin_ns = BEGIN_NS;
	scenario_build(&world, index, about);
	about->seed = seed;
	course(&world, about);
	hosts_close(&world);
	world.figures.took_s = now_s() - begin_s;
	return world.figures;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The course of a world, from its seed to its end. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define BEGIN_NS (1000 * MS)
/* MRAs make a connect last up to 15 times 73 s. */
#define LIMIT_NS (4 * 3600 * 1000 * MS)

/* From this seed on networks are worse than any that carries RDMA. */
#define HARSH_SEEDS 1000000000000000000ull
/* One in two is answered in the worst of networks, as soon as no partition is left. */
enum { QUESTIONS = 60 };
#define QUESTION_NS (1000 * MS)

void world_fail(struct world *world, const char *format, ...)
{
	va_list arguments;

	if (world->failure[0])
		return; /* the first one counts */
	va_start(arguments, format);
	vsnprintf(world->failure, sizeof(world->failure), format, arguments);
	va_end(arguments);
	world_say(world, "FAILED: %s", world->failure);
}

void world_say(struct world *world, const char *format, ...)
{
	va_list arguments;

	if (!world->verbose)
		return;
	printf("%12.3f ms  ", (double)(world->now_ns - BEGIN_NS) / 1e6);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

bool world_is_perfect(const struct world *world)
{
	return !world->loss && !world->repeat && !world->reorder && !world->partition_count &&
	       !world->crashes;
}

/* --- events --- */

void world_add(struct world *world, uint64_t at_ns, enum event_kind kind, enum action action,
	       void *subject)
{
	agenda_add(&world->agenda, at_ns, kind, action, subject);
}

static void handle(struct world *world, const struct event *event)
{
	struct process *process = event->subject;

	switch ((enum event_kind)event->kind) {
	case EVENT_MESSAGE:
		host_input(world, event->subject);
		free(event->subject);
		break;
	case EVENT_ACTION:
		app_act(event->subject, event->action);
		break;
	case EVENT_CRASH:
		process_crash(process);
		break;
	case EVENT_START:
		process_start(process);
		break;
	}
}

static struct process *next_timer(struct world *world, uint64_t *at_ns)
{
	struct process *first = NULL;

	*at_ns = VB_NEVER_NS;
	for (unsigned i = 0; i < world->process_count; i++) {
		struct process *process = &world->processes[i];
		uint64_t next_ns = process->alive ? vb_cm_next_ns(&process->cm) : VB_NEVER_NS;

		if (next_ns >= *at_ns)
			continue;
		*at_ns = next_ns;
		first = process;
	}
	return first;
}

/* False: nothing will ever happen again. */
static bool step(struct world *world)
{
	uint64_t timer_ns;
	struct process *process = next_timer(world, &timer_ns);
	uint64_t event_ns = VB_NEVER_NS, at_ns;

	agenda_next(&world->agenda, &event_ns);
	at_ns = timer_ns < event_ns ? timer_ns : event_ns;
	if (at_ns == VB_NEVER_NS)
		return false;
	if (at_ns > world->now_ns)
		world->now_ns = at_ns;
	if (timer_ns < event_ns) {
		vb_cm_tick(&process->cm, world->now_ns);
	} else {
		struct event event = agenda_pop(&world->agenda);

		handle(world, &event);
	}
	return true;
}

static void run_until_quiet(struct world *world)
{
	uint64_t limit_ns = world->now_ns + LIMIT_NS;

	while (!world->failure[0] && step(world))
		if (world->now_ns > limit_ns)
			world_fail(world, "never becomes quiet");
}

/* --- the plan --- */

/*
 * Many copies, and messages older than timewait. A copy of a REQ may not be older than an answer is
 * kept: two of these delays are not.
 */
static void worsen_network(struct world *world)
{
	struct rng *rng = &world->rng;

	world->delay_ns += rng_below(rng, 2) ? rng_below(rng, 400 * MS) : 0;
	world->loss = rng_below(rng, 2) ? rng_below(rng, 5000) : world->loss;
	world->repeat = rng_below(rng, 8000);
	world->reorder = rng_below(rng, 8000);
	world->reorder_ns = 1 + rng_next(rng) % (3000 * MS);
	world->inherits = world->seed % 2;
}

static void plan_network(struct world *world)
{
	struct rng *rng = &world->rng;
	static const uint32_t losses[] = { 0, 0, 100, 1000, 3000 };

	world->network_rng = rng_fork(rng);
	world->delay_ns = 10000 + rng_below(rng, 5 * MS);
	world->jitter_ns = rng_below(rng, 2) ? 0 : rng_below(rng, 20 * MS);
	if (!rng_below(rng, 4))
		return; /* nothing is in the way */
	world->loss = losses[rng_below(rng, 5)];
	world->repeat = rng_below(rng, 2) ? 0 : rng_below(rng, 3000);
	world->reorder = rng_below(rng, 2) ? 0 : rng_below(rng, 3000);
	world->reorder_ns = 1 + rng_below(rng, 400 * MS);
	if (world->seed >= HARSH_SEEDS)
		worsen_network(world);
	if (rng_below(rng, 3))
		return;
	world->partition_count = 1 + rng_below(rng, PARTITIONS_MAX);
	for (unsigned i = 0; i < world->partition_count; i++) {
		struct partition *cut = &world->partitions[i];

		cut->a = rng_below(rng, world->host_count);
		cut->b = rng_below(rng, world->host_count);
		cut->from_ns = world->now_ns + rng_below(rng, 4000) * MS;
		cut->to_ns = cut->from_ns + rng_below(rng, 15000) * MS;
	}
}

static void plan_crashes(struct world *world)
{
	struct rng *rng = &world->rng;

	if (!world->loss && !world->repeat && !world->reorder && rng_below(rng, 2))
		return;
	world->crashes = !rng_below(rng, 3);
	for (unsigned i = 0; i < world->process_count && world->crashes; i++) {
		uint64_t at_ns = world->now_ns + rng_below(rng, 3000) * MS;

		if (rng_below(rng, 2))
			continue;
		world_add(world, at_ns, EVENT_CRASH, 0, &world->processes[i]);
		at_ns += rng_below(rng, 500) * MS;
		world_add(world, at_ns, EVENT_START, 0, &world->processes[i]);
	}
}

static void plan(struct world *world)
{
	struct rng *rng = &world->rng;

	world->host_count = 1 + rng_below(rng, HOSTS_MAX);
	world->process_count = world->host_count + rng_below(rng, PROCESSES_MAX / 2);
	world->attempt_count = 1 + rng_below(rng, ATTEMPTS_MAX);
	world->broadcasts = rng_below(rng, 2);
	plan_network(world);
	plan_crashes(world);
	for (unsigned i = 0; i < world->process_count; i++) {
		struct process *process = &world->processes[i];

		process->world = world;
		process->index = i;
		process->host = i % world->host_count;
		process->slot = 1 + i / world->host_count; /* of different hosts the same */
		if (!world_is_perfect(world) && !rng_below(rng, 3))
			process->backlog = 1 + rng_below(rng, 3);
		process_start(process);
	}
	for (unsigned i = 0; i < world->attempt_count; i++) {
		world->attempts[i].id = i;
		app_plan(&world->attempts[i], world);
	}
}

/* --- the end --- */

static void each_end(struct world *world, void (*visit)(struct end *end))
{
	for (unsigned i = 0; i < world->attempt_count; i++) {
		struct attempt *attempt = &world->attempts[i];

		if (attempt->active.process)
			visit(&attempt->active);
		for (unsigned k = 0; k < attempt->passive_count; k++)
			visit(attempt->passives[k]);
	}
}

static void judge_widow(struct end *end)
{
	if (oracle_is_widowed(end))
		oracle_widow(end);
}

static void ask(struct end *end)
{
	if (oracle_is_widowed(end))
		app_act(end, ACTION_PROBE);
}

/* As librdmacm does, for as long as a connection lasts. */
static void ask_all(struct world *world)
{
	for (unsigned i = 0; i < QUESTIONS && !world->failure[0]; i++) {
		each_end(world, ask);
		run_until_quiet(world);
		world->now_ns += QUESTION_NS;
	}
}

static void disconnect(struct end *end)
{
	if (end->phase == PHASE_ESTABLISHED)
		app_act(end, ACTION_DISCONNECT);
}

static void destroy(struct end *end)
{
	app_act(end, ACTION_DESTROY);
}

static void close_all(struct world *world)
{
	each_end(world, disconnect);
	run_until_quiet(world);
	oracle_final(world);
	each_end(world, destroy);
	for (unsigned i = 0; i < world->process_count; i++)
		if (world->processes[i].alive) {
			vb_cm_destroy(&world->processes[i].listener.endpoint, world->now_ns);
			vb_cm_destroy(&world->processes[i].sidr_listener.endpoint, world->now_ns);
		}
	run_until_quiet(world);
	oracle_leaks(world);
}

static void clean_up(struct world *world)
{
	while (world->agenda.count) {
		struct event event = agenda_pop(&world->agenda);

		if (event.kind == EVENT_MESSAGE)
			free(event.subject);
	}
	agenda_fini(&world->agenda);
	for (unsigned i = 0; i < world->process_count; i++) {
		for (unsigned k = 0; k < VB_CM_ATTRIBUTES; k++)
			world->stats.resent += world->processes[i].cm.counters.resent[k];
		if (world->processes[i].alive)
			vb_cm_fini(&world->processes[i].cm);
	}
	while (world->ends) {
		struct end *end = world->ends;

		world->ends = end->next;
		free(end);
	}
}

bool world_run(uint64_t seed, bool verbose, enum sabotage sabotage, struct stats *stats,
	       char *failure, size_t size)
{
	static struct world world;

	world = (struct world){
		.seed = seed, .verbose = verbose, .sabotage = sabotage, .rng = { seed }
	};
	world.now_ns = BEGIN_NS;
	plan(&world);
	run_until_quiet(&world);
	each_end(&world, judge_widow);
	ask_all(&world);
	oracle_final(&world);
	close_all(&world);
	clean_up(&world);
	world.stats.worlds = 1;
	world.stats.virtual_ns = world.now_ns;
	/* Nothing but counts in it. */
	for (size_t i = 0; i < sizeof(*stats) / sizeof(uint64_t); i++)
		((uint64_t *)stats)[i] += ((const uint64_t *)&world.stats)[i];
	snprintf(failure, size, "%s", world.failure);
	return !world.failure[0];
}

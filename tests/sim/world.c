/* SPDX-License-Identifier: BSD-2-Clause */
/* The course of a world, from its seed to its end. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { BEGIN_NS = 1000000, TURN_DELAY_NS = 5000 };
#define LIMIT_NS    120000000000ull
#define LIMIT_TRIPS 5000ull  /* across the network; hosts may be far apart */
#define REST_NS     LIMIT_NS /* the last work requests may be silent, and the network bad */

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
	printf("%12.3f us  ", (double)(world->now_ns - BEGIN_NS) / 1000);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

uint8_t *world_memory(struct world *world, uint32_t length)
{
	uint8_t *memory = world->arena + world->arena_used;

	length = (length + 15) & ~15u;
	if (world->arena_used + length > ARENA_BYTES) {
		fprintf(stderr, "sim: world %llu needs too much memory\n",
			(unsigned long long)world->seed);
		exit(2);
	}
	world->arena_used += length;
	return memory;
}

/* --- events --- */

static void act(struct end *end, enum action action)
{
	switch (action) {
	case ACTION_PAUSE:
		end_pause(end, true);
		break;
	case ACTION_RESUME:
		end_pause(end, false);
		break;
	case ACTION_ERROR:
		end_error(end);
		break;
	case ACTION_RECONNECT:
		end_reconnect(end);
		break;
	case ACTION_REVOKE:
		end_revoke(end);
		break;
	case ACTIONS:
		break;
	}
}

static void soon(struct core *core, uint64_t within_ns)
{
	const struct host *host = core->host;
	struct world *world = host->world;
	uint64_t at_ns;

	if (host->drowsy_us)
		within_ns = host->drowsy_us * 1000ull;
	at_ns = world->now_ns + (within_ns ? rng_below(&world->rng, (uint32_t)within_ns) : 0);

	if (at_ns < core->turn_ns)
		core->turn_ns = at_ns;
}

/* True: a receiver finds them in one buffer, one behind the other. */
static bool lie_together(const struct transit *a, const struct transit *b)
{
	return a->to == b->to && a->length == b->length && a->traffic_class == b->traffic_class &&
	       !memcmp(&a->flow, &b->flow, sizeof(a->flow));
}

/* The next event is a packet that comes at the same time, from the same sender. */
static bool another_comes(const struct world *world, const struct event *event)
{
	const struct event *next = world->agenda.heap;

	return world->agenda.count && next->kind == EVENT_PACKET && next->at_ns == event->at_ns &&
	       lie_together(event->subject, next->subject);
}

static void packets_come(struct world *world, const struct event *event)
{
	struct transit *transits[TOGETHER_MAX] = { event->subject };
	struct host *host = &world->hosts[transits[0]->to];
	unsigned count = 1, taken;

	while (count < TOGETHER_MAX && another_comes(world, event))
		transits[count++] = agenda_pop(&world->agenda).subject;
	for (unsigned done = 0; done < count; done += taken) {
		struct core *core = host_input(host, transits + done, count - done, &taken);

		for (unsigned i = 0; i < taken; i++)
			soon(core, TURN_DELAY_NS);
	}
	for (unsigned i = 0; i < count; i++)
		network_return(transits[i]);
}

static void handle(struct world *world, const struct event *event)
{
	switch ((enum event_kind)event->kind) {
	case EVENT_PACKET:
		packets_come(world, event);
		break;
	case EVENT_POST:
		load_post(event->subject);
		break;
	case EVENT_DATAGRAMS:
		datagram_go_on(event->subject);
		break;
	case EVENT_RECV:
		load_receive(event->subject);
		break;
	case EVENT_CONNECT:
		end_connect(event->subject);
		break;
	case EVENT_ACTION:
		act(event->subject, event->action);
		break;
	}
}

/* When a core wants its turn; what is ready to be sent waits for the turn that was set. */
static uint64_t core_next_ns(struct core *core)
{
	uint64_t next_ns = vb_roce_next_ns(&core->roce);

	if (!next_ns && core->turn_ns == VB_NEVER_NS)
		soon(core, 0);
	if (!next_ns || core->turn_ns < next_ns)
		return core->turn_ns;
	return next_ns;
}

static struct core *next_core(struct world *world, uint64_t *at_ns)
{
	struct core *first = NULL;

	*at_ns = VB_NEVER_NS;
	for (unsigned i = 0; i < world->host_count * CORES_MAX; i++) {
		struct core *core = &world->hosts[i / CORES_MAX].cores[i % CORES_MAX];
		uint64_t next_ns = core_next_ns(core);

		if (next_ns >= *at_ns)
			continue;
		*at_ns = next_ns;
		first = core;
	}
	return first;
}

/* One event or one turn; false: nothing will ever happen again. */
static bool step(struct world *world)
{
	uint64_t turn_ns, event_ns = VB_NEVER_NS;
	struct core *core = next_core(world, &turn_ns);

	agenda_next(&world->agenda, &event_ns);
	if (turn_ns == VB_NEVER_NS && event_ns == VB_NEVER_NS)
		return false;
	if (turn_ns < event_ns) {
		if (turn_ns > world->now_ns)
			world->now_ns = turn_ns;
		world->burst_at = NULL;
		core_turn(core);
		sim_attend(world);
		oracle_queues(world);
		oracle_poll(core->host);
	} else {
		struct event event = agenda_pop(&world->agenda);

		if (event.at_ns > world->now_ns)
			world->now_ns = event.at_ns;
		if (event.kind != EVENT_PACKET)
			world->burst_at = NULL;
		handle(world, &event);
		sim_attend(world);
		oracle_queues(world);
	}
	return true;
}

/* --- beginning and end --- */

static void begin(struct world *world)
{
	for (unsigned i = 0; i < world->host_count; i++) {
		struct host *host = &world->hosts[i];

		host->world = world;
		host_open(host);
		host_forget(host);
	}
	for (unsigned i = 0; i < world->end_count; i++)
		end_open(world->ends[i]);
	unusual_begin(world);
	for (unsigned i = 0; i < world->recvq_count; i++)
		if (world->recvqs[i].depth)
			event_add(world, world->now_ns, EVENT_RECV, &world->recvqs[i]);
	for (unsigned i = 0; i < world->end_count; i++)
		event_add(world, world->now_ns + 1 + rng_below(&world->rng, 300000), EVENT_CONNECT,
			  world->ends[i]);
}

static void hung(struct world *world)
{
	for (unsigned i = 0; i < world->end_count; i++) {
		const struct end *end = world->ends[i];

		if (!end->closed && (end->posted != end->planned || end->done != end->posted))
			world_fail(world,
				   "hangs at %llu us: end %u (type %u, state %d) has %u ops of %u "
				   "posted and %u done",
				   (unsigned long long)world->now_ns / 1000, i, end->type,
				   end_state(end), end->posted, end->planned, end->done);
	}
	world_fail(world, "hangs");
}

static void poll_all(struct world *world)
{
	for (unsigned i = 0; i < world->host_count; i++)
		oracle_poll(&world->hosts[i]);
}

static void live(struct world *world)
{
	bool alive = true;
	uint64_t rest_ns, limit_ns;

	limit_ns = LIMIT_NS + LIMIT_TRIPS * world->net.delay_ns;
	while (alive && !world->failure[0] && !oracle_done(world) && world->now_ns < limit_ns)
		alive = step(world);
	poll_all(world);
	if (!world->failure[0] && !oracle_done(world))
		hung(world);
	/* What is still on its way must not change anything. */
	rest_ns = world->now_ns + REST_NS;
	while (alive && !world->failure[0] && world->now_ns < rest_ns)
		alive = step(world);
	poll_all(world);
	if (alive && !world->failure[0])
		world_fail(world, "packets without end");
	if (!world->failure[0])
		oracle_final(world);
}

static void count(struct world *world, const struct end *end)
{
	const struct vb_wired *wired = end->closed ? NULL : atomic_load(&end->qp->wired);
	struct world_stats *stats = &world->stats;

	if (!wired)
		return;
	stats->retransmits += wired->counters.retransmits;
	stats->timeouts += wired->counters.timeouts;
	stats->naks += wired->counters.nak_sequence;
	stats->rnrs += wired->counters.rnr_naks;
	stats->cnps += wired->counters.cnp_handled;
	stats->implied += wired->counters.implied_nak;
}

/* Every receive is posted or was completed: none went down with a QP. */
static void finish_srq(struct world *world, struct recvq *recvq)
{
	struct vb_rq *rq = &recvq->srq->rq;
	unsigned posted = 0;

	vb_rq_collect_all_returned(sim_nic());
	vb_rq_for_open(twin, rq) posted +=
		vb_cell_state(atomic_load(&vb_rq_cell(rq, twin->index)->word)) == VB_CELL_POSTED;
	if (posted != recvq->outstanding)
		world_fail(world, "%u receives of an SRQ are posted, %u should be", posted,
			   recvq->outstanding);
	if (vb_srq_destroy(recvq->srq))
		world_fail(world, "the SRQ cannot be destroyed");
}

static void finish(struct world *world)
{
	for (unsigned i = 0; i < world->end_count; i++)
		if (world->ends[i]->qp)
			count(world, world->ends[i]);
	for (unsigned i = 0; i < world->end_count; i++)
		end_destroy(world->ends[i]);
	for (unsigned i = 0; i < world->recvq_count; i++)
		if (world->recvqs[i].srq)
			finish_srq(world, &world->recvqs[i]);
	while (world->agenda.count) {
		struct event event = agenda_pop(&world->agenda);

		if (event.kind == EVENT_PACKET)
			network_return(event.subject);
	}
	for (unsigned i = 0; i < world->host_count; i++)
		host_close(&world->hosts[i]);
	for (unsigned i = 0; i < HOSTS_MAX * CORES_MAX; i++) {
		const struct core *core = &world->hosts[i / CORES_MAX].cores[i % CORES_MAX];

		if (core->roce.wired_count || core->roce.timers.count)
			world_fail(world, "host %u still has QPs or timers", core->host->index);
	}
	agenda_fini(&world->agenda);
	free(world->recvs);
}

bool world_run(uint64_t seed, bool verbose, struct world_stats *stats, char *failure, size_t size)
{
	static struct world world;

	world = (struct world){ .seed = seed, .verbose = verbose, .rng = { seed } };
	world.hosts = hosts_get();
	for (unsigned i = 0; i < HOSTS_MAX; i++) {
		world.hosts[i].world = &world;
		world.hosts[i].drowsy_us = 0;
	}
	world.arena = (uint8_t *)(uintptr_t)world.hosts[0].arena_mr->addr;
	world.recvs = malloc(RECVS_MAX * sizeof(*world.recvs));
	world.now_ns = BEGIN_NS;
	world_plan(&world);
	begin(&world);
	live(&world);
	finish(&world);
	world.stats.worlds = 1;
	world.stats.packets = world.net.sent;
	world.stats.virtual_ns = world.now_ns;
	/* Nothing but counts in it. */
	for (size_t i = 0; i < sizeof(*stats) / sizeof(uint64_t); i++)
		((uint64_t *)stats)[i] += ((const uint64_t *)&world.stats)[i];
	snprintf(failure, size, "%s", world.failure);
	return !world.failure[0];
}

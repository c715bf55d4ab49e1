/* SPDX-License-Identifier: BSD-2-Clause */
/* What a seed stands for: hosts, connections, a network, and how much goes on. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { ALL_REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

struct end *end_new(struct world *world, struct host *host, uint8_t type)
{
	struct end *end = calloc(1, sizeof(*end));
	struct recvq *recvq = &world->recvqs[world->recvq_count++];

	if (!end)
		abort();
	end->world = world;
	end->host = host;
	end->index = world->end_count;
	end->type = type;
	end->recvq = recvq;
	*recvq = (struct recvq){ .host = host, .end = end };
	world->ends[world->end_count++] = end;
	return end;
}

/* Near the wrap in half of all worlds. */
static uint32_t some_psn(struct rng *rng)
{
	if (rng_below(rng, 2))
		return (VB_PSN_MASK - rng_below(rng, 64)) & VB_PSN_MASK;
	return (uint32_t)rng_next(rng) & VB_PSN_MASK;
}

static uint32_t some_capacity(struct rng *rng)
{
	static const uint32_t sizes[] = { 64, 500, 1000, 2000, 4096, 8192, 20000, 65536 };
	uint32_t kind = rng_below(rng, 100);

	return sizes[kind < 90 ? kind % 6 : kind < 98 ? 6 : 7] + rng_below(rng, 4);
}

static void plan_receives(struct end *end, struct rng *rng)
{
	struct recvq *recvq = end->recvq;

	if (recvq->srq)
		return;
	if (!recvq->depth)
		recvq->depth = rng_between(rng, 1, 12);
	recvq->capacity = some_capacity(rng);
	recvq->lazy_us = rng_chance(rng, 3000) ? rng_between(rng, 10, 3000) : 0;
}

static void plan_region(struct end *end, struct rng *rng)
{
	struct world *world = end->world;

	end->region_size = 256u << rng_below(rng, 9);
	end->region = world_memory(world, end->region_size);
	end->model = malloc(end->region_size);
	if (!end->model)
		abort();
	memset(end->region, 0, end->region_size);
	memset(end->model, 0, end->region_size);
}

static void plan_timers(struct end *end, struct rng *rng)
{
	bool firm = !end->world->harsh;

	end->timeout = firm ? 14 + rng_below(rng, 3) : 4 + rng_below(rng, 12);
	end->retry_cnt = firm ? 7 : rng_below(rng, 8);
	if (firm && rng_chance(rng, 1000))
		end->timeout = 0;
	end->rnr_retry = rng_chance(rng, 7000) ? 7 : rng_below(rng, 7);
	end->min_rnr_timer = rng_between(rng, 1, 14);
	end->max_dest_rd_atomic = rng_between(rng, 1, 16);
}

static void plan_side(struct end *end, struct rng *rng)
{
	end->rng = rng_fork(rng);
	end->sq_psn = some_psn(rng);
	plan_receives(end, rng);
	plan_region(end, rng);
	plan_timers(end, rng);
	end->planned = rng_between(rng, 0, 16);
	/* UC: few enough packets in all that a late one is known as such (see load.c). */
	if (rng_chance(rng, 500) && end->type == IBV_QPT_RC)
		end->planned = OPS_MAX;
	if (!end->access)
		end->access =
			IBV_ACCESS_FLUSH_GLOBAL |
			(ALL_REMOTE & ~(rng_chance(rng, 1000) ? 1u << rng_between(rng, 1, 3) : 0));
}

void end_pair(struct end *a, struct end *b, struct rng *rng)
{
	a->peer = b;
	b->peer = a;
	plan_side(a, rng);
	plan_side(b, rng);
	a->mtu = b->mtu = 256u << rng_below(rng, 5);
	a->rq_psn = b->sq_psn;
	b->rq_psn = a->sq_psn;
	a->max_rd_atomic = rng_between(rng, 1, b->max_dest_rd_atomic);
	b->max_rd_atomic = rng_between(rng, 1, a->max_dest_rd_atomic);
}

static void plan_network(struct world *world, struct rng *rng)
{
	static const uint32_t delays_ns[] = { 1000, 5000, 20000, 100000, 1000000 };
	struct network *net = &world->net;
	uint32_t worst = world->harsh ? 3000 : 300;

	net->rng = rng_fork(rng);
	net->ipv6 = rng_below(rng, 2);
	net->delay_ns = delays_ns[rng_below(rng, 5)];
	net->jitter_ns = rng_below(rng, 2) ? rng_below(rng, 2 * net->delay_ns) : 0;
	net->reorder_ns = 4 * net->delay_ns + 1;
	if (rng_chance(rng, 6000))
		net->loss = rng_below(rng, worst);
	if (world->harsh && rng_chance(rng, 1000))
		net->burst_loss = rng_below(rng, 100);
	if (rng_chance(rng, 3000))
		net->repeat = rng_below(rng, 2000);
	if (rng_chance(rng, 3000))
		net->reorder = rng_below(rng, worst);
	if (rng_chance(rng, 2000))
		net->damage = rng_below(rng, worst / 3);
	if (rng_chance(rng, 2000))
		net->mark = rng_below(rng, 5000);
	if (rng_chance(rng, 3000)) {
		net->ns_per_kb = rng_between(rng, 80, 8000);
		net->queue_ns = world->harsh ? rng_between(rng, 10000, 2000000) : 50000000;
	}
}

static void plan_partitions(struct world *world, struct rng *rng)
{
	struct network *net = &world->net;
	unsigned count = rng_chance(rng, 2000) ? rng_between(rng, 1, PARTITIONS_MAX) : 0;

	for (unsigned i = 0; i < count; i++) {
		struct partition *p = &net->partitions[net->partition_count++];
		uint32_t length_us = world->harsh ? rng_below(rng, 3000000) : rng_below(rng, 50000);

		p->a = rng_below(rng, world->host_count);
		p->b = rng_below(rng, world->host_count);
		p->from_ns = world->now_ns + rng_below(rng, 20000) * 1000ull;
		p->to_ns = p->from_ns + length_us * 1000ull;
	}
}

static struct recvq *shared_queue(struct world *world, struct host *host, struct rng *rng)
{
	struct recvq *recvq = &world->recvqs[world->recvq_count++];
	struct ibv_srq_init_attr attr = { .attr = { .max_sge = SGES_MAX } };

	*recvq = (struct recvq){ .host = host };
	recvq->depth = rng_between(rng, 2, 24);
	recvq->capacity = some_capacity(rng);
	recvq->lazy_us = rng_chance(rng, 3000) ? rng_between(rng, 10, 3000) : 0;
	attr.attr.max_wr = recvq->depth;
	if (vb_srq_create(host->pd, &attr, &recvq->srq))
		world_fail(world, "SRQ");
	return recvq;
}

static void plan_connection(struct world *world, struct rng *rng, struct recvq *shared[])
{
	uint8_t type = rng_chance(rng, 7500) ? IBV_QPT_RC : IBV_QPT_UC;
	struct end *ends[2];

	for (unsigned i = 0; i < 2; i++) {
		struct host *host = &world->hosts[rng_below(rng, world->host_count)];

		ends[i] = end_new(world, host, type);
		if (!shared[host->index])
			continue;
		/* UC has no draw of its own: it would change what all seeds mean. */
		if (type == IBV_QPT_RC ? rng_below(rng, 2) : ends[i]->index % 2)
			ends[i]->recvq = shared[host->index];
	}
	end_pair(ends[0], ends[1], rng);
}

static void plan_datagrams(struct world *world, struct rng *rng)
{
	struct end *end =
		end_new(world, &world->hosts[rng_below(rng, world->host_count)], IBV_QPT_UD);

	end->rng = rng_fork(rng);
	end->sq_psn = some_psn(rng);
	end->mtu = 4096;
	end->qkey = (uint32_t)rng_next(rng) & 0x7fffffff;
	end->planned = rng_between(rng, 0, 20);
	end->recvq->depth = rng_between(rng, 1, 24);
	end->recvq->capacity = 40 + rng_between(rng, 0, 4096);
	end->recvq->lazy_us = rng_chance(rng, 3000) ? rng_between(rng, 10, 1000) : 0;
}

static void plan_actions(struct world *world, struct rng *rng)
{
	for (unsigned i = 0; i < world->end_count; i++) {
		struct end *end = world->ends[i];
		uint64_t at_ns = world->now_ns + rng_below(rng, 10000) * 1000ull;

		if (end->type == IBV_QPT_UD || !rng_chance(rng, 600))
			continue;
		switch (rng_below(rng, 5)) {
		case 0:
		case 1:
			event_add_action(world, at_ns, ACTION_PAUSE, end);
			event_add_action(world, at_ns + rng_below(rng, 5000) * 1000ull,
					 ACTION_RESUME, end);
			break;
		case 2:
			event_add_action(world, at_ns, ACTION_ERROR, end);
			break;
		case 3:
			event_add_action(world, at_ns, ACTION_RECONNECT, end);
			break;
		case 4:
			event_add_action(world, at_ns, ACTION_REVOKE, end);
		}
	}
}

void world_plan(struct world *world)
{
	struct rng *rng = &world->rng;
	struct recvq *shared[HOSTS_MAX] = { NULL };
	unsigned connections, datagrams;

	world->harsh = rng_chance(rng, 4000);
	world->flawed = rng_chance(rng, 2000);
	world->host_count = rng_between(rng, 2, HOSTS_MAX);
	for (unsigned i = 0; i < world->host_count; i++)
		if (rng_chance(rng, 3000))
			shared[i] = shared_queue(world, &world->hosts[i], rng);
	plan_network(world, rng);
	plan_partitions(world, rng);
	connections = rng_chance(rng, 2000) ? rng_between(rng, 4, 10) : rng_between(rng, 1, 3);
	datagrams = rng_chance(rng, 2000) ? rng_between(rng, 2, 4) : 0;
	for (unsigned i = 0; i < connections; i++)
		plan_connection(world, rng, shared);
	for (unsigned i = 0; i < datagrams; i++)
		plan_datagrams(world, rng);
	plan_actions(world, rng);
	unusual_plan(world);
}

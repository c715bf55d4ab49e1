/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static struct transit *spare;

static struct transit *transit_get(void)
{
	struct transit *transit = spare;

	if (!transit)
		return malloc(sizeof(*transit));
	spare = transit->next;
	return transit;
}

void network_return(struct transit *transit)
{
	transit->next = spare;
	spare = transit;
}

void network_fini(void)
{
	while (spare) {
		struct transit *next = spare->next;

		free(spare);
		spare = next;
	}
}

static bool parted(const struct world *world, unsigned a, unsigned b)
{
	for (unsigned i = 0; i < world->net.partition_count; i++) {
		const struct partition *p = &world->net.partitions[i];

		if (((p->a == a && p->b == b) || (p->a == b && p->b == a)) &&
		    world->now_ns >= p->from_ns && world->now_ns < p->to_ns)
			return true;
	}
	return false;
}

static bool is_answer(uint8_t opcode)
{
	switch ((enum vb_family)vb_opcode_row(opcode)->family) {
	case VB_FAMILY_ACK:
	case VB_FAMILY_READ_RESPONSE:
	case VB_FAMILY_ATOMIC_ACK:
		return true;
	default:
		return false;
	}
}

static bool lost(struct network *net, uint8_t opcode)
{
	if (net->only && is_answer(opcode) != (net->only == ONLY_ANSWERS))
		return false;
	if (net->losing) {
		net->losing--;
		return true;
	}
	if (rng_chance(&net->rng, net->burst_loss))
		net->losing = rng_between(&net->rng, 1, 20);
	return rng_chance(&net->rng, net->loss);
}

/* One bit: over IPv4 one in 65,536 of worse damage is beyond the ICRC. */
static void damage(struct network *net, struct transit *transit)
{
	uint32_t bit = rng_below(&net->rng, transit->length * 8);

	if (rng_chance(&net->rng, 1000)) {
		transit->length = rng_below(&net->rng, transit->length);
		return;
	}
	transit->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* When it is there; 0: the queue in front of the link is full. */
static uint64_t arrival_ns(struct world *world, unsigned from, unsigned to, uint32_t length,
			   bool again, bool *marked)
{
	struct network *net = &world->net;
	uint64_t start_ns = world->now_ns, *busy_ns = &net->busy_ns[from][to];
	uint64_t at_ns;

	if (net->ns_per_kb) {
		if (*busy_ns > start_ns)
			start_ns = *busy_ns;
		if (start_ns - world->now_ns > net->queue_ns)
			return 0;
		*marked |= start_ns - world->now_ns > net->queue_ns / 4;
		*busy_ns = start_ns + (uint64_t)length * net->ns_per_kb / 1024;
	}
	at_ns = start_ns + net->delay_ns;
	if (again && net->stale_ns)
		return at_ns + rng_below(&net->rng, net->stale_ns);
	if (rng_chance(&net->rng, net->reorder))
		return at_ns + rng_below(&net->rng, net->reorder_ns);
	at_ns += rng_below(&net->rng, net->jitter_ns + 1);
	if (at_ns < net->last_ns[from][to])
		at_ns = net->last_ns[from][to];
	net->last_ns[from][to] = at_ns;
	return at_ns;
}

static void carry(struct world *world, unsigned from, unsigned to, const struct vb_way *way,
		  const uint8_t *bytes, uint32_t length, bool again)
{
	struct network *net = &world->net;
	bool marked = rng_chance(&net->rng, net->mark);
	uint64_t at_ns = arrival_ns(world, from, to, length, again, &marked);
	struct transit *transit;

	if (!at_ns) {
		net->lost++;
		return;
	}
	transit = transit_get();
	transit->flow = way->flow;
	transit->to = to;
	transit->traffic_class = (uint8_t)((way->traffic_class & ~3) | (marked ? 3 : 2));
	transit->length = length;
	memcpy(transit->bytes, bytes, length);
	if (rng_chance(&net->rng, net->damage))
		damage(net, transit);
	event_add(world, at_ns, EVENT_PACKET, transit);
}

static void show(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
		 uint32_t length, const char *fate)
{
	struct vb_packet packet;
	char line[200];

	if (!world->verbose)
		return;
	if (vb_packet_parse(bytes, length, &packet))
		world_say(world, "%u > %u malformed, %u B", from, to, length);
	else
		world_say(world, "%u > %u %s%s", from, to,
			  vb_packet_print(&packet, line, sizeof(line)), fate);
}

void network_send(struct world *world, unsigned from, const struct vb_way *way,
		  const uint8_t *bytes, uint32_t length)
{
	struct network *net = &world->net;
	unsigned to = way->flow.dst[way->flow.ipv6 ? 15 : 3] - 1u;
	bool gone = parted(world, from, to) || lost(net, bytes[0]);
	bool twice = rng_chance(&net->rng, net->repeat);

	net->sent++;
	net->lost += gone;
	net->repeated += twice;
	show(world, from, to, bytes, length, gone && !twice ? " LOST" : twice ? " TWICE" : "");
	if (!gone)
		carry(world, from, to, way, bytes, length, false);
	if (twice && !parted(world, from, to))
		carry(world, from, to, way, bytes, length, true);
}

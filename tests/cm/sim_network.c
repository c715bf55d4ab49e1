/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

union ibv_gid host_gid(unsigned host, bool ipv6)
{
	if (ipv6)
		return (union ibv_gid){ .raw = { 0xfd, [15] = (uint8_t)(host + 1) } };
	return (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(host + 1) } };
}

/* Loopback is the host of the other address; -1: nobody's. */
int host_of(const struct world *world, const union ibv_gid *gid, const union ibv_gid *other)
{
	static const union ibv_gid loopback = { .raw = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };

	for (unsigned i = 0; i < world->host_count; i++)
		for (int v6 = 0; v6 < 2; v6++) {
			union ibv_gid own = host_gid(i, v6);

			if (!memcmp(&own, gid, sizeof(own)))
				return (int)i;
		}
	if (!memcmp(gid, &loopback, sizeof(*gid)) && other && other != gid)
		return host_of(world, other, NULL);
	return -1;
}

static bool is_cut(const struct world *world, int a, int b)
{
	for (unsigned i = 0; i < world->partition_count; i++) {
		const struct partition *cut = &world->partitions[i];

		if (((int)cut->a == a && (int)cut->b == b) ||
		    ((int)cut->a == b && (int)cut->b == a))
			if (world->now_ns >= cut->from_ns && world->now_ns < cut->to_ns)
				return true;
	}
	return false;
}

static void carry(struct world *world, const struct vb_cm_route *route,
		  const struct vb_cm_message *message)
{
	struct transit *transit = malloc(sizeof(*transit));
	uint64_t at_ns = world->now_ns + world->delay_ns;

	if (world->jitter_ns)
		at_ns += rng_next(&world->network_rng) % world->jitter_ns;
	if (rng_below(&world->network_rng, 10000) < world->reorder)
		at_ns += rng_next(&world->network_rng) % world->reorder_ns;
	transit->route = *route;
	transit->route.local = route->remote;
	transit->route.remote = route->local;
	vb_cm_emit(message, transit->bytes);
	if (world->sabotage == SABOTAGE_DATA && message->attribute == VB_CM_REP)
		transit->bytes[VB_MAD_SIZE - VB_CM_REP_DATA_SIZE]++;
	world_add(world, at_ns, EVENT_MESSAGE, 0, transit);
}

/* As if it were never sent. */
static bool is_sabotaged(const struct world *world, const struct vb_cm_message *message)
{
	return (world->sabotage == SABOTAGE_RTU && message->attribute == VB_CM_RTU) ||
	       (world->sabotage == SABOTAGE_DREQ && message->attribute == VB_CM_DREQ) ||
	       (world->sabotage == SABOTAGE_REJ && message->attribute == VB_CM_REJ);
}

void network_send(struct world *world, const struct vb_cm_route *route,
		  const struct vb_cm_message *message)
{
	int from = host_of(world, &route->local, &route->remote);
	int to = host_of(world, &route->remote, &route->local);
	char text[1024];

	world->stats.messages++;
	if (world->verbose)
		world_say(world, "%d > %d  %s", from, to, vb_cm_print(message, text, sizeof(text)));
	if (is_sabotaged(world, message))
		return;
	if (is_cut(world, from, to) || rng_below(&world->network_rng, 10000) < world->loss) {
		world->stats.lost++;
		world_say(world, "       lost");
		return;
	}
	carry(world, route, message);
	if (rng_below(&world->network_rng, 10000) < world->repeat)
		carry(world, route, message);
}

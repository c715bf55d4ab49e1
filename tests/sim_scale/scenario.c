/* SPDX-License-Identifier: BSD-2-Clause */
/* The scenarios: which host writes to which, and what is wrong with some of them. */
#include <stdio.h>

#include "scale.h"

enum {
	SLOW_SENDERS = 8,
	SLOW_DIVISOR = 10, /* the slow host takes this part of the link's rate */
	NEAR_AND_FAR = 16,
	FAR_NS = 50000, /* more on each link of a far host */
	LOSSY_SENDERS = 8,
	LATE_PPM = 200000,
	LATE_NS = 20000,
};

struct row {
	const char *name;
	void (*build)(struct world *world, struct scenario *scenario, unsigned value);
	unsigned value;
};

static double link_mbps(const struct world *world)
{
	return world->plan.rate_mbps * fabric_efficiency(&world->plan);
}

static void one_class(struct scenario *scenario, const char *name, double due_mbps)
{
	scenario->class_count = 1;
	scenario->classes[0] = (struct class){ name, due_mbps };
}

/* Host 0 receives from all others. */
static void build_incast(struct world *world, struct scenario *scenario, unsigned senders)
{
	hosts_open(world, senders + 1);
	for (unsigned i = 1; i <= senders; i++)
		end_connect(world, i, 0, 0);
	world->hosts[0].down.watched = true;
	one_class(scenario, "senders", link_mbps(world));
}

static void build_all_to_all(struct world *world, struct scenario *scenario, unsigned hosts)
{
	hosts_open(world, hosts);
	for (unsigned i = 0; i < hosts; i++)
		for (unsigned k = i + 1; k < hosts; k++)
			end_answers(end_connect(world, i, k, 0), 0);
	for (unsigned i = 0; i < hosts; i++)
		world->hosts[i].down.watched = true;
	one_class(scenario, "pairs", hosts * link_mbps(world));
}

/* Each sender writes to a receiver of its own, and all of them to one slow host. */
static void build_slow(struct world *world, struct scenario *scenario, unsigned divisor)
{
	const unsigned slow = 2 * SLOW_SENDERS;
	const double slow_mbps = link_mbps(world) / divisor;

	hosts_open(world, slow + 1);
	for (unsigned i = 0; i < SLOW_SENDERS; i++) {
		end_connect(world, i, SLOW_SENDERS + i, 0);
		end_connect(world, i, slow, 1);
		world->hosts[SLOW_SENDERS + i].down.watched = true;
	}
	world->hosts[slow].down.watched = true;
	world->hosts[slow].ps_per_b = world->hosts[slow].down.ps_per_b * divisor;
	scenario->class_count = 2;
	scenario->classes[0] =
		(struct class){ "to others", SLOW_SENDERS * link_mbps(world) - slow_mbps };
	scenario->classes[1] = (struct class){ "to the slow", slow_mbps };
}

/* Half of the senders are far away. */
static void build_near_far(struct world *world, struct scenario *scenario, unsigned senders)
{
	hosts_open(world, senders + 1);
	for (unsigned i = 1; i <= senders; i++) {
		end_connect(world, i, 0, i % 2);
		if (i % 2) {
			world->hosts[i].up.delay_ns += FAR_NS;
			world->hosts[i].down.delay_ns += FAR_NS;
		}
	}
	world->hosts[0].down.watched = true;
	scenario->class_count = 2;
	scenario->classes[0] = (struct class){ "near", link_mbps(world) / 2 };
	scenario->classes[1] = (struct class){ "far", link_mbps(world) / 2 };
}

static void build_lossy(struct world *world, struct scenario *scenario, unsigned loss_ppm)
{
	build_incast(world, scenario, LOSSY_SENDERS);
	world->hosts[0].down.loss_ppm = loss_ppm;
}

/* Both ways: requests overtake each other, and so do answers. */
static void build_late(struct world *world, struct scenario *scenario, unsigned loss_ppm)
{
	build_incast(world, scenario, LOSSY_SENDERS);
	for (unsigned i = 0; i < world->host_count; i++) {
		world->hosts[i].down.late_ppm = LATE_PPM;
		world->hosts[i].down.late_ns = LATE_NS;
		world->hosts[i].down.loss_ppm = loss_ppm;
	}
}

static const struct row rows[] = {
	{ "incast 2", build_incast, 2 },
	{ "incast 4", build_incast, 4 },
	{ "incast 8", build_incast, 8 },
	{ "incast 16", build_incast, 16 },
	{ "incast 32", build_incast, 32 },
	{ "incast 64", build_incast, 64 },
	{ "incast 128", build_incast, 128 },
	{ "incast 256", build_incast, 256 },
	{ "slow receiver", build_slow, SLOW_DIVISOR },
	{ "near and far", build_near_far, NEAR_AND_FAR },
	{ "loss 0.1 %", build_lossy, 1000 },
	{ "loss 1 %", build_lossy, 10000 },
	{ "late 20 %", build_late, 0 },
	{ "late 20 %, loss 1 %", build_late, 10000 },
	{ "all-to-all 16", build_all_to_all, 16 },
	{ "all-to-all 64", build_all_to_all, 64 },
};

unsigned scenario_count(void)
{
	return sizeof(rows) / sizeof(rows[0]);
}

const char *scenario_name(unsigned index)
{
	return rows[index].name;
}

void scenario_build(struct world *world, unsigned index, struct scenario *scenario)
{
	*scenario = (struct scenario){ .name = rows[index].name };
	rows[index].build(world, scenario, rows[index].value);
	scenario->hosts = world->host_count;
}

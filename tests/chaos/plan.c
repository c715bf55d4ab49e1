/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_names[KINDS] = { "RC", "SRQ", "one-sided", "UD" };
static const char *const moment_names[MOMENTS] = { "spawn", "connected", "flowing" };
static const unsigned delay_us_max[MOMENTS] = { 5000, 600, 5000 };

/* Small messages ride in the receive slot, large ones are copied in pieces: all matter. */
static const struct {
	uint32_t size_max;
	unsigned depth;
} sizes[] = { { 28, 32 }, { 64, 32 }, { 256, 32 }, { 4096, 32 }, { 65536, 16 }, { 1 << 20, 6 } };

static enum kind only = KINDS; /* KINDS: all of them; set before the first fork */

bool plan_only(const char *name)
{
	only = KIND_RC;
	while (only < KINDS && strcmp(kind_names[only], name))
		only++;
	return only < KINDS;
}

const char *kind_name(enum kind kind)
{
	return kind_names[kind];
}

static void choose_size(struct plan *plan, struct rng *rng)
{
	unsigned i = (unsigned)rng_below(rng, sizeof(sizes) / sizeof(*sizes));

	plan->size_max = sizes[i].size_max;
	plan->depth = sizes[i].depth;
	if (plan->kind == KIND_UD) {
		plan->size_max = UD_SIZE;
		plan->depth = UD_DEPTH;
	} else if (plan->kind == KIND_SRQ && plan->size_max > SRQ_SIZE) {
		plan->size_max = SRQ_SIZE;
	}
}

static void choose_ends(struct plan *plan, struct rng *rng)
{
	enum role survivor;

	/* Only in a part of the rounds: the host must also grow old, to show what it leaks. */
	plan->victim = plan->round % 1000 < 250 && rng_chance(rng, 6) ? ROLE_HOST : ROLE_GUEST;
	survivor = plan->victim == ROLE_HOST ? ROLE_GUEST : ROLE_HOST;
	switch (rng_below(rng, 3)) {
	case 0:
		plan->sends[survivor] = true;
		break;
	case 1:
		plan->sends[plan->victim] = true;
		break;
	default:
		plan->sends[ROLE_HOST] = plan->sends[ROLE_GUEST] = true;
	}
}

static void describe(struct plan *plan)
{
	snprintf(plan->text, sizeof(plan->text),
		 "[%s x%u, <= %u B, %s%s%s%s%s, %s dies %u us after %s, finish by %s]",
		 kind_names[plan->kind], plan->lanes, plan->size_max,
		 plan->sends[ROLE_HOST] ? "host sends " : "",
		 plan->sends[ROLE_GUEST] ? "guest sends " : "",
		 plan->fresh_guest ? "fresh " : "known ",
		 plan->events[ROLE_HOST] ? "host sleeps " : "",
		 plan->events[ROLE_GUEST] ? "guest sleeps" : "",
		 plan->victim == ROLE_HOST ? "host" : "guest", plan->delay_us,
		 moment_names[plan->moment], plan->finish_by_error ? "ERR" : "failure");
}

struct plan plan_make(uint64_t seed, unsigned round)
{
	struct rng rng = rng_fork(seed, round + 1);
	struct plan plan = { .seed = seed, .round = round };

	plan.kind = (enum kind)rng_below(&rng, KINDS);
	if (only < KINDS)
		plan.kind = only;
	choose_ends(&plan, &rng);
	choose_size(&plan, &rng);
	plan.lanes = plan.kind == KIND_SRQ ? 1 + (unsigned)rng_below(&rng, LANES_MAX) : 1;
	plan.moment = (enum moment)rng_below(&rng, MOMENTS);
	plan.delay_us = (unsigned)rng_below(&rng, delay_us_max[plan.moment]);
	plan.events[ROLE_HOST] = rng_chance(&rng, 3);
	plan.events[ROLE_GUEST] = rng_chance(&rng, 3);
	plan.fresh_guest =
		rng_chance(&rng, 2) || (plan.moment == MOMENT_SPAWN && plan.victim == ROLE_GUEST);
	plan.finish_by_error = rng_chance(&rng, 3);
	describe(&plan);
	return plan;
}

uint32_t plan_tag(unsigned round, enum step step, enum role role)
{
	return (round + 1) << 8 | (uint32_t)step << 6 | (uint32_t)role << 4;
}

struct flow_shape plan_shape(const struct plan *plan, enum role role, struct tally *tally)
{
	enum role other = role == ROLE_HOST ? ROLE_GUEST : ROLE_HOST;

	return (struct flow_shape){
		.mix = plan->kind == KIND_ONESIDED ? MIX_ONESIDED : MIX_SEND,
		.ud = plan->kind == KIND_UD,
		.events = plan->events[role],
		.lanes = plan->lanes,
		.depth = plan->depth,
		.size_max = plan->size_max,
		.tag_out = plan_tag(plan->round, STEP_TRAFFIC, role),
		.tag_in = plan_tag(plan->round, STEP_TRAFFIC, other),
		.send_limit = plan->sends[role] ? UINT64_MAX : 0,
		.seed = rng_fork(plan->seed, plan->round).state,
		.tally = tally,
	};
}

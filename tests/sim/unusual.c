/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One world in five is unusual: something about it is far from what most programs and networks do.
 * It draws from numbers of its own, so that other seeds stand for what they stood for before.
 */
#include "sim.h"

enum { ORDINARY = 5, SHARE_LEAST = 32 << 10, SPARED = 20 };

enum oddity {
	CALM,    /* nothing is lost: no patience is needed */
	DROWSY,  /* one host gets a CPU now and then */
	POOR,    /* the hosts may have next to nothing on their way */
	RATED,   /* QPs have rates */
	ONE_WAY, /* answers get lost, or requests do */
	PATIENT, /* a receiver that is not ready asks for half a second */
	REMOTE,  /* the hosts are far away from each other */
	STALE,   /* packets come again when everybody has forgotten them */
	ODDITIES,
};

static struct rng numbers(const struct world *world)
{
	return (struct rng){ world->seed * 0x2545f4914f6cdd1dull + 1 };
}

static void calm(struct world *world, struct rng *rng)
{
	struct network *net = &world->net;

	world->harsh = false;
	net->loss = net->burst_loss = net->repeat = net->reorder = net->damage = 0;
	net->partition_count = 0;
	if (net->ns_per_kb)
		net->queue_ns = 50000000;
	for (unsigned i = 0; i < world->end_count; i++) {
		world->ends[i]->retry_cnt = 1; /* what comes before its peer is ready is lost */
		world->ends[i]->timeout = rng_between(rng, 1, 8);
	}
}

static void lose_one_way(struct world *world, struct rng *rng)
{
	struct network *net = &world->net;

	net->only = rng_below(rng, 2) ? ONLY_ANSWERS : ONLY_REQUESTS;
	net->loss = rng_below(rng, 2000);
	net->burst_loss = 0;
}

static void be_patient(struct world *world, struct rng *rng)
{
	static const uint8_t timers[] = { 0, 28, 29, 30, 31 }; /* 655, 164, 246, 328, 492 ms */
	struct end *end = world->ends[rng_below(rng, world->end_count)];

	end->min_rnr_timer = timers[rng_below(rng, 5)];
}

static void spare(uint32_t *chance)
{
	if (*chance > SPARED)
		*chance = SPARED;
}

/*
 * A timeout below the round trip is the programmer's mistake: everything is sent over and over.
 * There are few tries within it: where nobody may give up, luck must not decide.
 */
static void move_away(struct world *world, struct rng *rng)
{
	world->net.delay_ns = rng_between(rng, 5, 80) * 1000000;
	world->net.reorder_ns = world->net.delay_ns;
	for (unsigned i = 0; i < world->end_count; i++)
		if (world->ends[i]->timeout)
			world->ends[i]->timeout = 16;
	if (!world->harsh) {
		spare(&world->net.loss);
		spare(&world->net.damage);
	}
}

/*
 * Ends are reset meanwhile more often than elsewhere: theirs come to the connection that follows.
 */
static void haunt(struct world *world, struct rng *rng)
{
	world->net.repeat = rng_below(rng, 5000);
	world->net.stale_ns = rng_between(rng, 1, 200) * 1000000;
	for (unsigned i = 0; i < world->end_count; i++)
		if (world->ends[i]->type == IBV_QPT_RC && rng_below(rng, 2))
			event_add_action(world, world->now_ns + rng_below(rng, 10000) * 1000ull,
					 ACTION_RECONNECT, world->ends[i]);
}

static enum oddity oddity_of(const struct world *world)
{
	return (enum oddity)(world->seed / ORDINARY % ODDITIES);
}

static bool is_unusual(const struct world *world)
{
	return world->seed % ORDINARY == 0;
}

void unusual_plan(struct world *world)
{
	struct rng rng = numbers(world);

	if (!is_unusual(world))
		return;
	switch (oddity_of(world)) {
	case CALM:
		calm(world, &rng);
		break;
	case DROWSY:
		world->hosts[rng_below(&rng, world->host_count)].drowsy_us =
			rng_between(&rng, 100, 10000);
		break;
	case ONE_WAY:
		lose_one_way(world, &rng);
		break;
	case PATIENT:
		be_patient(world, &rng);
		break;
	case REMOTE:
		move_away(world, &rng);
		break;
	case STALE:
		haunt(world, &rng);
		break;
	case POOR: /* these begin with the world */
	case RATED:
	case ODDITIES:
		break;
	}
}

void unusual_begin(struct world *world)
{
	struct rng rng = numbers(world);

	if (!is_unusual(world))
		return;
	for (unsigned i = 0; oddity_of(world) == POOR && i < world->host_count; i++)
		for (unsigned k = 0; k < CORES_MAX; k++)
			world->hosts[i].cores[k].roce.share.limit_bytes = SHARE_LEAST;
	for (unsigned i = 0; oddity_of(world) == RATED && i < world->end_count; i++) {
		struct vb_qp *qp = world->ends[i]->qp;

		atomic_store(&qp->rate_kbps, rng_between(&rng, 2000, 1000000));
		atomic_store(&qp->rate_burst_bytes,
			     rng_below(&rng, 2) ? rng_below(&rng, 65536) : 0);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan.h"

#include "rig.h"

/* A message without immediate on UC and UD is recognised by its bytes: it needs some. */
enum { RECOGNISED_MIN = 8 };

void plan_open(struct plan *plan, const struct terms *terms, uint32_t lane, bool from_client)
{
	struct rng rng = rng_fork(terms->seed, lane * 2 + from_client);

	plan->terms = terms;
	plan->seed = rng_next(&rng);
	plan->next = 0;
	plan->add_word = plan->cas_word = plan->shared_sum = 0;
	plan->count = 0;
}

static enum op_kind choose_kind(const struct terms *terms, struct rng *rng)
{
	enum op_kind kind;

	do
		kind = rng_below(rng, OP_KIND_COUNT);
	while (!(terms->kinds >> kind & 1));
	return kind;
}

static uint32_t size_max(const struct terms *terms)
{
	if (terms->qp_type == IBV_QPT_UD && terms->size_max > terms->mtu_bytes)
		return terms->mtu_bytes;
	return terms->size_max;
}

/* Small ones, some around multiples of the MTU, some of a few packets, a few large ones. */
static uint32_t choose_length(const struct terms *terms, struct rng *rng)
{
	uint32_t most = size_max(terms), mtu = terms->mtu_bytes;
	uint64_t dice = rng_below(rng, 100), length;

	if (dice < 30)
		length = rng_below(rng, 65);
	else if (dice < 55)
		length = rng_below(rng, 5) * mtu + rng_below(rng, 3) - 1;
	else if (dice < 95)
		length = rng_below(rng, 4 * mtu);
	else
		length = rng_below(rng, (uint64_t)most + 1);
	if (length == UINT64_MAX) /* 0 * mtu - 1 */
		length = 0;
	return length > most ? most : (uint32_t)length;
}

static void choose_atomic(struct plan *plan, struct op *op, struct rng *rng)
{
	op->length = 8;
	op->shared = op->kind == OP_ADD && rng_chance(rng, 4);
	if (op->kind == OP_CAS) {
		bool succeeds = !rng_chance(rng, 3);

		op->expect = plan->cas_word;
		op->compare_add = succeeds ? plan->cas_word : ~plan->cas_word;
		op->swap = rng_next(rng);
		if (succeeds)
			plan->cas_word = op->swap;
		return;
	}
	op->compare_add = op->shared ? rng_below(rng, 1000) + 1 : rng_next(rng);
	op->expect = plan->add_word;
	if (op->shared)
		plan->shared_sum += op->compare_add;
	else
		plan->add_word += op->compare_add;
}

static bool choose_signal(const struct terms *terms, const struct op *op, struct rng *rng)
{
	uint32_t stretch = terms->window / 4 ? terms->window / 4 : 1;

	return op->index % stretch == stretch - 1 || op->index + 1 == terms->ops ||
	       rng_chance(rng, 4);
}

/* Everything about operation `next` but where it is. */
static struct op choose_op(struct plan *plan)
{
	struct rng rng = rng_fork(plan->seed, plan->next);
	struct op op = { .index = plan->next };
	bool is_reliable = plan->terms->qp_type == IBV_QPT_RC;

	op.key = rng_next(&rng);
	op.kind = choose_kind(plan->terms, &rng);
	op.length = choose_length(plan->terms, &rng);
	if (!is_reliable && op.kind == OP_SEND && op.length < RECOGNISED_MIN)
		op.length = RECOGNISED_MIN;
	if (kind_is_atomic(op.kind))
		choose_atomic(plan, &op, &rng);
	op.signaled = choose_signal(plan->terms, &op, &rng);
	op.solicited = kind_is_message(op.kind) && rng_chance(&rng, 2);
	op.fence = is_reliable && rng_chance(&rng, 8);
	op.is_inline = (kind_is_send(op.kind) || kind_is_write(op.kind)) &&
		       op.length <= INLINE_MAX && rng_chance(&rng, 2);
	op.local.length = op.length;
	op.local.pieces = kind_is_atomic(op.kind) ? 1 : 1 + rng_below(&rng, PIECES_MAX);
	if (kind_is_message(op.kind)) {
		op.receive.length = (kind_is_send(op.kind) ? op.length : 0) + rng_below(&rng, 40);
		op.receive.pieces = 1 + rng_below(&rng, PIECES_MAX);
	}
	return op;
}

/* Reserves room behind a gap of canaries. */
static size_t place(size_t *end, size_t length, struct rng *rng, size_t alignment)
{
	size_t at = *end + 16 + rng_below(rng, 48);

	at = (at + alignment - 1) & ~(alignment - 1);
	*end = at + length;
	return at;
}

static void place_op(const struct plan *plan, struct op *op, size_t *local, size_t *target)
{
	struct rng rng = rng_fork(~plan->seed, op->index);

	op->local.offset =
		place(local, spread_size(&op->local), &rng, kind_is_atomic(op->kind) ? 8 : 1);
	if (kind_is_write(op->kind) || op->kind == OP_READ)
		op->target = place(target, op->length, &rng, 1);
	if (kind_is_message(op->kind) && plan->terms->qp_type == IBV_QPT_RC)
		op->receive.offset = place(target, spread_size(&op->receive), &rng, 1);
}

/* Room for one more operation of the largest size, whatever it is. */
static bool has_room(const struct plan *plan, size_t local, size_t target)
{
	size_t most = 2 * ((size_t)plan->terms->size_max + PIECES_MAX * PIECE_GAP + 128);

	return plan->count < ROUND_OPS_MAX && local + most < plan->terms->region_size &&
	       target + most < plan->terms->region_size;
}

static uint32_t slots_needed(const struct terms *terms)
{
	uint32_t count = terms->region_size / slot_size(terms);

	return count < ROUND_OPS_MAX ? count : ROUND_OPS_MAX;
}

bool plan_round(struct plan *plan)
{
	const struct terms *terms = plan->terms;
	uint32_t most = terms->qp_type == IBV_QPT_RC ? ROUND_OPS_MAX : slots_needed(terms);
	size_t local = 0, target = 0;

	most = most < terms->round_ops ? most : terms->round_ops;
	plan->count = 0;
	while (plan->next < terms->ops && plan->count < most && has_room(plan, local, target)) {
		struct op *op = &plan->op[plan->count++];

		*op = choose_op(plan);
		place_op(plan, op, &local, &target);
		plan->next++;
	}
	/* The end of a round must be seen. */
	if (plan->count)
		plan->op[plan->count - 1].signaled = true;
	return plan->count;
}

static uint32_t spread_cut(const struct spread *spread, uint32_t i)
{
	return (uint32_t)((uint64_t)spread->length * i / spread->pieces);
}

struct piece spread_piece(const struct spread *spread, uint32_t i)
{
	uint32_t from = spread_cut(spread, i), to = spread_cut(spread, i + 1);

	return (struct piece){ .at = spread->offset + (spread->length - to) +
				     (size_t)PIECE_GAP * (spread->pieces - 1 - i),
			       .from = from,
			       .length = to - from };
}

size_t spread_size(const struct spread *spread)
{
	return spread->length + (size_t)PIECE_GAP * (spread->pieces - 1);
}

uint32_t slot_size(const struct terms *terms)
{
	uint32_t size = size_max(terms) > RECOGNISED_MIN ? size_max(terms) : RECOGNISED_MIN;

	return (GRH_SIZE + size + 64 + 63) & ~63u;
}

uint32_t slot_count(const struct terms *terms)
{
	uint32_t count = slots_needed(terms);

	if (terms->qp_type == IBV_QPT_RC)
		return 0;
	return count < terms->receives_max ? count : terms->receives_max;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory as it must be. RC executes requests in order, so the model does what the requests say, one
 * after the other, as soon as one of the two sides has seen that they are over. Real memory may be
 * ahead of the model by requests that are posted and not yet known to be over, never behind.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static bool writes(const struct op *op)
{
	return op->opcode == IBV_WR_RDMA_WRITE || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       op->opcode == IBV_WR_ATOMIC_WRITE;
}

static bool is_atomic(const struct op *op)
{
	return op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static void apply_atomic(struct end *target, struct op *op)
{
	uint64_t word;

	memcpy(&word, target->model + op->offset, 8);
	op->original = word;
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		word += op->operand[0];
	else if (word == op->operand[0])
		word = op->operand[1];
	memcpy(target->model + op->offset, &word, 8);
}

static void apply_read(struct end *target, struct op *op)
{
	op->expected = malloc(op->buffer.length + 1);
	if (!op->expected)
		abort();
	memcpy(op->expected, target->model + op->offset, op->buffer.length);
}

static void apply(struct end *target, unsigned index)
{
	struct op *op = &target->peer->ops[index];

	if (op->flaw && op->expect != IBV_WC_SUCCESS) {
		world_fail(target->world, "end %u: op %u is flawed and was executed",
			   target->peer->index, index);
		return;
	}
	if (writes(op))
		buffer_read(&op->buffer, target->model + op->offset, op->buffer.length);
	else if (is_atomic(op))
		apply_atomic(target, op);
	else if (op->opcode == IBV_WR_RDMA_READ)
		apply_read(target, op);
}

void model_apply(struct end *target, unsigned end)
{
	unsigned first = target->applied;

	for (; target->applied < end; target->applied++)
		apply(target, target->applied);
	for (unsigned i = first; i < end; i++) {
		const struct op *op = &target->peer->ops[i];

		if ((writes(op) || is_atomic(op)) &&
		    !model_check(target, op->offset, op->buffer.length))
			return;
	}
}

/* Could the byte at an offset come from one of these requests? */
static bool from_ops(const struct end *sender, unsigned first, unsigned end, uint32_t offset,
		     uint8_t byte)
{
	for (unsigned i = first; i < end; i++) {
		const struct op *op = &sender->ops[i];

		if (op->flaw || offset < op->offset || offset - op->offset >= op->buffer.length)
			continue;
		if (is_atomic(op))
			return true;
		if (writes(op) && buffer_byte(&op->buffer, offset - op->offset) == byte)
			return true;
	}
	return false;
}

bool model_check(struct end *target, uint32_t offset, uint32_t length)
{
	const struct end *sender = target->peer;
	bool strict = target->type == IBV_QPT_RC;

	if (!memcmp(target->region + offset, target->model + offset, length))
		return true;
	for (uint32_t i = offset; i < offset + length; i++) {
		if (target->region[i] == target->model[i] ||
		    from_ops(sender, strict ? target->applied : 0, sender->posted, i,
			     target->region[i]))
			continue;
		world_fail(
			target->world,
			"end %u: byte %u of its region is %02x, the model says %02x after %u ops",
			target->index, i, target->region[i], target->model[i], target->applied);
		return false;
	}
	return true;
}

/* A READ that had to be repeated may see what unfenced requests behind it have written. */
bool model_read_fits(const struct end *reader, unsigned index, const uint8_t *got)
{
	const struct op *op = &reader->ops[index];
	unsigned end = index + 1;

	if (!memcmp(op->expected, got, op->buffer.length))
		return true;
	while (end < reader->posted && !reader->ops[end].fenced)
		end++;
	for (uint32_t i = 0; i < op->buffer.length; i++)
		if (op->expected[i] != got[i] &&
		    !from_ops(reader, index + 1, end, op->offset + i, got[i]))
			return false;
	return true;
}

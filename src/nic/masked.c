/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/masked.h"

#include <string.h>

static void swap_result(const struct vb_masked *op, const uint8_t *old, uint8_t *result)
{
	uint8_t differs = 0;

	for (unsigned i = 0; i < op->width; i++)
		differs |= (uint8_t)((old[i] ^ op->operand[VB_MASKED_COMPARE][i]) &
				     op->operand[VB_MASKED_COMPARE_MASK][i]);
	for (unsigned i = 0; i < op->width; i++) {
		uint8_t mask = differs ? 0 : op->operand[VB_MASKED_SWAP_MASK][i];

		result[i] = (uint8_t)((old[i] & ~mask) | (op->operand[VB_MASKED_SWAP][i] & mask));
	}
}

/* Bit by bit: a boundary may end a field anywhere. */
static void add_result(const struct vb_masked *op, const uint8_t *old, uint8_t *result)
{
	unsigned carry = 0;

	memset(result, 0, op->width);
	for (unsigned bit = 0; bit < 8u * op->width; bit++) {
		unsigned at = bit / 8, shift = bit % 8;
		unsigned sum = (old[at] >> shift & 1u) +
			       (op->operand[VB_MASKED_ADD][at] >> shift & 1u) + carry;

		result[at] = (uint8_t)(result[at] | (sum & 1u) << shift);
		carry = op->operand[VB_MASKED_BOUNDARY][at] >> shift & 1u ? 0 : sum >> 1;
	}
}

void vb_masked_result(const struct vb_masked *op, const uint8_t *old, uint8_t *result)
{
	if (op->compare_swap)
		swap_result(op, old, result);
	else
		add_result(op, old, result);
}

size_t vb_masked_emit(const struct vb_masked *op, uint8_t *out)
{
	const unsigned count = vb_masked_operands(op->compare_swap);

	for (unsigned i = 0; out && i < count; i++)
		memcpy(out + (size_t)i * op->width, op->operand[i], op->width);
	return (size_t)count * op->width;
}

bool vb_masked_parse(bool compare_swap, uint64_t width, const uint8_t *payload, size_t length,
		     struct vb_masked *op)
{
	const unsigned count = vb_masked_operands(compare_swap);

	if (!vb_masked_has_width(width) || length != count * width)
		return false;
	*op = (struct vb_masked){ .compare_swap = compare_swap, .width = (uint8_t)width };
	for (unsigned i = 0; i < count; i++)
		memcpy(op->operand[i], payload + (size_t)i * width, width);
	return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended atomics: compare and swap, and fetch and add, on 1 to 32 bytes and under masks. Numbers
 * have the byte order of this host, which is that of the target: least significant byte first.
 */
#ifndef VB_NIC_MASKED_H
#define VB_NIC_MASKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VB_MASKED_BYTES_MAX = 32,
	VB_MASKED_OPERANDS = 4,
	VB_MASKED_SIZES = 1 | 2 | 4 | 8 | 16 | 32, /* each size is a bit */
};

/* The operands of each operation, in the order of the packet. */
enum vb_masked_operand {
	VB_MASKED_COMPARE = 0,
	VB_MASKED_COMPARE_MASK,
	VB_MASKED_SWAP,
	VB_MASKED_SWAP_MASK,
	VB_MASKED_ADD = 0,
	VB_MASKED_BOUNDARY, /* no carry leaves a bit that is set here */
};

struct vb_masked {
	bool compare_swap; /* else fetch and add */
	uint8_t width;     /* bytes of each operand */
	uint8_t operand[VB_MASKED_OPERANDS][VB_MASKED_BYTES_MAX];
};

static inline bool vb_masked_has_width(uint64_t width)
{
	return width && !(width & ~(uint64_t)VB_MASKED_SIZES) && !(width & (width - 1));
}

static inline unsigned vb_masked_operands(bool compare_swap)
{
	return compare_swap ? 4 : 2;
}

/* The new value of the target's bytes. */
void vb_masked_result(const struct vb_masked *op, const uint8_t *old, uint8_t *result);

/* The operands as the payload of a packet; returns its length. out NULL: the length only. */
size_t vb_masked_emit(const struct vb_masked *op, uint8_t *out);
/* False: no such width, or a payload of another length. */
bool vb_masked_parse(bool compare_swap, uint64_t width, const uint8_t *payload, size_t length,
		     struct vb_masked *op);

#endif

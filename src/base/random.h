/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_RANDOM_H
#define VB_BASE_RANDOM_H

#include <stdint.h>

/* Unpredictable bits from the kernel. */
uint64_t vb_random64(void);

/*
 * A secret permutation of the 24-bit numbers. Keys made with it cannot be guessed from one another,
 * and are unique as long as their indexes are.
 */
struct vb_permutation {
	uint32_t mask_in, mask_out;     /* 24 bits each */
	uint32_t factor[2], inverse[2]; /* odd, and their inverses modulo 2^24 */
};

void vb_permutation_init(struct vb_permutation *p, uint64_t seed);

#define VB_MASK24 0xffffffu

static inline uint32_t vb_permute24(const struct vb_permutation *p, uint32_t x)
{
	x = ((x ^ p->mask_in) * p->factor[0]) & VB_MASK24;
	x ^= x >> 12;
	return ((x * p->factor[1]) & VB_MASK24) ^ p->mask_out;
}

static inline uint32_t vb_unpermute24(const struct vb_permutation *p, uint32_t x)
{
	x = ((x ^ p->mask_out) * p->inverse[1]) & VB_MASK24;
	x ^= x >> 12; /* this step is its own inverse: 12 + 12 = 24 */
	return ((x * p->inverse[0]) & VB_MASK24) ^ p->mask_in;
}

#endif

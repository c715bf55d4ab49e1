/* SPDX-License-Identifier: BSD-2-Clause */
/* Small, fast and the same everywhere: a world is a function of its seed. */
#ifndef VB_TESTS_SIM_RNG_H
#define VB_TESTS_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t x = rng->state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* A generator of its own, so that what one part of a world draws does not move the others. */
static inline struct rng rng_fork(struct rng *rng)
{
	return (struct rng){ rng_next(rng) };
}

/* 0 to count - 1. */
static inline uint32_t rng_below(struct rng *rng, uint32_t count)
{
	return count ? (uint32_t)((rng_next(rng) >> 32) * count >> 32) : 0;
}

static inline uint32_t rng_between(struct rng *rng, uint32_t least, uint32_t most)
{
	return least + rng_below(rng, most - least + 1);
}

/* In parts per 10,000. */
static inline bool rng_chance(struct rng *rng, uint32_t per_10000)
{
	return rng_below(rng, 10000) < per_10000;
}

static inline void rng_fill(struct rng *rng, uint8_t *out, uint32_t length)
{
	for (; length >= 8; length -= 8, out += 8) {
		uint64_t word = rng_next(rng);

		__builtin_memcpy(out, &word, 8);
	}
	for (; length; length--)
		*out++ = (uint8_t)rng_next(rng);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens to a frame on an impaired link. A fate follows from the seed, the direction and the
 * number of the frame alone: not from time, not from what happened to others.
 */
#ifndef NET_FATE_H
#define NET_FATE_H

#include <stdbool.h>
#include <stdint.h>

enum direction { A_TO_B, B_TO_A, DIRECTION_COUNT };

/* Of one direction. Chances are in millionths. */
struct fate_odds {
	uint32_t loss, duplicate, reorder, corrupt, tamper;
	uint32_t overtakers_max; /* how many frames pass a reordered one, at most */
	uint32_t delay_us, jitter_us;
};

struct fate {
	bool lost, duplicated, reordered, corrupted, tampered;
	uint32_t overtakers; /* frames that pass a reordered one: 1 ... overtakers_max */
	uint32_t delay_us;
	uint64_t bit; /* which bit is flipped, modulo the number of bits that may be */
};

struct fate fate_of(const struct fate_odds *odds, uint64_t seed, enum direction direction,
		    uint64_t index);

/* "2", "0.5" or "2,0.5" (a value for each direction) in per cent, to millionths. 0 or -EINVAL. */
int odds_parse(const char *text, uint32_t odds[DIRECTION_COUNT]);

/* The same for whole numbers. */
int pair_parse(const char *text, uint32_t values[DIRECTION_COUNT]);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "fate.h"

#include <errno.h>
#include <stdlib.h>

enum { MILLION = 1000000 };

/* splitmix64. */
static uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static bool happens(uint64_t *state, uint32_t odds)
{
	return mix(state) % MILLION < odds;
}

/* Every fate draws the same numbers, so that changing one chance leaves the others as they were. */
struct fate fate_of(const struct fate_odds *odds, uint64_t seed, enum direction direction,
		    uint64_t index)
{
	uint64_t state = seed ^ (index * DIRECTION_COUNT + direction) * 0xd1342543de82ef95ull;
	struct fate fate = { 0 };

	mix(&state);
	fate.lost = happens(&state, odds->loss);
	fate.duplicated = happens(&state, odds->duplicate);
	fate.reordered = happens(&state, odds->reorder);
	fate.corrupted = happens(&state, odds->corrupt);
	fate.tampered = happens(&state, odds->tamper);
	fate.bit = mix(&state);
	fate.overtakers = 1 + mix(&state) % (odds->overtakers_max ? odds->overtakers_max : 1);
	fate.delay_us = odds->delay_us + mix(&state) % (odds->jitter_us + 1);
	return fate;
}

/* Splits "x" or "x,y" and hands each part to strtod. */
static int doubles_parse(const char *text, double values[DIRECTION_COUNT])
{
	char *end;

	values[A_TO_B] = strtod(text, &end);
	if (end == text)
		return -EINVAL;
	values[B_TO_A] = values[A_TO_B];
	if (*end == ',') {
		text = end + 1;
		values[B_TO_A] = strtod(text, &end);
		if (end == text)
			return -EINVAL;
	}
	return *end ? -EINVAL : 0;
}

int odds_parse(const char *text, uint32_t odds[DIRECTION_COUNT])
{
	double values[DIRECTION_COUNT];
	int err = doubles_parse(text, values);

	for (int i = 0; i < DIRECTION_COUNT && !err; i++) {
		if (!(values[i] >= 0 && values[i] <= 100))
			return -EINVAL;
		odds[i] = (uint32_t)(values[i] * MILLION / 100 + 0.5);
	}
	return err;
}

int pair_parse(const char *text, uint32_t out[DIRECTION_COUNT])
{
	double values[DIRECTION_COUNT];
	int err = doubles_parse(text, values);

	for (int i = 0; i < DIRECTION_COUNT && !err; i++) {
		if (!(values[i] >= 0 && values[i] <= 4e9) || values[i] != (uint32_t)values[i])
			return -EINVAL;
		out[i] = (uint32_t)values[i];
	}
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that a flow offers for one-sided operations, the same layout on both sides:
 *
 *   stream    bytes that never change, for READ
 *   imm       one slot per WRITE_WITH_IMM that may be on its way
 *   scratch   one slot per send WR, for a WRITE and the READ that looks at it
 *   counter   FETCH_AND_ADD adds 1
 *   swap      COMPARE_AND_SWAP counts up
 *   canary    nobody writes here
 */
#ifndef CHAOS_REGION_H
#define CHAOS_REGION_H

#include <stddef.h>
#include <stdint.h>

enum { STREAM_SIZE = 64 << 10, CANARY_SIZE = 4096 };

struct region_map {
	size_t stride; /* of imm and scratch slots */
	size_t imm, scratch, counter, swap, canary;
	size_t size;
};

/* The target never has more than depth receives posted, so depth + 1 imm slots are never reused
 * before the receive that announced them was looked at. */
static inline struct region_map region_map(unsigned depth, uint32_t size_max)
{
	struct region_map map = { .stride = (size_max + 63u) & ~63u, .imm = STREAM_SIZE };

	map.scratch = map.imm + (depth + 1) * map.stride;
	map.counter = map.scratch + depth * map.stride;
	map.swap = map.counter + 64;
	map.canary = map.swap + 64;
	map.size = map.canary + CANARY_SIZE;
	return map;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of work requests: never used twice in a world, so that whoever comes late is caught. */
#include <string.h>

#include "sim.h"

void buffer_make(struct world *world, struct rng *rng, struct buffer *buffer, uint32_t length,
		 unsigned pieces, uint32_t lkey)
{
	uint32_t left = length;

	*buffer = (struct buffer){ .count = pieces, .length = length };
	for (unsigned i = 0; i < pieces; i++) {
		uint32_t part = i + 1 == pieces ? left : rng_below(rng, left + 1);
		uint8_t *at = world_memory(world, part + GUARD_BYTES);

		memset(at, UNWRITTEN, part);
		memset(at + part, GUARD, GUARD_BYTES);
		buffer->sge[i] = (struct ibv_sge){ (uintptr_t)at, part, lkey };
		left -= part;
	}
}

void buffer_fill(struct buffer *buffer, struct rng *rng)
{
	for (unsigned i = 0; i < buffer->count; i++)
		rng_fill(rng, (void *)(uintptr_t)buffer->sge[i].addr, buffer->sge[i].length);
}

void buffer_read(const struct buffer *buffer, uint8_t *out, uint32_t length)
{
	for (unsigned i = 0; i < buffer->count && length; i++) {
		uint32_t part = buffer->sge[i].length < length ? buffer->sge[i].length : length;

		memcpy(out, (const void *)(uintptr_t)buffer->sge[i].addr, part);
		out += part;
		length -= part;
	}
}

uint8_t buffer_byte(const struct buffer *buffer, uint32_t offset)
{
	unsigned i = 0;

	for (; offset >= buffer->sge[i].length; i++)
		offset -= buffer->sge[i].length;
	return ((const uint8_t *)(uintptr_t)buffer->sge[i].addr)[offset];
}

uint64_t bytes_hash(const uint8_t *bytes, uint32_t length, uint64_t seed)
{
	uint64_t hash = seed ^ length, word;

	for (; length >= 8; length -= 8, bytes += 8) {
		memcpy(&word, bytes, 8);
		hash = (hash ^ word) * 0x9fb21c651e98df25ull;
		hash ^= hash >> 32;
	}
	for (; length; length--)
		hash = (hash ^ *bytes++) * 0x100000001b3ull;
	return hash;
}

static uint64_t hash_all(const struct buffer *buffer)
{
	uint64_t hash = 0;

	for (unsigned i = 0; i < buffer->count; i++)
		hash = bytes_hash((const void *)(uintptr_t)buffer->sge[i].addr,
				  buffer->sge[i].length, hash);
	return hash;
}

void buffer_settle(struct buffer *buffer)
{
	buffer->hash = hash_all(buffer);
	buffer->settled = true;
}

bool buffer_intact(const struct buffer *buffer)
{
	static const uint8_t guard[GUARD_BYTES] = { GUARD, GUARD, GUARD, GUARD,
						    GUARD, GUARD, GUARD, GUARD };

	for (unsigned i = 0; i < buffer->count; i++) {
		const uint8_t *end =
			(const uint8_t *)(uintptr_t)buffer->sge[i].addr + buffer->sge[i].length;

		if (memcmp(end, guard, GUARD_BYTES))
			return false;
	}
	return !buffer->settled || hash_all(buffer) == buffer->hash;
}

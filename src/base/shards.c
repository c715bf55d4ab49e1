/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/shards.h"

enum {
	WORD = 8,               /* cuts lie at multiples of this: a NIC writes no less at once */
	PAUSE_NS_MAX = 1500000, /* of all pauses of a copy together */
};

/* The last place for a cut before these bytes; 0: none. */
static size_t cut_at(size_t at, uintptr_t address)
{
	const size_t past = (address + at) % WORD;

	return at > past ? at - past : 0;
}

static void cut(struct vb_shards *shards, uintptr_t address, size_t length)
{
	const unsigned want = 2 + (unsigned)(shards->bits >> 8) % (VB_SHARDS_MAX - 1);
	size_t from = 0;

	shards->count = 0;
	for (unsigned i = 1; i < want; i++) {
		const size_t to = cut_at(length * i / want, address);

		if (to <= from || to >= length)
			continue;
		shards->shard[shards->count++] = (struct vb_shard){ from, to - from };
		from = to;
	}
	shards->shard[shards->count++] = (struct vb_shard){ from, length - from };
}

static void shuffle(struct vb_shards *shards)
{
	uint64_t bits = shards->bits;

	for (unsigned i = shards->count - 1; i > 0; i--) {
		const struct vb_shard kept = shards->shard[i];
		unsigned j;

		bits = vb_adversary_more(bits);
		j = (unsigned)(bits >> 16) % (i + 1);
		shards->shard[i] = shards->shard[j];
		shards->shard[j] = kept;
	}
}

bool vb_shards_begin(struct vb_shards *shards, enum vb_deed deed, uintptr_t address, size_t length)
{
	if (!vb_adversary_on() || length <= WORD ||
	    !vb_adversary_draws_next(deed, 0, &shards->bits))
		return false;
	cut(shards, address, length);
	if (shards->count < 2)
		return false;
	shuffle(shards);
	shards->next = 0;
	vb_adversary_note(deed, 0, 0, "%zu bytes at %p are %s in %u pieces", length,
			  (void *)address, deed == VB_DEED_WRITE_SHARDS ? "written" : "read",
			  shards->count);
	return true;
}

bool vb_shards_next(struct vb_shards *shards, struct vb_shard *shard)
{
	if (shards->next == shards->count)
		return false;
	if (shards->next) {
		shards->bits = vb_adversary_more(shards->bits);
		vb_adversary_pause(
			vb_adversary_time_ns(shards->bits, PAUSE_NS_MAX / (shards->count - 1)));
	}
	*shard = shards->shard[shards->next++];
	return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/rkey.h"

#include "shm/key.h"

static bool range_is_inside(uint64_t start, uint64_t size, uint64_t at, uint64_t length)
{
	return at >= start && at - start <= size && length <= size - (at - start);
}

/* The remembered key still opens the entry. */
static bool key_is_valid(const struct vb_key_cache *cache, uint32_t word)
{
	return (word & VB_KEY_AS_RKEY) == cache->word;
}

/* A key that is still valid is still in the entry where the cache found it. */
static const struct vb_key_entry *key_find(struct vb_peer *target, struct vb_key_cache *cache,
					   uint32_t rkey)
{
	const struct vb_key_entry *entry = cache->entry;

	if (cache->rkey == rkey && entry && key_is_valid(cache, atomic_load(&entry->word)))
		return entry;
	entry = cache->entry = vb_peer_key(target, rkey, true);
	cache->rkey = rkey;
	/* Inside a hazard the entry keeps its object; only the tag of a window may change. */
	if (entry)
		cache->word = VB_KEY_VALID | (atomic_load(&entry->word) & VB_KEY_EQUAL) |
			      (rkey & 0xff) << 8;
	return entry;
}

static enum vb_reason key_why_unknown(struct vb_peer *target, uint32_t rkey)
{
	return vb_peer_key(target, rkey, false) ? VB_WHY_RKEY_IS_LKEY : VB_WHY_RKEY_UNKNOWN;
}

enum vb_reason vb_rkey_check(struct vb_peer *target, struct vb_key_cache *cache, uint32_t pd,
			     uint32_t qpn, uint32_t rkey, uint64_t va, uint64_t length,
			     unsigned access, uint64_t *address)
{
	const struct vb_key_entry *entry = key_find(target, cache, rkey);
	uint32_t word;

	if (!entry)
		return key_why_unknown(target, rkey);
	if (entry->pd != pd || (entry->kind == VB_KEY_WINDOW_2 && entry->qpn != qpn))
		return VB_WHY_RKEY_PD;
	if (access & ~entry->access)
		return entry->kind == VB_KEY_INDIRECT ? VB_WHY_RKEY_INDIRECT : VB_WHY_RKEY_RIGHT;
	if (!range_is_inside(entry->iova, entry->length, va, length))
		return VB_WHY_RKEY_RANGE;
	*address = entry->addr + (va - entry->iova);
	/* A window that was bound anew since has another key; pairs with the fence in
	 * vb_mw_bind. */
	atomic_thread_fence(memory_order_acquire);
	word = atomic_load(&entry->word);
	if (__builtin_expect(entry->kind == VB_KEY_WINDOW_2, 0) &&
	    vb_key_is_taken_back(vb_peer_key_invalid(target, entry), word))
		return VB_WHY_RKEY_UNKNOWN;
	return key_is_valid(cache, word) ? VB_OK : VB_WHY_RKEY_UNKNOWN;
}

enum vb_reason vb_rkey_pieces(struct vb_peer *target, struct vb_key_cache *cache, uint32_t pd,
			      uint32_t rkey, uint64_t va, uint64_t length, unsigned access,
			      struct vb_pieces *pieces)
{
	const struct vb_key_entry *entry = key_find(target, cache, rkey);

	if (!entry)
		return key_why_unknown(target, rkey);
	if (entry->pd != pd)
		return VB_WHY_RKEY_PD;
	if (entry->kind != VB_KEY_INDIRECT ||
	    !vb_pattern_find(target, entry, va, length, access, pieces))
		return VB_WHY_RKEY_PATTERN;
	return key_is_valid(cache, atomic_load(&entry->word)) ? VB_OK : VB_WHY_RKEY_UNKNOWN;
}

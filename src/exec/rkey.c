/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/rkey.h"
#include "nic/key.h"

static bool inside(uint64_t start, uint64_t size, uint64_t at, uint64_t length)
{
	return at >= start && at - start <= size && length <= size - (at - start);
}

/* Where the key was last time it still is, if it is valid at all. */
static const struct vb_key_entry *find(struct vb_peer *target, struct vb_key_cache *cache,
				       uint32_t rkey)
{
	if (cache->rkey != rkey || !cache->entry ||
	    !vb_key_matches(atomic_load(&cache->entry->word), rkey, true)) {
		cache->entry = vb_peer_key(target, rkey, true);
		cache->rkey = rkey;
	}
	return cache->entry;
}

enum vb_reason vb_rkey_check(struct vb_peer *target, struct vb_key_cache *cache,
			     uint32_t pd, uint32_t qpn, uint32_t rkey, uint64_t va, uint64_t length,
			     unsigned access, uint64_t *address)
{
	const struct vb_key_entry *entry = find(target, cache, rkey);
	uint32_t word;

	if (!entry)
		return VB_RKEY_UNKNOWN;
	if (entry->pd != pd || (entry->kind == VB_KEY_WINDOW_2 && entry->qpn != qpn))
		return VB_RKEY_PD;
	if (access & ~entry->access)
		return VB_RKEY_RIGHT;
	if (!inside(entry->iova, entry->length, va, length))
		return VB_RKEY_RANGE;
	*address = entry->addr + (va - entry->iova);
	/* A window that was bound anew meanwhile has another key; pairs with the fence in vb_mw_bind. */
	atomic_thread_fence(memory_order_acquire);
	word = atomic_load(&entry->word);
	if (__builtin_expect(entry->kind == VB_KEY_WINDOW_2, 0) &&
	    vb_key_is_taken_back(vb_peer_key_invalid(target, entry), word))
		return VB_RKEY_UNKNOWN;
	return vb_key_matches(word, rkey, true) ? VB_OK : VB_RKEY_UNKNOWN;
}

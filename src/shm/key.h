/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An lkey or rkey is permute24(2 * index + rkey_only) << 8 | tag: nobody can guess it. The lkey of
 * a region is its rkey as well, as on NICs, and its entry says so (VB_KEY_EQUAL). The key of a
 * window is an rkey only. With VERBENA_KEYS=distinct a region has an rkey of that kind, too: then
 * its lkey, used as an rkey, matches nothing.
 */
#ifndef VB_SHM_KEY_H
#define VB_SHM_KEY_H

#include "shm/layout.h"

static inline uint32_t vb_key_encode(const struct vb_permutation *p, uint32_t index, bool rkey_only,
				     uint8_t tag)
{
	return vb_permute24(p, 2 * index + rkey_only) << 8 | tag;
}

static inline bool vb_key_decode(const struct vb_permutation *p, uint32_t key, bool *rkey_only,
				 uint32_t *index)
{
	uint32_t id = vb_unpermute24(p, key >> 8);

	*rkey_only = id & 1;
	*index = id / 2;
	return id / 2 < VB_KEY_MAX;
}

/* The tag of the key is the one in the entry's word (layout.h). */
static inline bool vb_key_matches(uint32_t word, uint32_t key, bool rkey)
{
	return word & VB_KEY_VALID && (uint8_t)(rkey ? word >> 8 : word) == (uint8_t)key;
}

/* The entry has a key of this kind for this use. */
static inline bool vb_key_serves(uint32_t word, bool rkey_only, bool as_rkey)
{
	return as_rkey ? rkey_only == !(word & VB_KEY_EQUAL) : !rkey_only;
}

/* A sender invalidated the type 2 window whose entry has this word. */
static inline bool vb_key_is_taken_back(const _Atomic uint32_t *invalid, uint32_t word)
{
	return invalid && atomic_load(invalid) == word;
}

/* Looks for a key that another NIC made (an imported region), after the own keys. */
static inline bool vb_key_find_alias(const struct vb_segment_head *head, uint32_t key,
				     bool *rkey_only, uint32_t *index)
{
	uint32_t count = atomic_load_explicit(&head->alias_count, memory_order_acquire);

	for (uint32_t i = 0; i < count && i < VB_KEY_ALIASES; i++)
		if (atomic_load_explicit(&head->aliases[i].key, memory_order_acquire) == key) {
			*index = __atomic_load_n(&head->aliases[i].index, __ATOMIC_RELAXED);
			*rkey_only = __atomic_load_n(&head->aliases[i].rkey_only, __ATOMIC_RELAXED);
			return *index < VB_KEY_MAX;
		}
	return false;
}

#endif

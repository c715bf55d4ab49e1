/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lkeys and rkeys: permute24(2 * index + rkey_only) << 8 | tag. They cannot be guessed. The lkey of a
 * region is its rkey as well, as on NICs, and its entry says so (VB_KEY_EQUAL). Windows have no lkey:
 * theirs is an rkey only. With VERBENA_KEYS=distinct the rkey of a region is one, too, and an lkey that is
 * given as an rkey never matches anything.
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

/* Word of a key entry: see layout.h. */
static inline bool vb_key_matches(uint32_t word, uint32_t key, bool rkey)
{
	return word & VB_KEY_VALID && (uint8_t)(rkey ? word >> 8 : word) == (uint8_t)key;
}

/* A key of this kind is the one that its entry has for the use that is made of it. */
static inline bool vb_key_serves(uint32_t word, bool rkey_only, bool as_rkey)
{
	return as_rkey ? rkey_only == !(word & VB_KEY_EQUAL) : !rkey_only;
}

/* A sender took the type 2 window back that has this word. */
static inline bool vb_key_is_taken_back(const _Atomic uint32_t *invalid, uint32_t word)
{
	return invalid && atomic_load(invalid) == word;
}

/* Keys that another NIC made are looked for in a list, after the own ones. */
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

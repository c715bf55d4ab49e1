/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote memory without a system call: bytes of a mapped region, through its view (shm/view.h). */
#ifndef VB_EXEC_MAPPED_H
#define VB_EXEC_MAPPED_H

#include "nic/hazard.h"
#include "shm/view.h"

struct vb_mapped {
	char *at; /* NULL: the kernel copies */
	const struct vb_shown_map *shown;
	uint64_t serial;
};

/* The part of vb_mapped_at for a region that is mapped. */
struct vb_mapped vb_mapped_find(struct vb_peer *target, uint32_t index, uint64_t address,
				uint64_t length, bool writes);

/*
 * The bytes [address, address + length) of the target, mapped here. The caller is inside a hazard
 * and has found the entry valid. It announces the copy (vb_hazard_copy_begin) after this call: so
 * the entry has not changed since.
 */
static inline struct vb_mapped vb_mapped_at(struct vb_peer *target,
					    const struct vb_key_entry *entry, uint64_t address,
					    uint64_t length, bool writes)
{
	uint32_t map = atomic_load_explicit(&entry->map, memory_order_acquire);

	if (!map || target->self)
		return (struct vb_mapped){ 0 };
	return vb_mapped_find(target, map - 1, address, length, writes);
}

/*
 * After a copy; false: the region has ended meanwhile, and the copy may have been in vain. The
 * stores of the copy come before this load: the owner has a barrier for both (vb_map_leave_end).
 */
static inline bool vb_mapped_is_current(const struct vb_mapped *mapped,
					const struct vb_thread *thread)
{
	if (__builtin_expect(*thread->fences, 0))
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	return atomic_load_explicit(&mapped->shown->serial, memory_order_acquire) == mapped->serial;
}

/* Counts a copy of so many bytes that went through the kernel. When moving the region would have
 * cost as much, the owner is asked for it. */
void vb_mapped_spent(struct vb_peer *target, const struct vb_key_cache *key, uint64_t bytes);

#endif

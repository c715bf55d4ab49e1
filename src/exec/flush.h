/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH: earlier writes become visible to all CPUs, or durable. Memory that CPUs share is visible
 * as soon as it is written. This device knows of no durable memory.
 */
#ifndef VB_EXEC_FLUSH_H
#define VB_EXEC_FLUSH_H

#include "abi/flush.h"
#include "exec/reason.h"
#include "shm/peer.h"

/* The FETH: enum ibv_placement_type, and from the shift on enum ibv_selectivity_level. */
enum { VB_FLUSH_TYPES = 0xf, VB_FLUSH_SELECT_SHIFT = 4 };

struct vb_flush {
	uint32_t feth;
	uint32_t rkey;
	uint64_t va, length;
	unsigned qp_access; /* access flags of the target's QP */
};

/* Executes a flush that QP qpn of the target has received; VB_OK: done. */
enum vb_reason vb_flush_apply(struct vb_peer *target, struct vb_key_cache *cache, uint32_t pd,
			      uint32_t qpn, const struct vb_flush *flush);

#endif

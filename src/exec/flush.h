/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH: what was written before becomes visible to everybody, or durable. Memory that the CPUs
 * share is visible as soon as it is written; durable memory is none that this device knows of.
 */
#ifndef VB_EXEC_FLUSH_H
#define VB_EXEC_FLUSH_H

#include "exec/reason.h"
#include "shm/peer.h"

/* The FETH: what kind of placement, and whether of a range or of the whole region. */
enum {
	VB_FLUSH_GLOBAL = 1 << 0,
	VB_FLUSH_PERSISTENT = 1 << 1,
	VB_FLUSH_TYPES = 0xf,
	VB_FLUSH_SELECT_SHIFT = 4,
	VB_FLUSH_SELECT_RANGE = 0,
	VB_FLUSH_SELECT_REGION = 1,
};

struct vb_flush {
	uint32_t feth;
	uint32_t rkey;
	uint64_t va, length;
	unsigned qp_access; /* what the QP allows */
};

/* Of a request that QP qpn of the target has; VB_OK: it is done. */
enum vb_reason vb_flush_apply(struct vb_peer *target, struct vb_key_cache *cache, uint32_t pd,
			      uint32_t qpn, const struct vb_flush *flush);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks whether a remote key allows an operation, and finds its place in the target's memory. */
#ifndef VB_EXEC_RKEY_H
#define VB_EXEC_RKEY_H

#include "exec/reason.h"
#include "shm/pattern.h"

/* pd and qpn belong to the target. On VB_OK *address is a place in the target's address space. */
enum vb_reason vb_rkey_check(struct vb_peer *target, struct vb_key_cache *cache, uint32_t pd,
			     uint32_t qpn, uint32_t rkey, uint64_t va, uint64_t length,
			     unsigned access, uint64_t *address);

/* The same for a key that is indirect (VB_WHY_RKEY_INDIRECT): all bytes are checked; pieces has as
 * many of them, from the first on, as it has room for. */
enum vb_reason vb_rkey_pieces(struct vb_peer *target, struct vb_key_cache *cache, uint32_t pd,
			      uint32_t rkey, uint64_t va, uint64_t length, unsigned access,
			      struct vb_pieces *pieces);

#endif

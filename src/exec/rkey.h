/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks whether a remote key allows an operation, and finds its place in the target's memory. */
#ifndef VB_EXEC_RKEY_H
#define VB_EXEC_RKEY_H

#include "exec/reason.h"
#include "shm/peer.h"

/* pd and qpn belong to the target. On VB_OK *address is a place in the target's address space. */
enum vb_reason vb_rkey_check(struct vb_peer *target, struct vb_key_cache *cache, uint32_t pd,
			     uint32_t qpn, uint32_t rkey, uint64_t va, uint64_t length,
			     unsigned access, uint64_t *address);

#endif

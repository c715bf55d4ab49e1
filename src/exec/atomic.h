/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_EXEC_ATOMIC_H
#define VB_EXEC_ATOMIC_H

#include "nic/masked.h"
#include "shm/peer.h"

struct vb_atomic {
	bool write;        /* ATOMIC WRITE: swap, whatever the old value */
	bool compare_swap; /* else fetch and add */
	uint64_t compare_add, swap;
};

/*
 * Applies an atomic to 8 aligned bytes of the target's memory; *old is the value before. The
 * operation is atomic against all other RDMA atomics to that process. -EAGAIN: another atomic is
 * under way there; -EFAULT, -ESRCH, -EPERM. mapped: the same bytes in a view (mapped.h), or NULL.
 * Every atomic holds the lock of the target. So those through a view, those through the kernel and
 * those of the wire are atomic against each other, also while a region moves.
 */
int vb_atomic_apply(struct vb_peer *target, uint64_t address, void *mapped,
		    const struct vb_atomic *op, uint64_t *old);
/* The same for an extended atomic, whose width the address is a multiple of. */
int vb_masked_apply(struct vb_peer *target, uint64_t address, void *mapped,
		    const struct vb_masked *op, uint8_t *old);

#endif

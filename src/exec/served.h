/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA READs and WRITEs at their target, for its completion counters (nic/comp_cntr.h). The thread
 * that executes the operation counts: a peer of this host, or the responder of the wire. An
 * operation is counted once its bytes are read or written.
 */
#ifndef VB_EXEC_SERVED_H
#define VB_EXEC_SERVED_H

#include "shm/layout.h"

/* entry and lent are those of the target QP. Without a counter it costs one load and a branch. */
static inline void vb_served_done(const struct vb_qp_entry *entry, struct vb_qp_lent *lent,
				  enum vb_served op, uint32_t bytes)
{
	uint8_t counts = atomic_load_explicit(&entry->counts, memory_order_relaxed);

	if (__builtin_expect(!counts, 1))
		return;
	/* Release: the counter's reader sees the bytes that were written. */
	if (counts & VB_COUNTS_NUMBER << op)
		atomic_fetch_add_explicit(&lent->served[op], 1, memory_order_release);
	else if (counts & VB_COUNTS_BYTES << op)
		atomic_fetch_add_explicit(&lent->served[op], bytes, memory_order_release);
}

/* The target has refused the operation. */
static inline void vb_served_refused(const struct vb_qp_entry *entry, struct vb_qp_lent *lent,
				     enum vb_served op)
{
	if (atomic_load_explicit(&entry->counts, memory_order_relaxed) &
	    (VB_COUNTS_NUMBER | VB_COUNTS_BYTES) << op)
		atomic_fetch_add_explicit(&lent->served_errors[op], 1, memory_order_release);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shelf of a receive queue with one sender: places for payload that is too large for the spill
 * of a cell. Sender and poller copy it once each. Up to some KB that takes less time than the
 * system call by which the sender copies straight to the buffers of a receive.
 */
#include "nic/nic.h"
#include "nic/rq.h"

enum {
	SHELF_BYTES = VB_SHELF_PLACES * VB_SHELF_PLACE,
	SHELVES_MAX = 256, /* of a process: 64 MB, of which pages that were used are in memory */
};

void vb_rq_shelf_make(struct vb_rq *rq)
{
	struct vb_nic *nic = rq->nic;

	if (rq->many || atomic_load(&rq->shelf) || nic->shelf_count == SHELVES_MAX)
		return;
	rq->shelf_offset = vb_segment_lend(&nic->seg, SHELF_BYTES);
	if (!rq->shelf_offset)
		return;
	nic->shelf_count++;
	atomic_store(&rq->shelf, vb_segment_at(&nic->seg, rq->shelf_offset));
	/* Last: from now on messages may be there. */
	atomic_store(&rq->shared->shelf, rq->shelf_offset);
}

void vb_rq_shelf_drop(struct vb_rq *rq)
{
	if (!atomic_load(&rq->shelf))
		return;
	atomic_store(&rq->shared->shelf, 0);
	atomic_store(&rq->shelf, NULL);
	vb_nic_free_later(rq->nic, rq->qpn, rq->shelf_offset, SHELF_BYTES);
	rq->nic->shelf_count--;
}

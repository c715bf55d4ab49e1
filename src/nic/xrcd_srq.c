/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC SRQs, which messages name by number: the number, and the entry that peers see. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "nic/lane.h"
#include "nic/xrcd.h"

static struct vb_srq_entry *entry_make(struct vb_nic *nic, uint32_t index)
{
	_Atomic uint64_t *page = &nic->seg.head->srq_pages[index / VB_SRQ_PAGE];
	uint64_t offset = atomic_load(page);

	if (!offset) {
		offset = vb_segment_alloc(&nic->seg, VB_SRQ_PAGE * sizeof(struct vb_srq_entry));
		if (!offset)
			return NULL;
		atomic_store_explicit(page, offset, memory_order_release);
	}
	return (struct vb_srq_entry *)vb_segment_at(&nic->seg, offset) + index % VB_SRQ_PAGE;
}

/* Numbers are not used again soon. Under nic->lock. */
static int number_take(struct vb_nic *nic, struct vb_srq *srq)
{
	if (!nic->xrc_srqs)
		nic->xrc_srqs = calloc(VB_XRC_SRQ_MAX, sizeof(struct vb_srq *));
	for (unsigned i = 0; nic->xrc_srqs && i < VB_XRC_SRQ_MAX; i++) {
		uint32_t index = nic->next_xrc_srq++ % VB_XRC_SRQ_MAX;

		if (nic->xrc_srqs[index])
			continue;
		srq->entry = entry_make(nic, index);
		if (!srq->entry)
			break;
		nic->xrc_srqs[index] = srq;
		srq->number = nic->seg.head->slot << VB_QP_INDEX_BITS | index;
		return 0;
	}
	vb_explain("ibv_create_srq_ex: all %d XRC SRQs are in use, or there is no memory",
		   VB_XRC_SRQ_MAX);
	return -ENOMEM;
}

static void show(struct vb_srq *srq)
{
	struct vb_srq_entry *entry = srq->entry;

	entry->rq = srq->rq.shared_offset;
	entry->cq = srq->cq->shared_offset;
	entry->xrcd = srq->xrcd->id;
	entry->number = srq->number;
	entry->pd = srq->pd->id;
	entry->ready_bit = srq->receives.bit;
	atomic_store(&entry->gate, atomic_fetch_add(&srq->rq.nic->next_epoch, 1));
}

int vb_srq_join_xrcd(struct vb_srq *srq, struct vb_xrcd *xrcd, struct vb_cq *cq)
{
	struct vb_nic *nic = srq->rq.nic;
	int err;

	pthread_mutex_lock(&nic->lock);
	err = number_take(nic, srq);
	if (!err) {
		srq->receives = (struct vb_cq_queue){ .kind = VB_CQ_ARRIVALS,
						      .rq = &srq->rq,
						      .arrivals = &srq->rq.arrivals,
						      .depth = srq->rq.depth };
		err = vb_cq_attach(cq, &srq->receives);
		if (err)
			nic->xrc_srqs[srq->number % VB_XRC_SRQ_MAX] = NULL;
	}
	if (!err) {
		srq->xrcd = xrcd;
		srq->cq = cq;
		atomic_fetch_or(&cq->lanes, 1u << VB_LANE_FIRST); /* of XRC_RECV QPs */
		atomic_fetch_add(&xrcd->users, 1);
		srq->ibv.handle = srq->number;
		show(srq);
	}
	pthread_mutex_unlock(&nic->lock);
	return err;
}

/* Hazards name the QP and not the SRQ: any memory they reach may belong to the SRQ's receives. */
static int close_gate(struct vb_srq *srq)
{
	const struct vb_ending ending = { .memory = true, .all = true };
	uint32_t slot;

	atomic_store(&srq->entry->gate, 0);
	if (vb_grace_pass(srq->rq.nic, &ending, &slot) >= 0)
		return 0;
	vb_explain(
		"SRQ 0x%06x: the process with slot %u is stopped while it writes here; continue or "
		"end it, then destroy again",
		srq->number, slot);
	return -EBUSY;
}

int vb_srq_leave_xrcd(struct vb_srq *srq)
{
	struct vb_nic *nic = srq->rq.nic;
	int err = close_gate(srq);

	if (err)
		return err;
	pthread_mutex_lock(&nic->lock);
	vb_cq_detach(&srq->receives);
	nic->xrc_srqs[srq->number % VB_XRC_SRQ_MAX] = NULL;
	pthread_mutex_unlock(&nic->lock);
	atomic_fetch_sub(&srq->xrcd->users, 1);
	return 0;
}

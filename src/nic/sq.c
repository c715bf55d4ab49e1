/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/sq.h"

#include <errno.h>
#include <stdlib.h>

int vb_sq_init(struct vb_sq *sq, uint32_t depth, uint32_t sge_max, uint32_t inline_max)
{
	uint32_t payload = sge_max * (uint32_t)sizeof(struct ibv_sge), size = 1;

	if (payload < sizeof(struct vb_mw_bind))
		payload = sizeof(struct vb_mw_bind);
	if (payload < inline_max)
		payload = inline_max;
	while (size < depth)
		size *= 2;
	sq->depth = depth;
	sq->mask = size - 1;
	sq->sge_max = sge_max;
	sq->inline_max = inline_max;
	sq->stride = ((uint32_t)offsetof(struct vb_wqe, sge) + payload + 63) & ~63u;
	if (sq->stride < sizeof(struct vb_wqe))
		sq->stride = 128;
	sq->slots = vb_buffer_alloc(sq->pd, (size_t)size * (sq->stride + sizeof(*sq->stamps)),
				    VB_BUFFER_SQ);
	if (!sq->slots)
		return -ENOMEM;
	sq->stamps = (uint64_t *)(sq->slots + (size_t)size * sq->stride);
	return 0;
}

void vb_sq_drop_aside(struct vb_sq *sq, struct vb_aside *aside)
{
	struct vb_aside **at = &sq->aside;

	while (*at != aside)
		at = &(*at)->next;
	*at = aside->next;
	atomic_fetch_sub_explicit(&sq->aside_count, 1, memory_order_relaxed);
	free(aside);
}

static void drop_references(struct vb_sq *sq)
{
	while (sq->aside)
		vb_sq_drop_aside(sq, sq->aside);
	for (uint32_t i = sq->next; i != sq->tail; i++)
		vb_ah_put(vb_sq_wqe(sq, i)->ah);
}

void vb_sq_fini(struct vb_sq *sq)
{
	drop_references(sq);
	vb_buffer_free(sq->pd, sq->slots, VB_BUFFER_SQ);
}

void vb_sq_reset(struct vb_sq *sq)
{
	drop_references(sq);
	sq->tail = sq->next = sq->scanned = 0;
	atomic_store(&sq->offset, 0);
	atomic_store(&sq->internal, 0);
	sq->hold = VB_SQ_FLOWS;
	sq->receives = 0;
	memset(&sq->captured, 0, sizeof(sq->captured));
	atomic_store(&sq->done, 0);
	atomic_store(&sq->retired, 0);
}

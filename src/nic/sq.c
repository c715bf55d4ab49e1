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
	sq->slots = aligned_alloc(64, (size_t)size * sq->stride);
	return sq->slots ? 0 : -ENOMEM;
}

static void drop_references(struct vb_sq *sq)
{
	for (uint32_t i = sq->next; i != sq->tail; i++)
		vb_ah_put(vb_sq_wqe(sq, i)->ah);
}

void vb_sq_fini(struct vb_sq *sq)
{
	drop_references(sq);
	free(sq->slots);
}

void vb_sq_reset(struct vb_sq *sq)
{
	drop_references(sq);
	sq->tail = sq->next = sq->offset = sq->scanned = 0;
	sq->reads_executed = 0;
	sq->stuck = false;
	atomic_store(&sq->reads_retired, 0);
	atomic_store(&sq->done, 0);
	atomic_store(&sq->retired, 0);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload that rode in a cell goes to the buffers of its receive. The sender wrote the bytes. Their
 * target, and how many fit, comes from the owner's twin.
 */
#include <string.h>

#include "nic/odp.h"
#include "nic/rq.h"

static bool scatter_list(const struct vb_recv_wqe *twin, const uint8_t *from, uint32_t left)
{
	for (unsigned i = 0; left && i < twin->sge_count; i++) {
		uint32_t part = twin->sge[i].length < left ? twin->sge[i].length : left;
		void *to = (void *)(uintptr_t)twin->sge[i].addr;

		if (!(twin->flags & VB_CELL_PLACE))
			memcpy(to, from, part);
		else if (!vb_user_write(to, from, part))
			return false;
		from += part;
		left -= part;
	}
	return true;
}

/* The keys were not good at the post, or a region ended since: are they good now? */
static bool keys_cover(const struct vb_rq *rq, const struct vb_recv_wqe *twin)
{
	for (unsigned i = 0; i < twin->sge_count; i++)
		if (!vb_peer_key_covers(rq->nic->self, rq->pd->id, &twin->sge[i]))
			return false;
	return true;
}

/* NULL: no sender can have put anything there. */
static const uint8_t *shelf_place(const struct vb_rq *rq, const struct vb_cell *cell)
{
	const uint8_t *shelf = atomic_load_explicit(&rq->shelf, memory_order_acquire);
	const size_t place = (VB_READ_ONCE(cell->place) - 1u) % VB_SHELF_PLACES;

	return shelf ? shelf + place * VB_SHELF_PLACE : NULL;
}

bool vb_rq_scatter(struct vb_rq *rq, const struct vb_cell *cell, uint32_t index,
		   enum vb_cell_where where, uint32_t length)
{
	const struct vb_recv_wqe *twin = vb_rq_twin(rq, index);
	bool rode = where == VB_PAYLOAD_INLINE;
	const uint8_t *from =
		rode ? cell->payload : rq->spill + (size_t)(index & rq->mask) * VB_SPILL;
	uint32_t limit = rode ? VB_INLINE_CELL : VB_SPILL;

	if (where == VB_PAYLOAD_SHELF) {
		from = shelf_place(rq, cell);
		limit = VB_SHELF_PLACE;
		if (!from)
			return false;
	}
	if (__builtin_expect(!(twin->flags & VB_CELL_KEYS_OK), 0) && !keys_cover(rq, twin))
		return false;
	return scatter_list(twin, from, length < limit ? length : limit);
}

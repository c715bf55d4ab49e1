/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/rq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "nic/mr.h"

enum { GROW_MS = 1000 }; /* time that all calls together wait for a thread that stays inside */

static uint32_t ring_size(uint32_t depth, bool many)
{
	uint32_t cells = many ? 2 * depth : depth, size = 1;

	while (size < cells)
		size *= 2;
	return size;
}

static int ring_alloc(struct vb_rq *rq)
{
	struct vb_segment *seg = &rq->nic->seg;
	size_t cells = (size_t)rq->mask + 1;

	rq->cells_offset = vb_segment_lend(seg, cells * sizeof(struct vb_cell));
	rq->spill_offset = vb_segment_lend(seg, cells * VB_SPILL);
	rq->sges_offset = vb_segment_alloc(seg, cells * rq->sges_stride);
	if (!rq->cells_offset || !rq->spill_offset || !rq->sges_offset) {
		vb_segment_free(seg, rq->cells_offset, cells * sizeof(struct vb_cell));
		vb_segment_free(seg, rq->spill_offset, cells * VB_SPILL);
		vb_segment_free(seg, rq->sges_offset, cells * rq->sges_stride);
		return -ENOMEM;
	}
	rq->cells = vb_segment_at(seg, rq->cells_offset);
	atomic_store(&rq->walk_at, vb_rq_cell(rq, vb_rq_head(rq)));
	atomic_store(&rq->walk_next, vb_rq_cell(rq, vb_rq_head(rq) + 1));
	rq->spill = vb_segment_at(seg, rq->spill_offset);
	rq->sges = vb_segment_at(seg, rq->sges_offset);
	return 0;
}

static void ring_free_later(struct vb_rq *rq)
{
	size_t cells = (size_t)rq->mask + 1;

	vb_nic_free_later(rq->nic, rq->qpn, rq->cells_offset, cells * sizeof(struct vb_cell));
	vb_nic_free_later(rq->nic, rq->qpn, rq->spill_offset, cells * VB_SPILL);
	vb_nic_free_later(rq->nic, rq->qpn, rq->sges_offset, cells * rq->sges_stride);
}

static void shared_describe(struct vb_rq *rq)
{
	rq->shared->cells = rq->cells_offset;
	rq->shared->spill = rq->spill_offset;
	rq->shared->sges = rq->sges_offset;
	rq->shared->lent = rq->lent_offset;
	rq->shared->mask = rq->mask;
	rq->shared->sges_stride = rq->sges_stride;
	rq->shared->many = rq->many;
	rq->shared->pd = rq->pd->id;
}

/* Allocates the part that stays when the ring is replaced, and the first ring. */
static int shared_alloc(struct vb_rq *rq)
{
	struct vb_segment *seg = &rq->nic->seg;

	rq->shared_offset = vb_segment_alloc(seg, sizeof(*rq->shared));
	rq->lent_offset = vb_segment_lend(seg, sizeof(*rq->lent));
	if (!rq->shared_offset || !rq->lent_offset || ring_alloc(rq)) {
		vb_segment_free(seg, rq->shared_offset, sizeof(*rq->shared));
		vb_segment_free(seg, rq->lent_offset, sizeof(*rq->lent));
		return -ENOMEM;
	}
	rq->shared = vb_segment_at(seg, rq->shared_offset);
	rq->lent = vb_segment_at(seg, rq->lent_offset);
	return 0;
}

int vb_rq_init(struct vb_rq *rq, struct vb_pd *pd, uint32_t depth, uint32_t sge_max, bool many)
{
	rq->nic = pd->nic;
	rq->pd = pd;
	rq->depth = rq->open_max = depth;
	rq->sge_max = sge_max;
	rq->many = many;
	rq->mask = ring_size(depth ? depth : 1, many) - 1;
	rq->sges_stride = (uint32_t)(sizeof(struct vb_recv_sges) +
				     (sge_max ? sge_max : 1) * sizeof(struct ibv_sge));
	rq->twin_stride = (uint32_t)(sizeof(struct vb_recv_wqe) +
				     (sge_max ? sge_max : 1) * sizeof(struct ibv_sge));
	rq->twins = vb_buffer_alloc(rq->pd, ((size_t)rq->mask + 1) * rq->twin_stride, VB_BUFFER_RQ);
	if (!rq->twins || shared_alloc(rq)) {
		vb_buffer_free(rq->pd, rq->twins, VB_BUFFER_RQ);
		return -ENOMEM;
	}
	shared_describe(rq);
	vb_spin_lock(&rq->nic->rqs_lock);
	vb_list_append(&rq->nic->rqs, &rq->node);
	vb_spin_unlock(&rq->nic->rqs_lock);
	return 0;
}

void vb_rq_fini(struct vb_rq *rq)
{
	vb_spin_lock(&rq->nic->rqs_lock);
	vb_list_remove(&rq->node);
	vb_spin_unlock(&rq->nic->rqs_lock);
	ring_free_later(rq);
	vb_rq_shelf_drop(rq);
	vb_nic_free_later(rq->nic, rq->qpn, rq->shared_offset, sizeof(*rq->shared));
	vb_nic_free_later(rq->nic, rq->qpn, rq->lent_offset, sizeof(*rq->lent));
	vb_buffer_free(rq->pd, rq->twins, VB_BUFFER_RQ);
	free(rq->taken);
}

int vb_rq_reset(struct vb_rq *rq)
{
	struct vb_grace grace;
	struct vb_rq old = *rq;

	if (!rq->tail && vb_rq_empty(rq))
		return 0;
	vb_grace_begin(rq->nic, &grace, &(struct vb_ending){ .qpn = rq->qpn }, true);
	if (vb_grace_over(&grace)) {
		memset(rq->cells, 0, ((size_t)rq->mask + 1) * sizeof(*rq->cells));
	} else {
		/* A sender that has not noticed may still write to the old ring, so that stays. */
		vb_grace_drop(&grace);
		if (ring_alloc(rq)) {
			*rq = old;
			return -ENOMEM;
		}
		ring_free_later(&old);
		shared_describe(rq);
		vb_rq_shelf_drop(rq);
	}
	vb_spin_lock(&rq->lock);
	rq->shelf_left = 0;
	atomic_store(&rq->shared->shelf_left, 0);
	vb_rq_for_open(twin, rq) atomic_store(&twin->open, VB_RECV_CLOSED);
	rq->tail = 0;
	atomic_store(&rq->taken_count, 0);
	atomic_store(&rq->arrivals.count, 0);
	atomic_store(&rq->head, 0);
	atomic_store(&rq->walk_at, rq->cells);
	atomic_store(&rq->walk_next, vb_rq_cell(rq, 1));
	atomic_store(&rq->posted, 0);
	atomic_store(&rq->consumed, 0);
	atomic_store(&rq->shared->tail, 0);
	atomic_store(&rq->lent->head, 0);
	atomic_store(&rq->lent->waiting, 0);
	vb_spin_unlock(&rq->lock);
	return 0;
}

static void copy_ring(struct vb_rq *to, const struct vb_rq *from)
{
	vb_rq_for_open(twin, from)
	{
		uint32_t i = twin->index;

		memcpy(vb_rq_cell(to, i), vb_rq_cell(from, i), sizeof(struct vb_cell));
		memcpy(to->spill + (size_t)(i & to->mask) * VB_SPILL,
		       from->spill + (size_t)(i & from->mask) * VB_SPILL, VB_SPILL);
		memcpy(vb_rq_sges(to, i), vb_rq_sges(from, i), to->sges_stride);
		memcpy(vb_rq_twin(to, i), twin, to->twin_stride);
	}
}

static int grow_quiet(struct vb_rq *rq, uint32_t depth)
{
	struct vb_rq old = *rq;

	rq->mask = ring_size(depth, rq->many) - 1;
	rq->twins = vb_buffer_alloc(rq->pd, ((size_t)rq->mask + 1) * rq->twin_stride, VB_BUFFER_RQ);
	if (!rq->twins || ring_alloc(rq)) {
		vb_buffer_free(rq->pd, rq->twins, VB_BUFFER_RQ);
		*rq = old;
		return -ENOMEM;
	}
	copy_ring(rq, &old);
	/* Pollers that watch the old ring see that there may be something (vb_cq_queue_watch). */
	atomic_store(&vb_rq_cell(&old, vb_rq_head(rq))->word, 0);
	rq->depth = rq->open_max = depth;
	shared_describe(rq);
	ring_free_later(&old);
	vb_buffer_free(rq->pd, old.twins, VB_BUFFER_RQ);
	return 0;
}

int vb_rq_grow(struct vb_rq *rq, uint32_t depth)
{
	struct vb_grace grace;
	uint32_t slot;
	int err;

	atomic_fetch_add(&rq->shared->version, 1); /* odd: senders stay out */
	vb_grace_begin(rq->nic, &grace, &(struct vb_ending){ .rq = rq }, true);
	err = vb_grace_wait(&grace, GROW_MS, &slot) ? -EBUSY : 0;
	if (err) {
		vb_explain("ibv_modify_srq: the process with slot %u is stopped while it uses the "
			   "queue; continue or end it, then try again",
			   slot);
		vb_grace_drop(&grace);
	} else {
		vb_spin_lock(rq->consumer_lock);
		vb_spin_lock(&rq->lock);
		err = grow_quiet(rq, depth);
		vb_spin_unlock(&rq->lock);
		vb_spin_unlock(rq->consumer_lock);
	}
	atomic_fetch_add(&rq->shared->version, 1);
	return err;
}

static bool room(const struct vb_rq *rq)
{
	uint32_t window =
		rq->tail - (uint32_t)atomic_load_explicit(&rq->head, memory_order_acquire);

	return rq->many ? vb_rq_held(rq) < rq->open_max : window < rq->open_max;
}

static inline bool resolve(struct vb_rq *rq, struct ibv_sge *sge, uint8_t *flags)
{
	struct vb_mr *mr;
	uint64_t address;

	if (__builtin_expect(vb_mr_cached(&rq->mr_cache, rq->nic, sge, &address), 1)) {
		sge->addr = address;
		return true;
	}
	mr = vb_mr_cache_fill(&rq->mr_cache, rq->nic, rq->pd, sge, IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		return false;
	sge->addr = vb_mr_at(mr, sge->addr, IBV_ACCESS_LOCAL_WRITE);
	atomic_store(&mr->used_by_recv, 1);
	*flags |= vb_mr_on_demand(mr) ? VB_CELL_PLACE : 0;
	return true;
}

/* Fills the twin and the senders' copy of it. The flags tell whether every lkey is good. */
static uint8_t describe(struct vb_rq *rq, const struct ibv_recv_wr *wr, struct vb_recv_wqe *twin)
{
	struct vb_recv_sges *out = vb_rq_sges(rq, rq->tail);
	uint64_t length = 0;
	uint8_t flags = VB_CELL_KEYS_OK | (rq->counted ? VB_CELL_PLACE : 0);

	for (int i = 0; i < wr->num_sge; i++) {
		/* Field by field: programs write an address right before they post. A load of all
		 * 16 bytes would wait until that store, and all before it, have left the CPU. */
		struct ibv_sge sge = { wr->sg_list[i].addr, wr->sg_list[i].length,
				       wr->sg_list[i].lkey };

		/* Replaces the address in the region by the address in this process. */
		if (!resolve(rq, &sge, &flags) && sge.length)
			flags &= (uint8_t)~VB_CELL_KEYS_OK;
		twin->sge[i].addr = out->sge[i].addr = sge.addr;
		twin->sge[i].length = out->sge[i].length = sge.length;
		twin->sge[i].lkey = out->sge[i].lkey = sge.lkey;
		length += sge.length;
	}
	out->count = twin->sge_count = (uint8_t)wr->num_sge;
	if (__builtin_expect(!(flags & VB_CELL_KEYS_OK), 0) && vb_rq_expand(rq, wr, twin, out))
		flags |= VB_CELL_KEYS_OK;
	out->length = twin->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	out->index = rq->tail;
	atomic_store_explicit(&out->flags, flags, memory_order_relaxed);
	twin->flags = flags;
	twin->counted = false;
	return flags;
}

int vb_rq_post(struct vb_rq *rq, const struct ibv_recv_wr *wr)
{
	struct vb_recv_wqe *twin;
	struct vb_cell *cell;
	uint8_t flags;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->sge_max)
		return -EINVAL;
	if (!room(rq))
		return -ENOMEM;
	/* Skips cells that a sender still has taken: the ring has twice as many. */
	while (rq->many &&
	       atomic_load_explicit(&vb_rq_twin(rq, rq->tail)->open, memory_order_acquire))
		vb_rq_tail_move(rq);
	twin = vb_rq_twin(rq, rq->tail);
	cell = vb_rq_cell(rq, rq->tail);
	flags = describe(rq, wr, twin);
	twin->wr_id = wr->wr_id;
	twin->index = rq->tail;
	atomic_store_explicit(&twin->open, VB_RECV_POSTED, memory_order_release);
	/* Atomic: a sender may look at the receive that was here before, and then finds it gone. */
	__atomic_store_n(&cell->posted_length, twin->length, __ATOMIC_RELAXED);
	/* No QP's, until a sender takes the cell for one. Atomic: pairs with is_queues. */
	__atomic_store_n(&cell->qpn, 0, __ATOMIC_RELAXED);
	/* Pairs with the senders' load: a POSTED cell has its scatter list and length. */
	atomic_store_explicit(&cell->word, vb_cell_word(rq->tail, 0, flags, VB_CELL_POSTED),
			      memory_order_release);
	vb_rq_tail_move(rq);
	if (rq->many) {
		atomic_store_explicit(&rq->posted, rq->posted + 1, memory_order_release);
		atomic_store_explicit(&rq->shared->tail, rq->tail, memory_order_release);
	}
	return 0;
}

/* A cell of a shared queue that another QP's sender has taken stays as it is. */
static void ask_to_place(struct vb_rq *rq, struct vb_recv_wqe *twin)
{
	_Atomic uint64_t *at = &vb_rq_cell(rq, twin->index)->word;
	uint64_t word = atomic_load(at);

	twin->flags |= VB_CELL_PLACE;
	atomic_fetch_or(&vb_rq_sges(rq, twin->index)->flags, VB_CELL_PLACE);
	while (vb_cell_state(word) == VB_CELL_POSTED &&
	       !atomic_compare_exchange_strong(at, &word, word | (uint64_t)VB_CELL_PLACE << 8))
		;
}

void vb_rq_count(struct vb_rq *rq, struct vb_comp_cntr *cntr)
{
	vb_spin_lock(rq->consumer_lock);
	vb_spin_lock(&rq->lock);
	rq->comp_cntr = cntr;
	rq->counted = true;
	vb_rq_for_open(twin, rq) ask_to_place(rq, twin);
	vb_spin_unlock(&rq->lock);
	vb_spin_unlock(rq->consumer_lock);
}

bool vb_rq_take_waiting(struct vb_rq *rq)
{
	/* The poster posts, then looks at waiting. A sender sets waiting, then looks at the cell
	 * again. The sender's barrier makes our store visible (pend.c): a fence here would wait for
	 * the cell's cache line at each post. The look at flush_ready behind a post (verbs/post.c)
	 * relies on the barrier of the thread that sets it (qp_error.c). */
	if (rq->nic->unregistered_barrier)
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	return atomic_load_explicit(&rq->lent->waiting, memory_order_relaxed) &&
	       atomic_exchange(&rq->lent->waiting, 0);
}

bool vb_rq_empty(const struct vb_rq *rq)
{
	return rq->many ? !vb_rq_held(rq) : (uint32_t)atomic_load(&rq->head) == rq->tail;
}

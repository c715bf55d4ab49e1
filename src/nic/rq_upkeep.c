/* SPDX-License-Identifier: BSD-2-Clause */
/* Posted receives when a peer dies or a memory region ends. */
#include "nic/mr.h"
#include "nic/rq.h"

void vb_rq_release_claimant(struct vb_rq *rq, uint16_t claimant)
{
	if (!rq->many)
		return;
	vb_spin_lock(rq->consumer_lock);
	vb_rq_for_open(twin, rq)
	{
		_Atomic uint64_t *at = &vb_rq_cell(rq, twin->index)->word;
		uint64_t word = atomic_load(at);

		if (vb_cell_state(word) != VB_CELL_TAKEN || vb_cell_claimant(word) != claimant)
			continue;
		atomic_store(at,
			     vb_cell_word(twin->index, 0, vb_cell_flags(word), VB_CELL_RETURNED));
	}
	/* The peer may also have died after it returned a cell, and before it set returned. */
	atomic_store(&rq->lent->returned, 1);
	vb_rq_collect_returned(rq);
	vb_spin_unlock(rq->consumer_lock);
}

static bool names(const struct vb_recv_wqe *twin, const struct vb_mr *mr)
{
	for (unsigned i = 0; i < twin->sge_count; i++)
		if (twin->sge[i].lkey == mr->ibv.lkey)
			return true;
	return false;
}

/* Consumed receives as well: a peer can make a cell look posted. */
static void forget_keys_in(struct vb_rq *rq, const struct vb_mr *mr)
{
	vb_spin_lock(&rq->lock);
	vb_rq_for_all(twin, rq)
	{
		_Atomic uint64_t *at = &vb_rq_cell(rq, twin->index)->word;
		uint64_t word = atomic_load(at);

		if (!names(twin, mr))
			continue;
		atomic_fetch_and(&vb_rq_sges(rq, twin->index)->flags, ~(uint32_t)VB_CELL_KEYS_OK);
		while ((vb_cell_state(word) == VB_CELL_POSTED ||
			vb_cell_state(word) == VB_CELL_TAKEN ||
			vb_cell_state(word) == VB_CELL_RETURNED) &&
		       vb_cell_flags(word) & VB_CELL_KEYS_OK &&
		       !atomic_compare_exchange_weak(at, &word,
						     word & ~((uint64_t)VB_CELL_KEYS_OK << 8)))
			;
	}
	vb_spin_unlock(&rq->lock);
}

void vb_rq_forget_keys(struct vb_nic *nic, const struct vb_mr *mr)
{
	vb_spin_lock(&nic->rqs_lock);
	vb_list_for(rq, &nic->rqs, struct vb_rq, node)
		forget_keys_in(rq, mr);
	vb_spin_unlock(&nic->rqs_lock);
}

static void settle_in(struct vb_rq *rq, const struct vb_mr *mr)
{
	vb_spin_lock(rq->consumer_lock);
	vb_rq_for_open(twin, rq)
	{
		struct vb_cell *cell = vb_rq_cell(rq, twin->index);
		/* The word first: it pairs with the commit of a sender, behind all other fields. */
		bool done = vb_cell_state(atomic_load(&cell->word)) == VB_CELL_DONE;
		enum vb_cell_where where = VB_READ_ONCE(cell->where);

		if (!names(twin, mr))
			continue;
		if (done && where != VB_PAYLOAD_PLACED && cell->status == IBV_WC_SUCCESS) {
			vb_rq_scatter(rq, cell, twin->index, where,
				      VB_READ_ONCE(cell->byte_length));
			cell->where = VB_PAYLOAD_PLACED;
		}
		twin->flags &= (uint8_t)~VB_CELL_KEYS_OK;
	}
	vb_spin_unlock(rq->consumer_lock);
}

void vb_rq_settle(struct vb_nic *nic, const struct vb_mr *mr)
{
	vb_spin_lock(&nic->rqs_lock);
	vb_list_for(rq, &nic->rqs, struct vb_rq, node)
		settle_in(rq, mr);
	vb_spin_unlock(&nic->rqs_lock);
}

void vb_rq_collect_all_returned(struct vb_nic *nic)
{
	vb_spin_lock(&nic->rqs_lock);
	vb_list_for(rq, &nic->rqs, struct vb_rq, node) {
		if (!rq->many || !atomic_load(&rq->lent->returned))
			continue;
		vb_spin_lock(rq->consumer_lock);
		vb_rq_collect_returned(rq);
		vb_spin_unlock(rq->consumer_lock);
	}
	vb_spin_unlock(&nic->rqs_lock);
}

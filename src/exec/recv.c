/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/recv.h"
#include "base/clock.h"
#include "exec/rkey.h"

#include <string.h>

bool vb_recv_resolve(struct vb_remote *remote)
{
	const struct vb_srq_entry *srq = remote->srq;
	struct vb_peer *peer = srq ? remote->home : remote->peer;
	struct vb_rq_shared *rq = vb_peer_at(peer, srq ? srq->rq : remote->entry->rq, sizeof(*rq));
	uint64_t cells;

	remote->home = peer;
	remote->pd = srq ? srq->pd : remote->entry->pd;
	remote->cq = vb_peer_at(peer, srq ? srq->cq : remote->entry->recv_cq,
				sizeof(*remote->cq));
	if (!rq || !remote->cq)
		return false;
	remote->rq_version = atomic_load_explicit(&rq->version, memory_order_acquire);
	remote->rq = rq;
	remote->mask = rq->mask;
	remote->sges_stride = rq->sges_stride;
	remote->many = rq->many;
	remote->ready_bit = srq ? srq->ready_bit : remote->entry->ready_bit;
	remote->ready = NULL;
	cells = (uint64_t)remote->mask + 1;
	remote->cells = vb_peer_at(peer, rq->cells, cells * sizeof(struct vb_cell));
	remote->spill = vb_peer_at(peer, rq->spill, cells * VB_SPILL);
	remote->sges = vb_peer_at(peer, rq->sges, cells * remote->sges_stride);
	return remote->cells && remote->spill && remote->sges;
}

bool vb_recv_follow(struct vb_remote *remote)
{
	uint32_t version = atomic_load_explicit(&remote->rq->version, memory_order_acquire);

	if (__builtin_expect(version == remote->rq_version, 1))
		return true;
	return !(version & 1) && vb_recv_resolve(remote);
}

/* One sender: nothing is claimed before the completion itself, so nothing is lost with it. */
static bool claim_next(struct vb_remote *remote, struct vb_claim *claim)
{
	claim->index = remote->next_recv;
	claim->cell = &remote->cells[claim->index & remote->mask];
	claim->word = atomic_load_explicit(&claim->cell->word, memory_order_acquire);
	return vb_cell_index(claim->word) == claim->index &&
	       vb_cell_state(claim->word) == VB_CELL_POSTED;
}

static bool take(struct vb_remote *remote, struct vb_claim *claim, uint32_t index)
{
	struct vb_cell *cell = &remote->cells[index & remote->mask];
	uint64_t word = atomic_load_explicit(&cell->word, memory_order_acquire);
	uint64_t taken;

	/* A datagram that does not fit is dropped and leaves the receive where it is. */
	claim->too_short = cell->posted_length < claim->fit;
	/* Again if only KEYS_OK was cleared: a POSTED cell must not be passed over. */
	do {
		if (vb_cell_index(word) != index || vb_cell_state(word) != VB_CELL_POSTED)
			return false;
		if (claim->too_short)
			return true;
		taken = vb_cell_word(index, remote->home->id_there, vb_cell_flags(word),
				     VB_CELL_TAKEN);
	} while (!atomic_compare_exchange_strong(&cell->word, &word, taken));
	cell->qpn = remote->entry->qpn; /* if its owner resets that QP, the receive is free */
	claim->index = index;
	claim->word = taken;
	claim->cell = cell;
	return true;
}

static void trip_limit(struct vb_remote *remote, uint32_t left)
{
	uint32_t limit = atomic_load_explicit(&remote->rq->limit, memory_order_relaxed);

	if (!limit || left >= limit || !atomic_compare_exchange_strong(&remote->rq->limit, &limit, 0))
		return;
	atomic_store(&remote->rq->limit_reached, 1);
	vb_peer_attend(remote->home, VB_ATTN_SRQ);
}

static bool take_any(struct vb_remote *remote, struct vb_claim *claim)
{
	uint32_t hint = atomic_load(&remote->rq->head);
	uint32_t tail = atomic_load_explicit(&remote->rq->tail, memory_order_acquire);

	for (uint32_t i = hint; (int32_t)(tail - i) > 0; i++) {
		if (!take(remote, claim, i))
			continue;
		if (claim->too_short)
			return true;
		/* Only forward from what was seen: others move it as well. */
		atomic_compare_exchange_strong(&remote->rq->head, &hint, i + 1);
		trip_limit(remote, tail - i - 1);
		return true;
	}
	return false;
}

bool vb_recv_claim(struct vb_remote *remote, struct vb_claim *claim)
{
	claim->asks = vb_cq_asks(remote->cq);
	vb_cq_prefetch_number(remote->cq);
	if (!remote->many)
		return claim_next(remote, claim);
	if (remote->holds_taken) {
		claim->index = remote->taken;
		claim->cell = &remote->cells[claim->index & remote->mask];
		claim->word = atomic_load(&claim->cell->word);
		return true;
	}
	return take_any(remote, claim);
}

void vb_recv_unclaim(struct vb_remote *remote, const struct vb_claim *claim)
{
	uint64_t word = atomic_load(&claim->cell->word);

	if (!remote->many)
		return;
	remote->holds_taken = false;
	if (vb_cell_index(word) != claim->index || vb_cell_state(word) != VB_CELL_TAKEN)
		return;
	atomic_store(&claim->cell->word,
		     vb_cell_word(claim->index, 0, vb_cell_flags(word), VB_CELL_RETURNED));
	atomic_store(&remote->rq->returned, 1);
	vb_peer_attend(remote->home, VB_ATTN_SRQ);
}

const struct vb_recv_sges *vb_recv_sges(const struct vb_remote *remote, const struct vb_claim *claim)
{
	return (const void *)(remote->sges +
			      (size_t)(claim->index & remote->mask) * remote->sges_stride);
}

enum vb_reason vb_recv_check(struct vb_remote *remote, const struct vb_claim *claim, uint32_t length)
{
	const struct vb_recv_sges *list;

	if (claim->cell->posted_length < length)
		return VB_RECV_SHORT;
	if (vb_cell_flags(claim->word) & VB_CELL_KEYS_OK)
		return VB_OK;
	list = vb_recv_sges(remote, claim);
	for (uint32_t i = 0; i < list->count && i < VB_SGE_MAX; i++)
		if (vb_recv_key_check(remote->home, remote->pd, &list->sge[i]))
			return VB_RECV_KEY;
	return VB_OK;
}

uint8_t *vb_recv_ride(struct vb_remote *remote, const struct vb_claim *claim, uint32_t length)
{
	if (vb_cell_flags(claim->word) & VB_CELL_PLACE)
		return NULL;
	if (length <= (claim->asks & VB_CQ_ORDERED ? VB_INLINE_STAMPED : VB_INLINE_CELL))
		return claim->cell->payload;
	if (length <= VB_SPILL)
		return remote->spill + (size_t)(claim->index & remote->mask) * VB_SPILL;
	return NULL;
}

static void describe(const struct vb_remote *remote, struct vb_cell *cell,
		     const struct vb_message *message, enum vb_reason reason)
{
	cell->byte_length = message->length;
	cell->imm = message->imm;
	cell->src_qpn = message->src_qpn;
	cell->qpn = remote->entry->qpn;
	cell->opcode = message->wc_opcode & 1;
	cell->status = (uint8_t)vb_reason_row(reason)->recv_status;
	cell->wc_flags = message->wc_flags;
	cell->reason = (uint8_t)reason;
	cell->sl = message->sl;
	cell->slid = message->slid;
}

static void stamp(const struct vb_remote *remote, const struct vb_claim *claim)
{
	claim->cell->stamped = (claim->asks & VB_CQ_ORDERED) != 0;
	if (claim->cell->stamped)
		claim->cell->stamp = vb_cq_stamp(remote->cq, claim->asks);
}

/* One compare-and-swap (or, for a TAKEN cell, one store) is the completion. Full fence. */
static bool commit(struct vb_remote *remote, const struct vb_claim *claim)
{
	uint64_t expected = claim->word;
	uint64_t done = vb_cell_word(claim->index, 0, 0, VB_CELL_DONE);

	if (remote->many) {
		atomic_exchange(&claim->cell->word, done);
		remote->holds_taken = false;
		return true;
	}
	/* KEYS_OK may be cleared under us by a deregistration that waits for our hazard. */
	while (!atomic_compare_exchange_strong(&claim->cell->word, &expected, done))
		if (vb_cell_index(expected) != claim->index ||
		    vb_cell_state(expected) != VB_CELL_POSTED)
			return false;
	remote->next_recv++;
	if (remote->keeps_head)
		atomic_store_explicit(&remote->rq->head, remote->next_recv, memory_order_relaxed);
	return true;
}

/* Where the ready bit is: its CQ may have had few queues when we connected. */
static bool find_ready(struct vb_remote *remote)
{
	uint32_t page = remote->ready_bit / VB_READY_PAGE % VB_READY_PAGES;
	uint64_t offset;

	if (__builtin_expect(remote->ready != NULL, 1))
		return true;
	offset = atomic_load(&remote->cq->ready_pages[page]);
	if (offset)
		remote->ready = vb_peer_at(remote->home, offset, sizeof(*remote->ready));
	return remote->ready;
}

void vb_recv_announce(struct vb_remote *remote, bool solicited)
{
	struct vb_cq_shared *cq = remote->cq;

	/* commit was the fence between the completion and these looks. */
	if (atomic_load_explicit(&cq->use_ready, memory_order_relaxed) && find_ready(remote))
		vb_cq_set_ready(cq, remote->ready, remote->ready_bit);
	if (vb_cq_disarm(cq, solicited)) {
		atomic_fetch_add(&cq->fired, 1);
		vb_peer_attend(remote->home, VB_ATTN_CQ);
	}
}

enum vb_reason vb_recv_complete(struct vb_remote *remote, const struct vb_claim *claim,
				const struct vb_message *message, enum vb_reason reason, bool *lost)
{
	bool failed = vb_reason_row(reason)->recv_status != IBV_WC_SUCCESS;

	*lost = false;
	if (__builtin_expect(vb_cq_asks(remote->cq) & VB_CQ_COUNTS, 0) &&
	    !vb_cq_account(remote->cq)) {
		vb_recv_unclaim(remote, claim);
		vb_peer_attend(remote->home, VB_ATTN_CQ);
		return VB_TARGET_CQ_OVERRUN;
	}
	describe(remote, claim->cell, message, reason);
	stamp(remote, claim);
	if (!commit(remote, claim)) {
		*lost = true;
		return VB_OK;
	}
	vb_recv_announce(remote, message->solicited || failed);
	return VB_OK;
}

void vb_target_fail(struct vb_remote *remote, enum vb_reason reason, bool quiet)
{
	uint32_t bits = VB_QP_ATTN_FAIL | (quiet ? VB_QP_ATTN_QUIET : 0);
	uint64_t gate = atomic_load(&remote->entry->gate);

	/* Nothing else gets in, although its owner has still to learn of it. */
	if (vb_gate_open(gate))
		atomic_compare_exchange_strong(&remote->entry->gate, &gate,
					       vb_gate(vb_gate_epoch(gate), IBV_QPS_ERR));
	vb_peer_attend_qp(remote->peer, remote->entry, bits | (uint32_t)reason);
}

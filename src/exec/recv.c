/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/recv.h"

#include <string.h>

#include "base/clock.h"
#include "base/probe.h"
#include "exec/rkey.h"

#define KEYS_OK_BIT ((uint64_t)VB_CELL_KEYS_OK << 8)

/* Many senders: the first index that may be posted, as other senders say. A wrong hint is bounded:
 * the ring has mask + 1 cells. */
static uint32_t hint_of(const struct vb_remote *remote, uint32_t tail)
{
	uint32_t hint = atomic_load_explicit(&remote->rq_lent->head, memory_order_relaxed);

	return tail - hint <= remote->mask ? hint : tail - remote->mask - 1;
}

/* Finds the ring of a receive queue; false: a part of it lies outside of the segment. */
static bool resolve_ring(struct vb_remote *remote, struct vb_peer *peer,
			 const struct vb_rq_shared *rq)
{
	uint64_t cells;

	/* An odd version is never current: the ring is looked up again once it is even. Pairs with
	 * vb_rq_grow. */
	remote->rq_version = atomic_load_explicit(&rq->version, memory_order_acquire) & ~1u;
	remote->mask = VB_READ_ONCE(rq->mask);
	remote->sges_stride = VB_READ_ONCE(rq->sges_stride);
	remote->many = VB_READ_ONCE(rq->many);
	remote->recv_pd = VB_READ_ONCE(rq->pd);
	cells = (uint64_t)remote->mask + 1;
	remote->cells =
		vb_peer_lent_at(peer, VB_READ_ONCE(rq->cells), cells * sizeof(struct vb_cell));
	remote->spill = vb_peer_lent_at(peer, VB_READ_ONCE(rq->spill), cells * VB_SPILL);
	remote->sges = vb_peer_at(peer, VB_READ_ONCE(rq->sges), cells * remote->sges_stride);
	remote->rq_lent = vb_peer_lent_at(peer, VB_READ_ONCE(rq->lent), sizeof(*remote->rq_lent));
	if (remote->many && remote->rq_lent)
		remote->next_recv =
			hint_of(remote, atomic_load_explicit(&rq->tail, memory_order_acquire));
	return remote->cells && remote->spill && remote->sges && remote->rq_lent &&
	       remote->mask < 2 * VB_SRQ_WR_MAX &&
	       remote->sges_stride >= sizeof(struct vb_recv_sges) &&
	       !(remote->sges_stride % sizeof(struct ibv_sge));
}

bool vb_recv_resolve(struct vb_remote *remote)
{
	const struct vb_srq_entry *srq = remote->srq;
	struct vb_peer *peer = srq ? remote->home : remote->peer;
	struct vb_rq_shared *rq = vb_peer_at(peer, srq ? srq->rq : remote->entry->rq, sizeof(*rq));

	remote->home = peer;
	remote->pd = srq ? srq->pd : remote->entry->pd;
	remote->lent = vb_peer_qp_lent(remote->peer, remote->entry);
	remote->cq =
		vb_peer_lent_at(peer, srq ? srq->cq : remote->entry->recv_cq, sizeof(*remote->cq));
	if (!rq || !remote->cq || !remote->lent)
		return false;
	remote->rq = rq;
	remote->ready_bit = VB_READ_ONCE(*(srq ? &srq->ready_bit : &remote->entry->ready_bit));
	remote->ready = NULL;
	remote->trail = NULL;
	return resolve_ring(remote, peer, rq);
}

bool vb_recv_follow(struct vb_remote *remote)
{
	uint32_t version = atomic_load_explicit(&remote->rq->version, memory_order_acquire);

	if (__builtin_expect(version == remote->rq_version, 1))
		return true;
	return !(version & 1) && vb_recv_resolve(remote);
}

/* One sender: the cell stays POSTED until its completion, so a sender that dies loses nothing. */
static bool claim_next(struct vb_remote *remote, struct vb_claim *claim)
{
	claim->index = remote->next_recv;
	claim->cell = &remote->cells[claim->index & remote->mask];
	claim->word = atomic_load_explicit(&claim->cell->word, memory_order_acquire);
	return vb_cell_index(claim->word) == claim->index &&
	       vb_cell_state(claim->word) == VB_CELL_POSTED;
}

static bool cell_take(struct vb_remote *remote, struct vb_claim *claim, uint32_t index)
{
	struct vb_cell *cell = &remote->cells[index & remote->mask];
	uint64_t word = atomic_load_explicit(&cell->word, memory_order_acquire);
	uint64_t taken;

	/* The loop repeats if only KEYS_OK was cleared: a POSTED cell must not be skipped. */
	do {
		if (vb_cell_index(word) != index || vb_cell_state(word) != VB_CELL_POSTED)
			return false;
		/* A datagram that does not fit is dropped, and its receive stays posted. */
		claim->too_short = VB_READ_ONCE(cell->posted_length) < claim->fit;
		if (claim->too_short) {
			claim->cell = cell; /* for its length */
			return true;
		}
		taken = vb_cell_word(index, remote->home->id_there, vb_cell_flags(word),
				     VB_CELL_TAKEN);
	} while (!atomic_compare_exchange_strong(&cell->word, &word, taken));
	cell->qpn = remote->entry->qpn; /* the owner frees the receive if it resets that QP */
	claim->index = index;
	claim->word = taken;
	claim->cell = cell;
	return true;
}

void vb_recv_trip_limit(struct vb_remote *remote, uint32_t index)
{
	struct vb_rq_lent *lent = remote->rq_lent;
	uint32_t limit = atomic_load_explicit(&lent->limit, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&remote->rq->tail, memory_order_acquire);
	/* The owner posts a receive before it moves the tail: the tail may lie before the index. */
	uint32_t left = (int32_t)(tail - index) > 0 ? tail - index - 1 : 0;

	if (!limit || left >= limit || !atomic_compare_exchange_strong(&lent->limit, &limit, 0))
		return;
	atomic_store(&lent->limit_reached, 1);
	vb_peer_attend(remote->home, VB_ATTN_SRQ);
}

/* The first index that may be posted, as far as this sender and others know. */
static uint32_t first_open(const struct vb_remote *remote, uint32_t tail)
{
	uint32_t hint = hint_of(remote, tail);

	return remote->next_recv - hint <= remote->mask + 1 ? remote->next_recv : hint;
}

static bool cell_take_any(struct vb_remote *remote, struct vb_claim *claim)
{
	uint32_t tail = atomic_load_explicit(&remote->rq->tail, memory_order_acquire);

	for (uint32_t i = first_open(remote, tail); (int32_t)(tail - i) > 0; i++) {
		if (!cell_take(remote, claim, i))
			continue;
		if (claim->too_short)
			return true;
		remote->next_recv = i + 1;
		vb_fence_after_rmw(); /* pairs with vb_srq_modify, which arms the limit */
		vb_recv_taken(remote, i);
		return true;
	}
	return false;
}

bool vb_recv_claim(struct vb_remote *remote, struct vb_claim *claim)
{
	claim->asks = vb_cq_asks(remote->cq);
	vb_cq_prefetch_number(remote->cq, claim->asks);
	if (!remote->many)
		return claim_next(remote, claim);
	if (remote->holds_taken) {
		claim->index = remote->taken;
		claim->cell = &remote->cells[claim->index & remote->mask];
		claim->word = atomic_load(&claim->cell->word);
		return true;
	}
	return cell_take_any(remote, claim);
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
	atomic_store(&remote->rq_lent->returned, 1);
	vb_peer_attend(remote->home, VB_ATTN_SRQ);
}

const struct vb_recv_sges *vb_recv_sges(const struct vb_remote *remote,
					const struct vb_claim *claim)
{
	return (const void *)(remote->sges +
			      (size_t)(claim->index & remote->mask) * remote->sges_stride);
}

uint32_t vb_recv_sge_count(const struct vb_remote *remote, const struct vb_recv_sges *list)
{
	uint32_t count = VB_READ_ONCE(list->count);
	uint32_t room = remote->sges_stride / (uint32_t)sizeof(struct ibv_sge) - 1;

	if (count > room)
		count = room;
	return count < VB_SGE_MAX ? count : VB_SGE_MAX;
}

static enum vb_reason check_keys(struct vb_remote *remote, const struct vb_recv_sges *list)
{
	uint32_t count = vb_recv_sge_count(remote, list);

	for (uint32_t i = 0; i < count; i++)
		if (!vb_peer_key_covers(remote->home, remote->recv_pd, &list->sge[i]))
			return VB_WHY_RECV_KEY;
	return VB_OK;
}

enum vb_reason vb_recv_check(struct vb_remote *remote, const struct vb_claim *claim,
			     uint32_t length, bool rides)
{
	const struct vb_recv_sges *list;

	if (claim->cell->posted_length < length)
		return VB_WHY_RECV_SHORT;
	/* The owner copies bytes that ride, and checks the keys again then. */
	if (rides && vb_cell_flags(claim->word) & VB_CELL_KEYS_OK)
		return VB_OK;
	list = vb_recv_sges(remote, claim);
	if (VB_READ_ONCE(list->index) != claim->index)
		return VB_WHY_RECV_KEY; /* no receive was posted there: the cell is damaged */
	if (VB_READ_ONCE(list->length) < length)
		return VB_WHY_RECV_SHORT;
	return atomic_load(&list->flags) & VB_CELL_KEYS_OK ? VB_OK : check_keys(remote, list);
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

/* Returns the stamp, because the owner may use the cell again; 0: the CQ asks for none. */
static uint64_t cell_stamp(const struct vb_remote *remote, const struct vb_claim *claim)
{
	bool stamped = claim->asks & VB_CQ_ORDERED;
	uint64_t stamp = stamped ? vb_cq_stamp(remote->cq, claim->asks) : 0;

	claim->cell->stamped = stamped;
	if (stamped)
		claim->cell->stamp = stamp;
	return stamp;
}

enum commitment { COMMITTED, OWNER_TOOK_IT, KEYS_WENT };

/*
 * One compare-and-swap is the completion. The fence behind it pairs with those in vb_cq_req_notify
 * and cq_ready.c: this thread sees the arm or use_ready, or a poll that follows them sees the
 * completion. A deregistration may clear KEYS_OK before: then *word becomes the cell's word as it
 * is now.
 */
static enum commitment cell_commit(struct vb_remote *remote, const struct vb_claim *claim,
				   uint64_t *word)
{
	uint64_t done = vb_cell_word(claim->index, 0, 0, VB_CELL_DONE), expected = *word;

	if (!atomic_compare_exchange_strong(&claim->cell->word, word, done)) {
		if ((*word | KEYS_OK_BIT) == (expected | KEYS_OK_BIT))
			return KEYS_WENT;
		remote->holds_taken = false;
		return OWNER_TOOK_IT;
	}
	vb_fence_after_rmw();
	if (remote->many) {
		remote->holds_taken = false;
		return COMMITTED;
	}
	remote->next_recv++;
	if (remote->keeps_head)
		atomic_store_explicit(&remote->rq_lent->head, remote->next_recv,
				      memory_order_relaxed);
	return COMMITTED;
}

/* A poll places bytes that ride, and may come after the deregistration: they are checked again. */
static enum vb_reason keys_went(struct vb_remote *remote, const struct vb_claim *claim,
				uint64_t word, uint32_t length)
{
	struct vb_claim now = *claim;

	now.word = word;
	if (!length || claim->cell->where == VB_PAYLOAD_PLACED)
		return VB_OK;
	return vb_recv_check(remote, &now, length, true);
}

/* Finds the ready bit late: the CQ may have had few queues when the sender connected. */
static bool find_ready(struct vb_remote *remote)
{
	uint32_t page = remote->ready_bit / VB_READY_PAGE % VB_READY_PAGES;
	uint64_t offset;

	if (__builtin_expect(remote->ready != NULL, 1))
		return true;
	/* Pairs with the store of use_ready in cq_attach.c, which comes after that of the page. */
	atomic_thread_fence(memory_order_acquire);
	offset = atomic_load(&remote->cq->ready_pages[page]);
	if (offset)
		remote->ready = vb_peer_lent_at(remote->home, offset, sizeof(*remote->ready));
	return remote->ready;
}

/* The trail lies where any peer can write: its place is checked. */
static bool find_trail(struct vb_remote *remote)
{
	uint64_t offset;
	uint32_t mask;

	if (__builtin_expect(remote->trail != NULL, 1))
		return true;
	offset = atomic_load_explicit(&remote->cq->trail, memory_order_acquire);
	mask = atomic_load_explicit(&remote->cq->trail_mask, memory_order_relaxed);
	if (!offset || offset % VB_LINE || mask >= VB_TRAIL_MAX || mask & (mask + 1))
		return false;
	remote->trail_mask = mask;
	remote->trail = vb_peer_lent_at(remote->home, offset, (mask + 1) * sizeof(*remote->trail));
	return remote->trail;
}

void vb_recv_mark_ready(struct vb_remote *remote, uint64_t stamp)
{
	struct vb_cq_shared *cq = remote->cq;

	/* The fence in cell_commit lies between the completion and this load. */
	if (!atomic_load_explicit(&cq->use_ready, memory_order_relaxed))
		return;
	if (vb_cq_is_number(stamp) && find_trail(remote))
		vb_trail_mark(remote->trail, remote->trail_mask, stamp, remote->ready_bit);
	if (find_ready(remote))
		vb_cq_set_ready(cq, remote->ready, remote->ready_bit);
}

void vb_recv_raise_event(struct vb_remote *remote, bool solicited)
{
	if (vb_cq_disarm(remote->cq, solicited)) {
		atomic_fetch_add(&remote->cq->fired, 1);
		vb_peer_attend(remote->home, VB_ATTN_CQ);
	}
}

enum vb_reason vb_recv_complete(struct vb_remote *remote, const struct vb_claim *claim,
				const struct vb_message *message, enum vb_reason reason, bool *lost)
{
	enum vb_reason shown = reason;
	enum commitment commitment;
	uint64_t word = claim->word, stamp;
	bool failed;

	*lost = false;
	if (__builtin_expect(vb_cq_asks(remote->cq) & VB_CQ_COUNTS, 0) &&
	    !vb_cq_account(remote->cq)) {
		vb_recv_unclaim(remote, claim);
		vb_peer_attend(remote->home, VB_ATTN_CQ);
		return VB_WHY_TARGET_CQ_OVERRUN;
	}
	do {
		vb_cell_describe(claim->cell, remote->entry->qpn, message, shown,
				 vb_reason_row(shown)->recv_status);
		stamp = cell_stamp(remote, claim);
		commitment = cell_commit(remote, claim, &word);
		if (commitment != COMMITTED)
			vb_cq_void_number(remote->cq, claim->asks);
		if (commitment == KEYS_WENT && !shown)
			shown = keys_went(remote, claim, word, message->length);
	} while (commitment == KEYS_WENT);
	VB_PROBE(placed, remote->entry->qpn, claim->index);
	*lost = commitment == OWNER_TOOK_IT;
	if (*lost)
		return VB_OK;
	failed = vb_reason_row(shown)->recv_status != IBV_WC_SUCCESS;
	vb_recv_mark_ready(remote, stamp);
	if (failed || !message->event_later)
		vb_recv_raise_event(remote, failed || message->solicited);
	return reason ? VB_OK : shown;
}

void vb_target_fail(struct vb_remote *remote, enum vb_reason reason, bool quiet)
{
	vb_target_refuse(remote, reason, quiet, 0, 0);
}

void vb_target_refuse(struct vb_remote *remote, enum vb_reason reason, bool quiet, uint32_t rkey,
		      unsigned access)
{
	uint32_t bits = VB_QP_ATTN_FAIL | (quiet ? VB_QP_ATTN_QUIET : 0) |
			(access & 0xffff) << VB_QP_ATTN_ACCESS_SHIFT;
	uint64_t gate = atomic_load(&remote->entry->gate);

	/* No other message gets in, although the owner has yet to learn of the failure. */
	if (vb_gate_open(gate) && remote->lent)
		atomic_store(&remote->lent->closed, gate);
	if (remote->lent)
		atomic_store(&remote->lent->refused_key, rkey);
	vb_remote_forget_gate(remote);
	vb_peer_attend_qp(remote->peer, remote->entry, bits | (uint32_t)reason);
}

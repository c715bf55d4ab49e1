/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The consumer's side of a receive queue: completed receives, their order, and returned receives.
 */
#include <stdlib.h>
#include <string.h>

#include "nic/qp.h"

static bool is_open(const struct vb_rq *rq, uint32_t index)
{
	const struct vb_recv_wqe *twin = vb_rq_twin(rq, index);

	return atomic_load_explicit(&twin->open, memory_order_acquire) && twin->index == index;
}

static uint64_t word_of(const struct vb_rq *rq, uint32_t index)
{
	return atomic_load_explicit(&vb_rq_cell(rq, index)->word, memory_order_acquire);
}

static bool is_done(const struct vb_rq *rq, uint32_t index)
{
	return vb_cell_is_in(word_of(rq, index), index, VB_CELL_DONE);
}

/*
 * No correct sender leaves an open receive in another state. Such a receive is lost, because a
 * thread may still be filling it; the receives behind it are not lost.
 */
static void check_sound(struct vb_rq *rq, uint64_t word, uint32_t index)
{
	if (__builtin_expect(vb_cell_is_in(word, index, VB_CELL_TAKEN) ||
				     vb_cell_is_in(word, index, VB_CELL_RETURNED) ||
				     vb_cell_is_in(word, index, VB_CELL_POSTED),
			     1))
		return;
	if (rq->srq)
		vb_srq_damaged(rq->srq);
}

/* Called after the lists and taken_count were written: vb_rq_quiet_at reads without the lock. */
static void head_move(struct vb_rq *rq, uint32_t to)
{
	atomic_store_explicit(&rq->head, to, memory_order_release);
	atomic_store_explicit(&rq->walk_at, vb_rq_cell(rq, to), memory_order_release);
	atomic_store_explicit(&rq->walk_next, vb_rq_cell(rq, to + 1), memory_order_release);
}

/* --- lists of arrivals --- */

/* Without stamps the order of the ring counts: each sender completes in that order. */
static bool earlier(const struct vb_rq *rq, uint32_t a, uint32_t b)
{
	const struct vb_cell *cell_a = vb_rq_cell(rq, a), *cell_b = vb_rq_cell(rq, b);

	if (cell_a->stamped && cell_b->stamped && cell_a->stamp != cell_b->stamp)
		return cell_a->stamp < cell_b->stamp;
	return (int32_t)(a - b) < 0;
}

static void list_insert(struct vb_rq *rq, struct vb_arrivals *list, uint32_t index)
{
	uint32_t count = atomic_load_explicit(&list->count, memory_order_relaxed);
	uint32_t later = index, before = list->last, behind = 0;
	struct vb_recv_wqe *twin = vb_rq_twin(rq, index);

	for (; behind < count && earlier(rq, index, before); behind++) {
		later = before;
		before = vb_rq_twin(rq, before)->prev;
	}
	twin->prev = before;
	twin->next = later;
	if (behind == 0)
		list->last = index;
	else
		vb_rq_twin(rq, later)->prev = index;
	if (behind == count)
		list->first = index;
	else
		vb_rq_twin(rq, before)->next = index;
	atomic_store_explicit(&list->count, count + 1, memory_order_release);
}

static void list_remove(struct vb_rq *rq, struct vb_arrivals *list, uint32_t index)
{
	uint32_t count = atomic_load_explicit(&list->count, memory_order_relaxed);
	const struct vb_recv_wqe *twin = vb_rq_twin(rq, index);

	if (list->first == index)
		list->first = twin->next;
	else
		vb_rq_twin(rq, twin->prev)->next = twin->next;
	if (list->last == index)
		list->last = twin->prev;
	else
		vb_rq_twin(rq, twin->next)->prev = twin->prev;
	atomic_store_explicit(&list->count, count - 1, memory_order_release);
}

/* --- cells that are taken --- */

static bool taken_add(struct vb_rq *rq, uint32_t index)
{
	if (rq->taken_count == rq->taken_room) {
		uint32_t room = rq->taken_room ? 2 * rq->taken_room : 16;
		uint32_t *more = realloc(rq->taken, room * sizeof(*more));

		if (!more)
			return false;
		rq->taken = more;
		rq->taken_room = room;
	}
	rq->taken[rq->taken_count++] = index;
	return true;
}

static void taken_remove_at(struct vb_rq *rq, uint32_t at)
{
	rq->taken_count--;
	memmove(&rq->taken[at], &rq->taken[at + 1], (rq->taken_count - at) * sizeof(*rq->taken));
}

static void taken_remove(struct vb_rq *rq, uint32_t index)
{
	for (uint32_t at = 0; at < rq->taken_count; at++) {
		if (rq->taken[at] != index)
			continue;
		taken_remove_at(rq, at);
		return;
	}
}

/* --- walking over the ring --- */

/* A message in an SRQ belongs to the QP that it came to. NULL: that QP is gone, or never was. */
static struct vb_arrivals *list_of(struct vb_rq *rq, uint32_t index)
{
	struct vb_qp *qp;

	if (!rq->srq || rq->srq->xrcd)
		return &rq->arrivals;
	qp = vb_nic_qp(rq->nic, vb_rq_cell(rq, index)->qpn);
	return qp && qp->srq == rq->srq ? &qp->arrivals : NULL;
}

static void arrive(struct vb_rq *rq, uint32_t index)
{
	struct vb_arrivals *list = list_of(rq, index);

	if (list) {
		atomic_store_explicit(&vb_rq_twin(rq, index)->open, VB_RECV_ARRIVED,
				      memory_order_relaxed);
		list_insert(rq, list, index);
	} else {
		vb_rq_consume(rq, NULL, index);
	}
}

bool vb_rq_arrived_at_head(const struct vb_rq *rq)
{
	uint32_t head = vb_rq_head(rq);

	return !rq->taken_count && is_done(rq, head) && is_open(rq, head) &&
	       !vb_rq_cell(rq, head)->stamped &&
	       !atomic_load_explicit(&rq->lent->returned, memory_order_relaxed);
}

static bool look_at_taken(struct vb_rq *rq)
{
	bool found = false;

	for (uint32_t at = 0; at < rq->taken_count;) {
		uint32_t index = rq->taken[at];
		uint64_t word = word_of(rq, index);

		if (!vb_cell_is_in(word, index, VB_CELL_DONE)) {
			check_sound(rq, word, index);
			at++;
			continue;
		}
		taken_remove_at(rq, at);
		arrive(rq, index);
		found = true;
	}
	return found;
}

static bool walk(struct vb_rq *rq)
{
	uint32_t tail = __atomic_load_n(&rq->tail, __ATOMIC_ACQUIRE);
	uint32_t at = vb_rq_head(rq);
	bool found = false;

	for (; at != tail; at++) {
		uint64_t word;

		if (!is_open(rq, at))
			continue;
		word = word_of(rq, at);
		if (vb_cell_is_in(word, at, VB_CELL_DONE)) {
			arrive(rq, at);
			found = true;
			continue;
		}
		if (vb_cell_is_in(word, at, VB_CELL_POSTED) ||
		    (vb_cell_is_in(word, at, VB_CELL_TAKEN) &&
		     vb_rq_untaken_from(rq, vb_rq_cell(rq, at + 1), at + 1)) ||
		    !taken_add(rq, at))
			break;
		check_sound(rq, word, at);
	}
	head_move(rq, at);
	return found;
}

void vb_rq_drain(struct vb_rq *rq)
{
	bool found;

	if (__builtin_expect(atomic_load_explicit(&rq->lent->returned, memory_order_relaxed), 0))
		vb_rq_collect_returned(rq);
	/* A sender may complete a cell that the first look saw taken, and then a later cell that
	 * the walk found. So taken cells are looked at again before anything is polled. */
	do {
		found = rq->taken_count && look_at_taken(rq);
		found |= walk(rq);
	} while (found && rq->taken_count);
}

/* Tag matching consumes receives that no walk has reached. */
static void pass_closed(struct vb_rq *rq)
{
	uint32_t tail = __atomic_load_n(&rq->tail, __ATOMIC_ACQUIRE);
	uint32_t at = vb_rq_head(rq);

	while (at != tail && !is_open(rq, at))
		at++;
	head_move(rq, at);
}

void vb_rq_consume(struct vb_rq *rq, struct vb_arrivals *list, uint32_t index)
{
	_Atomic uint32_t *open = &vb_rq_twin(rq, index)->open;
	bool arrived;

	if (!is_open(rq, index)) /* a peer made the cell look posted */
		return;
	arrived = atomic_load_explicit(open, memory_order_relaxed) == VB_RECV_ARRIVED;
	if (arrived)
		list_remove(rq, list, index);
	else
		taken_remove(rq, index);
	atomic_store_explicit(open, VB_RECV_CLOSED, memory_order_release);
	if (!arrived) /* else a walk has passed it */
		pass_closed(rq);
	atomic_store_explicit(&rq->consumed, rq->consumed + 1, memory_order_release);
}

void vb_rq_consume_arrived(struct vb_rq *rq)
{
	uint32_t head = vb_rq_head(rq);

	atomic_store_explicit(&vb_rq_twin(rq, head)->open, VB_RECV_CLOSED, memory_order_release);
	head_move(rq, head + 1);
	atomic_store_explicit(&rq->consumed, rq->consumed + 1, memory_order_release);
}

uint64_t vb_rq_completed(const struct vb_rq *rq, uint64_t from)
{
	uint64_t head = atomic_load_explicit(&rq->head, memory_order_acquire);
	uint64_t at = head > from ? head : from;

	while (at - head <= rq->mask && is_done(rq, (uint32_t)at))
		at++;
	return at;
}

/* Other threads consume receives meanwhile, and post their cells anew under other indexes. */
uint32_t vb_rq_next_free(const struct vb_rq *rq)
{
	uint64_t at;

	do
		at = vb_rq_completed(rq, 0);
	while (atomic_load(&rq->head) > at);
	return (uint32_t)at;
}

/* --- receives that were given back --- */

/* Posts the same receive under the next index. No sender uses the old cell any more. */
static void post_again(struct vb_rq *rq, struct vb_recv_wqe *old)
{
	uint32_t index = old->index;
	struct vb_recv_wqe *twin;
	uint8_t flags;

	vb_spin_lock(&rq->lock);
	/* Under the lock: the end of a region clears KEYS_OK of every receive. */
	flags = (uint8_t)atomic_load(&vb_rq_sges(rq, index)->flags);
	while (atomic_load(&vb_rq_twin(rq, rq->tail)->open))
		vb_rq_tail_move(rq);
	twin = vb_rq_twin(rq, rq->tail);
	memcpy(twin, old, rq->twin_stride);
	twin->index = rq->tail;
	memcpy(vb_rq_sges(rq, rq->tail), vb_rq_sges(rq, index), rq->sges_stride);
	vb_rq_sges(rq, rq->tail)->index = rq->tail;
	vb_rq_cell(rq, rq->tail)->posted_length = twin->length;
	vb_rq_cell(rq, rq->tail)->qpn = 0;
	atomic_store_explicit(&vb_rq_cell(rq, rq->tail)->word,
			      vb_cell_word(rq->tail, 0, flags, VB_CELL_POSTED),
			      memory_order_release);
	vb_rq_tail_move(rq);
	atomic_store_explicit(&rq->shared->tail, rq->tail, memory_order_release);
	vb_spin_unlock(&rq->lock);
	taken_remove(rq, index);
	atomic_store(&vb_rq_cell(rq, index)->word, vb_cell_word(index, 0, 0, VB_CELL_FREE));
	atomic_store(&old->open, VB_RECV_CLOSED);
}

void vb_rq_collect_returned(struct vb_rq *rq)
{
	/* With one sender no cell is ever taken: a peer that set returned is wrong. */
	if (!rq->many || !atomic_exchange(&rq->lent->returned, 0))
		return;
	vb_rq_for_open(twin, rq) if (atomic_load(&twin->open) == VB_RECV_POSTED &&
				     vb_cell_state(word_of(rq, twin->index)) == VB_CELL_RETURNED)
		post_again(rq, twin);
}

/* --- flushing --- */

/* No thread is inside any more: a process that died has left a cell TAKEN. */
static void flush(struct vb_rq *rq, uint32_t index)
{
	_Atomic uint64_t *at = &vb_rq_cell(rq, index)->word;
	uint64_t word = atomic_load(at);

	while ((vb_cell_state(word) != VB_CELL_DONE || vb_cell_index(word) != index) &&
	       !atomic_compare_exchange_strong(at, &word,
					       vb_cell_word(index, 0, 0, VB_CELL_FLUSHED)))
		;
}

bool vb_rq_flush_next(struct vb_rq *rq, uint32_t *index)
{
	uint32_t tail;

	vb_spin_lock(&rq->lock);
	tail = rq->tail;
	vb_spin_unlock(&rq->lock);
	if (rq->taken_count) {
		*index = rq->taken[0];
		flush(rq, *index);
		return true;
	}
	for (*index = vb_rq_head(rq); *index != tail; ++*index) {
		if (!is_open(rq, *index))
			continue;
		flush(rq, *index);
		return true;
	}
	return false;
}

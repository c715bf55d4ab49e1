/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches queues to a CQ and detaches them: their places, their ready bits, and the CQ's asks. */
#include <errno.h>
#include <stdlib.h>

#include "base/barrier.h"
#include "nic/cq.h"
#include "nic/nic.h"
#include "nic/rq.h"
#include "nic/sq.h"

/* --- the CQ's asks --- */

uint32_t vb_cq_waiting(struct vb_cq *cq)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < cq->queue_count; i++)
		count += vb_cq_queue_waiting(cq->queues[i]);
	return count;
}

uint32_t vb_cq_taken(const struct vb_cq *cq)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < cq->queue_count; i++) {
		const struct vb_cq_queue *queue = cq->queues[i];

		if (queue->kind == VB_CQ_SENDS)
			count += queue->sq->scanned;
		else if (queue->kind == VB_CQ_RECEIVES)
			count += vb_rq_head(queue->rq);
		else if (queue->kind == VB_CQ_ARRIVALS)
			count += atomic_load(&queue->rq->consumed);
	}
	return count;
}

static bool is_pair(const struct vb_cq *cq)
{
	return cq->queue_count == 2 && cq->queues[0]->kind == VB_CQ_SENDS &&
	       cq->queues[1]->kind == VB_CQ_RECEIVES && cq->queues[0]->qp == cq->queues[1]->qp;
}

/* Counting costs an atomic per completion: only CQs that could overrun count. */
static uint32_t asks_of(const struct vb_cq *cq)
{
	uint32_t asks = vb_cq_own_asks(cq) & VB_CQ_ORDERED;

	if (cq->attached_depth > (uint64_t)cq->ibv.cqe && !cq->ignore_overrun)
		asks |= VB_CQ_COUNTS;
	/* A second queue: from now on the order of two completions matters. Completions without a
	 * number happened before all completions of the second queue. */
	if (cq->queue_count > 1 && !(asks & VB_CQ_ORDERED))
		asks |= is_pair(cq) ? VB_CQ_PAIR : VB_CQ_NUMBERS;
	return asks;
}

void vb_cq_asks_update(struct vb_cq *cq)
{
	uint32_t before = vb_cq_own_asks(cq), asks = asks_of(cq);

	if (asks == before)
		return;
	if (asks & ~before & VB_CQ_COUNTS)
		atomic_store(&cq->shared->count, vb_cq_waiting(cq));
	if (asks & ~before & VB_CQ_NUMBERS)
		vb_cq_trail_begin_numbers(cq);
	atomic_store(&cq->asks, asks);
	atomic_store(&cq->shared->asks, asks);
}

/* --- ready bits --- */

static int page_make(struct vb_cq *cq, struct vb_cq_page *pages, unsigned index)
{
	struct vb_segment *seg = &cq->nic->seg;
	uint64_t offset;

	if (pages[index].bits)
		return 0;
	offset = vb_segment_lend(seg, sizeof(struct vb_ready_page));
	if (!offset)
		return -ENOMEM;
	pages[index] = (struct vb_cq_page){ vb_segment_at(seg, offset), offset };
	/* Before any sender learns of a bit in this page. */
	atomic_store(&cq->shared->ready_pages[index], offset);
	return 0;
}

/* Makes the pages of all bits that are given out. */
static int pages_make(struct vb_cq *cq)
{
	struct vb_cq_page *pages = cq->ready_pages;
	int err = 0;

	if (!pages)
		pages = calloc(VB_READY_PAGES, sizeof(*pages));
	if (!pages)
		return -ENOMEM;
	for (unsigned i = 0; i * VB_READY_PAGE < cq->bit_count && !err; i++)
		err = page_make(cq, pages, i);
	cq->ready_pages = pages; /* from now on completions of this process set bits */
	return err;
}

void vb_cq_pages_free(struct vb_cq *cq)
{
	const struct vb_cq_page *pages = cq->ready_pages;

	for (unsigned i = 0; pages && i < VB_READY_PAGES; i++)
		if (pages[i].bits)
			vb_nic_free_later(cq->nic, 0, pages[i].offset,
					  sizeof(struct vb_ready_page));
}

static int bits_grow(struct vb_cq *cq)
{
	uint32_t room = cq->bit_room ? 2 * cq->bit_room : 4;
	union vb_cq_bit *more;

	if (cq->bit_count < cq->bit_room)
		return 0;
	if (cq->bit_count == VB_READY_PAGES * VB_READY_PAGE)
		return -ENOMEM;
	more = realloc(cq->bits, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	cq->bits = more;
	cq->bit_room = room;
	return 0;
}

/* Freed bits are used again first: bits in use share few cache lines. */
static int bit_take(struct vb_cq_queue *queue)
{
	struct vb_cq *cq = queue->cq;

	if (cq->bit_free) {
		queue->bit = cq->bit_free - 1;
		cq->bit_free = (uint32_t)(cq->bits[queue->bit].free_next >> 1);
	} else {
		int err = bits_grow(cq);

		if (err)
			return err;
		queue->bit = cq->bit_count++;
	}
	cq->bits[queue->bit].queue = queue;
	return 0;
}

static void bit_give(struct vb_cq_queue *queue)
{
	struct vb_cq *cq = queue->cq;

	cq->bits[queue->bit].free_next = (uintptr_t)cq->bit_free << 1 | 1;
	cq->bit_free = queue->bit + 1;
}

static void set_all_ready(struct vb_cq *cq)
{
	const struct vb_cq_page *pages = cq->ready_pages;

	for (uint32_t i = 0; pages && i < cq->queue_count; i++)
		vb_cq_set_own_ready(cq, pages, cq->queues[i]->bit);
}

/* There are many queues: from now on completions set ready bits. */
static int use_ready(struct vb_cq *cq)
{
	bool used = cq->ready_pages;
	int err = pages_make(cq);

	if (err || used)
		return err;
	/* A send of this process that saw no pages is visible after the barrier. Pairs with
	 * poller_tell in fast_send.c. */
	vb_barrier_others();
	/* Completions that set no bit happened before this store: set_all_ready finds them. */
	atomic_store(&cq->shared->use_ready, 1);
	set_all_ready(cq);
	vb_cq_trail_make(cq);
	return 0;
}

void vb_cq_look_again(struct vb_cq *cq)
{
	uint32_t count;

	vb_spin_lock(&cq->poll_lock);
	count = vb_cq_waiting(cq);
	if (count)
		set_all_ready(cq);
	vb_spin_unlock(&cq->poll_lock);
	if (count && cq->channel && vb_cq_disarm(cq->shared, true))
		vb_cq_fire(cq, 1);
}

/* --- places --- */

static int place_take(struct vb_cq_queue *queue)
{
	struct vb_cq *cq = queue->cq;

	if (cq->queue_count == cq->queue_room) {
		uint32_t room = cq->queue_room ? 2 * cq->queue_room : 4;
		struct vb_cq_queue **more = realloc(cq->queues, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		cq->queues = more;
		cq->queue_room = room;
	}
	queue->place = cq->queue_count;
	cq->queues[cq->queue_count++] = queue;
	return 0;
}

void vb_cq_watches_describe(struct vb_cq *cq)
{
	cq->busy_unless_equal = cq->watch_hints = cq->last = 0;
	cq->merge.known = 0;
	for (uint32_t i = 0; i < VB_CQ_FEW; i++) {
		uint32_t kind = i < cq->queue_count ? cq->queues[i]->kind : VB_CQ_RECEIVES;

		cq->watch_words[i] = &vb_cq_no_word;
		cq->watch_values[i] = 0;
		if (kind != VB_CQ_RECEIVES)
			cq->busy_unless_equal |= 1u << i;
		if (kind == VB_CQ_ARRIVALS || kind == VB_CQ_LOOSE)
			cq->watch_hints |= 1u << i;
		if (i < cq->queue_count)
			vb_cq_queue_show_watch(cq->queues[i]);
	}
}

static void place_give(struct vb_cq_queue *queue)
{
	struct vb_cq *cq = queue->cq;
	struct vb_cq_queue *last;

	vb_cq_ready_remove(queue);
	last = cq->queues[--cq->queue_count];
	cq->queues[queue->place] = last;
	last->place = queue->place;
	vb_cq_watches_describe(cq);
}

static int queue_attach(struct vb_cq_queue *queue)
{
	struct vb_cq *cq = queue->cq;
	int err = place_take(queue);

	if (err)
		return err;
	err = bit_take(queue);
	if (err) {
		place_give(queue);
		return err;
	}
	vb_cq_queue_watch(queue);
	vb_cq_watches_describe(cq);
	if (cq->queue_count > VB_CQ_FEW || cq->ready_pages)
		err = use_ready(cq);
	if (err) {
		bit_give(queue);
		place_give(queue);
	}
	return err;
}

/*
 * A queue of depth 0 never brings a completion, except that an SRQ's queue has its depth elsewhere.
 */
static bool is_silent(const struct vb_cq_queue *queue)
{
	return !queue->depth && queue->kind != VB_CQ_ARRIVALS;
}

int vb_cq_attach(struct vb_cq *cq, struct vb_cq_queue *queue)
{
	int err;

	queue->cq = cq;
	vb_spin_lock(&cq->poll_lock);
	err = is_silent(queue) ? 0 : queue_attach(queue);
	if (!err) {
		cq->attached_depth += queue->depth;
		vb_cq_asks_update(cq);
		atomic_fetch_add(&cq->users, 1);
	}
	vb_spin_unlock(&cq->poll_lock);
	return err;
}

void vb_cq_detach(struct vb_cq_queue *queue)
{
	struct vb_cq *cq = queue->cq;

	vb_spin_lock(&cq->poll_lock);
	if (!is_silent(queue)) {
		vb_cq_forget_queue(queue);
		vb_cq_trail_forget(queue);
		bit_give(queue);
		place_give(queue);
	}
	cq->attached_depth -= queue->depth;
	vb_cq_asks_update(cq);
	atomic_fetch_sub(&cq->users, 1);
	vb_spin_unlock(&cq->poll_lock);
}

void vb_cq_queue_resized(struct vb_cq_queue *queue, uint32_t depth)
{
	struct vb_cq *cq = queue->cq;

	vb_spin_lock(&cq->poll_lock);
	cq->attached_depth += (uint64_t)depth - queue->depth;
	queue->depth = depth;
	vb_cq_asks_update(cq);
	vb_spin_unlock(&cq->poll_lock);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trail of a CQ: for each number the queue whose completion has it. The poller follows it, from
 * number to number. A completion whose number is the lowest that was not met yet comes before all
 * others, so the poller takes it without a look at any other queue.
 *
 * The trail may have a hole: a thread has a number, and has not completed yet. The poller then
 * looks at the queues themselves (cq_poll.c), may take completions behind the hole, and meets their
 * entries later. A thread that died leaves a hole for good. Where the poller is far behind, entries
 * are overwritten. From there the trail begins anew, as soon as every number was polled.
 *
 * Any attached peer can write the trail. An entry is believed for the order only: the queue itself
 * must have the completion.
 */
#include "nic/cq.h"
#include "nic/nic.h"

static size_t trail_size(uint32_t mask)
{
	return ((size_t)mask + 1) * sizeof(uint32_t);
}

/* As many entries as the CQ can hold completions, within limits. */
static uint32_t mask_for(int cqe)
{
	uint32_t entries = VB_TRAIL_MIN;

	while (entries < (uint32_t)cqe && entries < VB_TRAIL_MAX)
		entries *= 2;
	return entries - 1;
}

void vb_cq_trail_begin_numbers(struct vb_cq *cq)
{
	for (uint32_t i = 0; i < cq->queue_count && i < VB_CQ_UNNUMBERED; i++)
		cq->unnumbered[cq->unnumbered_count++] = cq->queues[i];
	cq->number_top = VB_CQ_NUMBER_FIRST;
	cq->number_next = VB_CQ_NUMBER_FIRST + 1;
}

void vb_cq_trail_make(struct vb_cq *cq)
{
	uint32_t mask = mask_for(cq->ibv.cqe);
	bool numbers = vb_cq_own_asks(cq) & VB_CQ_NUMBERS;
	uint64_t offset = numbers ? vb_segment_lend(&cq->nic->seg, trail_size(mask)) : 0;

	if (!offset)
		return;
	cq->trail_offset = offset;
	cq->trail_mask = mask;
	/* Earlier numbers have no entries: the trail begins when all of them were polled. */
	cq->number_next = VB_CQ_NUMBER_FIRST + 1;
	atomic_store_explicit(&cq->trail, vb_segment_at(&cq->nic->seg, offset),
			      memory_order_release);
	atomic_store(&cq->shared->trail_mask, mask);
	atomic_store(&cq->shared->trail, offset);
}

void vb_cq_trail_free(struct vb_cq *cq)
{
	if (vb_cq_has_trail(cq))
		vb_nic_free_later(cq->nic, 0, cq->trail_offset, trail_size(cq->trail_mask));
}

/* --- queues without numbers --- */

static void unnumbered_remove(struct vb_cq *cq, uint32_t at)
{
	cq->unnumbered[at] = cq->unnumbered[--cq->unnumbered_count];
}

void vb_cq_trail_forget(struct vb_cq_queue *queue)
{
	struct vb_cq *cq = queue->cq;

	for (uint32_t i = cq->unnumbered_count; i--;)
		if (cq->unnumbered[i] == queue)
			unnumbered_remove(cq, i);
}

/* These queues complete in order: behind a number there are only numbers. */
static bool is_in_order(const struct vb_cq_queue *queue)
{
	return queue->kind == VB_CQ_SENDS || queue->kind == VB_CQ_RECEIVES;
}

bool vb_cq_unnumbered_waits(struct vb_cq *cq)
{
	bool waits = false;

	for (uint32_t i = cq->unnumbered_count; i--;) {
		struct vb_cq_queue *queue = cq->unnumbered[i];
		struct vb_rq *drained = NULL;
		uint64_t stamp = vb_cq_queue_peek(queue, &drained);

		if (stamp != VB_NO_COMPLETION && vb_cq_is_number(stamp) && is_in_order(queue))
			unnumbered_remove(cq, i);
		else if (stamp != VB_NO_COMPLETION && !vb_cq_is_number(stamp))
			waits = true;
	}
	return waits;
}

/* --- following --- */

static struct vb_cq_queue *queue_of(const struct vb_cq *cq, uint32_t entry)
{
	uint32_t bit = entry - 1;
	struct vb_cq_queue *queue = bit < cq->bit_count ? cq->bits[bit].queue : NULL;

	return (uintptr_t)queue & 1 ? NULL : queue;
}

static int take_one(struct vb_cq_queue *queue, uint64_t number, struct ibv_wc *wc)
{
	struct vb_rq *drained = NULL;

	/* Only a look moves arrivals to the list of their queue. */
	if (queue->kind == VB_CQ_ARRIVALS && vb_cq_queue_peek(queue, &drained) == VB_NO_COMPLETION)
		return 0;
	return vb_cq_queue_take(queue, number, 1, wc);
}

enum { QUEUE_MASK = (1 << VB_TRAIL_BIT_BITS) - 1 };

/* 1 + the bit of the queue that has the number; 0: no thread has written it yet. */
static uint32_t entry_at(const struct vb_cq *cq, uint64_t number)
{
	const _Atomic uint32_t *trail = atomic_load_explicit(&cq->trail, memory_order_relaxed);
	/* Pairs with the store in vb_trail_mark: the completion is visible as well. */
	uint32_t entry =
		atomic_load_explicit(&trail[number & cq->trail_mask], memory_order_acquire);

	return (entry ^ vb_trail_entry(number, 0)) >> VB_TRAIL_BIT_BITS ? 0 : entry & QUEUE_MASK;
}

int vb_cq_trail_follow(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0;

	while (got < count) {
		uint64_t number = cq->number_next;
		uint32_t entry = entry_at(cq, number);
		struct vb_cq_queue *queue;
		int taken;

		if (!entry)
			break;
		/* After the entry was seen: a completion that it depends on is visible now. */
		if (__builtin_expect(cq->unnumbered_count, 0) && vb_cq_unnumbered_waits(cq))
			break;
		queue = queue_of(cq, entry);
		taken = queue ? take_one(queue, number, &wc[got]) : 0;
		if (!taken) /* it was polled before, or went with its queue */
			cq->number_next++;
		got += taken;
	}
	if (got) {
		cq->trail_lost = false;
		cq->merge.known = 0; /* of stamps that may be gone */
	}
	return got;
}

bool vb_cq_trail_goes_on(struct vb_cq *cq)
{
	enum { PAUSES = 32 };

	if (cq->unnumbered_count) /* there may be an entry that must not be followed */
		return false;
	for (int i = 0; i < PAUSES && !cq->trail_lost; i++) {
		if (entry_at(cq, cq->number_next))
			return true;
		vb_cpu_relax();
	}
	cq->trail_lost = true; /* later polls do not wait for the same thread */
	return false;
}

/* True: every number that was given out was polled, or is void. */
static bool all_numbers_gone(struct vb_cq *cq, uint64_t *last, uint64_t *voids)
{
	/* In this order: a void number was given out before. */
	*voids = atomic_load_explicit(&cq->shared->voids, memory_order_acquire);
	*last = atomic_load_explicit(&cq->shared->number, memory_order_acquire);
	return *last - VB_CQ_NUMBER_FIRST == cq->numbers_gone + *voids;
}

bool vb_cq_trail_at_end(struct vb_cq *cq)
{
	uint64_t last, voids;

	if (!all_numbers_gone(cq, &last, &voids) ||
	    (cq->unnumbered_count && vb_cq_unnumbered_waits(cq)))
		return false;
	cq->number_next = last + 1;
	cq->trail_lost = false;
	return true;
}

/* --- few queues: no trail, but the next number --- */

void vb_cq_number_jumps(struct vb_cq *cq, uint64_t number)
{
	if (vb_cq_has_trail(cq)) {
		cq->trail_lost = true;
		return;
	}
	if (number > cq->number_top)
		cq->number_top = number;
	/* Numbers up to the highest that are neither polled nor void may still come. */
	cq->number_next = cq->number_top - VB_CQ_NUMBER_FIRST == cq->numbers_gone + cq->numbers_void
				  ? cq->number_top + 1
				  : 0;
	cq->number_lost = !cq->number_next;
}

void vb_cq_number_find(struct vb_cq *cq)
{
	uint64_t last, voids;

	cq->number_lost = false; /* until the next jump: the look costs a line that senders write */
	if (!all_numbers_gone(cq, &last, &voids))
		return;
	cq->number_top = last;
	cq->numbers_void = voids;
	cq->number_next = last + 1;
}

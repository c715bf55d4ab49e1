/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of many queues have completions. A thread that completes sets the ready bit of the queue.
 * The poller takes the bits that are set and keeps these queues in a heap, the earliest completion
 * on top. So a poll touches ready queues only.
 */
#include "nic/cq.h"

/* --- bits --- */

static inline void set(_Atomic uint64_t *word, unsigned bit)
{
	/* Tests first: a bit that is set already costs no write. */
	if (!(atomic_load(word) >> bit & 1))
		atomic_fetch_or(word, 1ull << bit);
}

void vb_cq_set_ready(struct vb_cq_shared *shared, struct vb_ready_page *page, uint32_t bit)
{
	unsigned word = bit % VB_READY_PAGE / 64;

	/* From the bit up to its summaries; the poller takes from the summaries down to the bit. So
	 * one of the two sees the other. */
	set(&page->words[word], bit % 64);
	if (word >= VB_READY_DIRECT)
		set(&page->summary, word);
	if (bit >= VB_READY_PAGE) /* the poller always looks at the first page */
		set(&shared->ready_pages_set, bit / VB_READY_PAGE % VB_READY_PAGES);
}

/* --- the heap: cq->queues[0 .. ready_count) --- */

static void put(struct vb_cq *cq, uint32_t place, struct vb_cq_queue *queue)
{
	cq->queues[place] = queue;
	queue->place = place;
}

static void swap(struct vb_cq *cq, uint32_t a, uint32_t b)
{
	struct vb_cq_queue *queue = cq->queues[a];

	put(cq, a, cq->queues[b]);
	put(cq, b, queue);
}

static void sift_up(struct vb_cq *cq, uint32_t at)
{
	for (; at && cq->queues[at]->stamp < cq->queues[(at - 1) / 2]->stamp; at = (at - 1) / 2)
		swap(cq, at, (at - 1) / 2);
}

static void sift_down(struct vb_cq *cq, uint32_t at)
{
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= cq->ready_count)
			return;
		if (child + 1 < cq->ready_count &&
		    cq->queues[child + 1]->stamp < cq->queues[child]->stamp)
			child++;
		if (cq->queues[at]->stamp <= cq->queues[child]->stamp)
			return;
		swap(cq, at, child);
		at = child;
	}
}

static void heap_add(struct vb_cq *cq, struct vb_cq_queue *queue, uint64_t stamp)
{
	queue->stamp = stamp;
	swap(cq, queue->place, cq->ready_count);
	sift_up(cq, cq->ready_count++);
}

void vb_cq_ready_remove(struct vb_cq_queue *queue)
{
	struct vb_cq *cq = queue->cq;
	uint32_t at = queue->place;

	if (at >= cq->ready_count)
		return;
	swap(cq, at, --cq->ready_count);
	if (at == cq->ready_count)
		return;
	sift_down(cq, at);
	sift_up(cq, at);
}

void vb_cq_ready_changed(struct vb_cq_queue *queue, uint64_t stamp)
{
	if (stamp == VB_NO_COMPLETION) {
		vb_cq_ready_remove(queue);
		return;
	}
	queue->stamp = stamp;
	sift_down(queue->cq, queue->place);
	sift_up(queue->cq, queue->place);
}

/* --- from bits to the heap --- */

/* A bit may be set without a completion: by a peer, or by a queue that is gone. */
static uint64_t join(struct vb_cq *cq, uint32_t bit, struct vb_rq **drained)
{
	struct vb_cq_queue *queue = bit < cq->bit_count ? cq->bits[bit].queue : NULL;
	uint64_t stamp;

	if (!queue || (uintptr_t)queue & 1 || queue->place < cq->ready_count)
		return 0;
	stamp = vb_cq_queue_peek(queue, drained);
	if (stamp == VB_NO_COMPLETION)
		return 0;
	heap_add(cq, queue, stamp);
	return stamp;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * The fence pairs with that of a thread that completes, between its completion and its look at the
 * bit (set): the thread finds the bit taken and sets it again, or its completion is found here.
 */
static uint64_t take(_Atomic uint64_t *word)
{
	uint64_t bits = atomic_exchange(word, 0);

	vb_fence_after_rmw();
	return bits;
}

static uint64_t take_word(struct vb_cq *cq, struct vb_ready_page *page, uint32_t first,
			  unsigned word)
{
	uint64_t bits, highest = 0;
	/* One look into a shared queue finds all that completed before the bits were taken. */
	struct vb_rq *drained = NULL;

	if (!atomic_load_explicit(&page->words[word], memory_order_acquire))
		return 0;
	bits = take(&page->words[word]);
	for (; bits; bits &= bits - 1)
		highest = higher(
			highest,
			join(cq, first + word * 64 + (unsigned)__builtin_ctzll(bits), &drained));
	return highest;
}

static uint64_t take_page(struct vb_cq *cq, unsigned index)
{
	const struct vb_cq_page *pages = cq->ready_pages;
	struct vb_ready_page *page = index < VB_READY_PAGES ? pages[index].bits : NULL;
	uint32_t first = index * VB_READY_PAGE;
	uint64_t words, highest = 0;

	if (!page)
		return 0;
	for (unsigned word = 0; word < VB_READY_DIRECT && first + word * 64 < cq->bit_count; word++)
		highest = higher(highest, take_word(cq, page, first, word));
	if (cq->bit_count <= first + VB_READY_DIRECT * 64 ||
	    !atomic_load_explicit(&page->summary, memory_order_acquire))
		return highest;
	words = take(&page->summary);
	for (; words; words &= words - 1)
		highest = higher(highest,
				 take_word(cq, page, first, (unsigned)__builtin_ctzll(words)));
	return highest;
}

uint64_t vb_cq_take_ready(struct vb_cq *cq)
{
	uint64_t pages, highest = take_page(cq, 0);

	if (cq->bit_count <= VB_READY_PAGE ||
	    !atomic_load_explicit(&cq->shared->ready_pages_set, memory_order_acquire))
		return highest;
	pages = take(&cq->shared->ready_pages_set);
	for (; pages; pages &= pages - 1)
		highest = higher(highest, take_page(cq, (unsigned)__builtin_ctzll(pages)));
	return highest;
}

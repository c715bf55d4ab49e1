/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polling: completions of the attached queues, in the order in which they happened.
 *
 * The rule. If completion A could be seen before the work request was posted that B completes, A is
 * polled before B. A was then visible before B got its stamp, so A's stamp is lower. So a poll
 * looks at all queues, and **looks again at the empty ones** before it takes B. The second look
 * finds A, because A was visible before B. A completion that appears after the second look with a
 * lower stamp did not happen before B.
 *
 * The same holds for every completion whose stamp is not higher than B's. So the highest stamp that
 * was seen before the second look is a *horizon*: completions up to it may be taken.
 *
 * The completing processes write the stamps; a stamp is believed for the order only.
 */
#include "nic/cq.h"
#include "nic/qp.h"

#include <errno.h>

static inline bool is_at_rest(const struct vb_cq_watch *watch)
{
	return (atomic_load_explicit(watch->word, memory_order_relaxed) == watch->value) !=
	       watch->busy_if_equal;
}

/* QPs may share a receive queue. One look checks it once: quiet is the queue that was empty. */
static inline bool is_quiet(struct vb_rq *rq, const struct vb_rq **quiet)
{
	if (*quiet == rq)
		return true;
	if (!vb_rq_quiet(rq))
		return false;
	*quiet = rq;
	return true;
}

/* Most looks find nothing: a few loads say so. quiet is NULL at the beginning of each look. */
static inline bool is_idle(struct vb_cq_queue *queue, const struct vb_rq **quiet)
{
	if (atomic_load_explicit(&queue->flush_ready, memory_order_relaxed))
		return false;
	if (queue->watch.word)
		return is_at_rest(&queue->watch);
	if (queue->kind == VB_CQ_LOOSE)
		return !atomic_load_explicit(&queue->loose->count, memory_order_acquire);
	/* In this order: a walk lists a receive before it moves head past it. */
	return is_quiet(queue->rq, quiet) &&
	       !atomic_load_explicit(&queue->arrivals->count, memory_order_acquire);
}

/* The same for one of few queues, by the copy of its watch: without one the queue is read. */
static inline bool is_idle_at(const struct vb_cq *cq, uint32_t place, bool flushing,
			      const struct vb_rq **quiet)
{
	const struct vb_cq_watch *watch = &cq->watches[place];

	return watch->word && !flushing ? is_at_rest(watch) : is_idle(cq->queues[place], quiet);
}

static inline bool is_flushing(const struct vb_cq *cq)
{
	return atomic_load_explicit(&cq->flushing, memory_order_relaxed);
}

static inline uint64_t peek(struct vb_cq_queue *queue, struct vb_rq **drained)
{
	const struct vb_rq *quiet = NULL;

	return is_idle(queue, &quiet) ? VB_NO_COMPLETION : vb_cq_queue_peek(queue, drained);
}

/* A shared receive queue may have completions for other QPs only: this look hands them out. */
static bool is_for_others(struct vb_cq_queue *queue)
{
	struct vb_rq *drained = NULL;

	return queue->kind == VB_CQ_ARRIVALS &&
	       vb_cq_queue_peek(queue, &drained) == VB_NO_COMPLETION;
}

/* --- one queue: its completions are in order already --- */

static int poll_single(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	struct vb_cq_queue *queue = cq->queues[0];
	const struct vb_rq *quiet = NULL;

	if (is_idle(queue, &quiet) || is_for_others(queue))
		return 0;
	return vb_cq_queue_take(queue, VB_NO_COMPLETION - 1, count, wc);
}

/* --- few queues --- */

/* The first queue that may have a completion, by the watches alone; queue_count: none. */
static inline uint32_t first_awake(const struct vb_cq *cq)
{
	uint32_t i = 0;

	if (__builtin_expect(is_flushing(cq), 0))
		return 0;
	while (i < cq->queue_count && cq->watches[i].word && is_at_rest(&cq->watches[i]))
		i++;
	return i;
}

static inline uint32_t first_busy(const struct vb_cq *cq, uint32_t from)
{
	const struct vb_rq *quiet = NULL;
	const bool flushing = is_flushing(cq);
	uint32_t i = from;

	while (i < cq->queue_count &&
	       (is_idle_at(cq, i, flushing, &quiet) || is_for_others(cq->queues[i])))
		i++;
	return i;
}

/*
 * The usual case: one queue has completions. The other queues, looked at after that, are empty, so
 * nothing came before the completions that were seen. 0: other queues have completions, too.
 */
static inline int poll_only(struct vb_cq *cq, uint32_t i, int count, struct ibv_wc *wc)
{
	struct vb_cq_queue *queue = cq->queues[i];
	int seen = count > 1 ? vb_cq_queue_seen(queue, count) : 1;
	const struct vb_rq *quiet = NULL;
	bool flushing;

	atomic_thread_fence(memory_order_acquire); /* is_at_rest saw the completion, relaxed */
	flushing = is_flushing(cq);
	for (uint32_t other = 0; other < cq->queue_count; other++)
		if (other != i && !is_idle_at(cq, other, flushing, &quiet))
			return 0;
	return vb_cq_queue_take(queue, VB_NO_COMPLETION - 1, seen, wc);
}

/* The stamps of the queues' first completions. */
struct heads {
	uint64_t stamp[VB_CQ_FEW];
	uint32_t first;  /* place of the queue with the lowest ... */
	uint64_t second; /* ... and the lowest stamp of the others */
};

/* Looks at the queues that were empty; false: all are still empty. */
static inline bool look(struct vb_cq *cq, struct heads *heads)
{
	const struct vb_rq *quiet = NULL;
	const bool flushing = is_flushing(cq);
	struct vb_rq *drained = NULL;
	bool found = false;

	for (uint32_t i = 0; i < cq->queue_count; i++) {
		if (heads->stamp[i] != VB_NO_COMPLETION || is_idle_at(cq, i, flushing, &quiet))
			continue;
		heads->stamp[i] = vb_cq_queue_peek(cq->queues[i], &drained);
		found |= heads->stamp[i] != VB_NO_COMPLETION;
	}
	return found;
}

static inline bool choose(const struct vb_cq *cq, struct heads *heads)
{
	uint64_t lowest = VB_NO_COMPLETION;

	heads->second = VB_NO_COMPLETION;
	for (uint32_t i = 0; i < cq->queue_count; i++) {
		uint64_t stamp = heads->stamp[i];

		if (stamp < lowest) {
			heads->second = lowest;
			lowest = stamp;
			heads->first = i;
		} else if (stamp < heads->second) {
			heads->second = stamp;
		}
	}
	return lowest != VB_NO_COMPLETION;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static int take_first(struct vb_cq *cq, struct heads *heads, int count, struct ibv_wc *wc)
{
	uint64_t horizon = heads->stamp[heads->first];
	struct vb_cq_queue *queue;
	struct vb_rq *drained = NULL;
	int taken;

	if (count > 1)
		horizon = vb_cq_queue_reach(cq->queues[heads->first], horizon, count);
	if (look(cq, heads)) /* the second look */
		choose(cq, heads);
	queue = cq->queues[heads->first];
	taken = vb_cq_queue_take(queue, lower(horizon, heads->second), count, wc);
	if (taken < count)
		heads->stamp[heads->first] = peek(queue, &drained);
	return taken;
}

/* The queues before from were seen to be empty. */
__attribute__((noinline)) static int poll_few(struct vb_cq *cq, uint32_t from, int count,
					      struct ibv_wc *wc)
{
	struct heads heads;
	int got = 0, taken;

	do {
		uint32_t i = first_busy(cq, from);

		if (i == cq->queue_count)
			return got;
		from = 0;
		taken = poll_only(cq, i, count - got, wc + got);
		got += taken;
	} while (taken && got < count);
	if (got == count)
		return got;
	for (uint32_t i = 0; i < cq->queue_count; i++)
		heads.stamp[i] = VB_NO_COMPLETION;
	look(cq, &heads);
	while (got < count && choose(cq, &heads)) {
		taken = take_first(cq, &heads, count - got, wc + got);
		if (!taken) /* a peer changed the stamp */
			break;
		got += taken;
	}
	return got;
}

/* --- many queues --- */

/* The earliest queue, with the stamp of its first completion now. Its first completion when it
 * joined may be gone: taken, or its QP was reset. */
static struct vb_cq_queue *first_ready(struct vb_cq *cq)
{
	struct vb_cq_queue *queue;

	while ((queue = vb_cq_first_ready(cq))) {
		struct vb_rq *drained = NULL;
		uint64_t stamp = peek(queue, &drained);

		if (stamp != queue->stamp)
			vb_cq_ready_changed(queue, stamp);
		if (stamp != VB_NO_COMPLETION && vb_cq_first_ready(cq) == queue)
			break;
	}
	return queue;
}

/* Looks twice, and takes completions up to the horizon. 0: none, or a peer changed a stamp. */
static int merge_ready(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	uint64_t horizon = vb_cq_take_ready(cq);
	struct vb_cq_queue *queue = first_ready(cq);
	int got = 0;

	if (!queue)
		return 0;
	horizon = higher(horizon, vb_cq_queue_reach(queue, queue->stamp, count));
	vb_cq_take_ready(cq); /* the second look */
	if (vb_cq_first_ready(cq) != queue)
		queue = first_ready(cq);
	while (queue && queue->stamp <= horizon) {
		int taken = vb_cq_queue_take(queue, lower(horizon, vb_cq_second_ready(cq)),
					     count - got, wc + got);

		got += taken;
		if (!taken || got == count)
			break;
		queue = first_ready(cq);
	}
	return got;
}

static int poll_ready(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0, taken;

	do {
		taken = merge_ready(cq, count - got, wc + got);
		got += taken;
	} while (taken && got < count);
	return got;
}

/* --- any CQ --- */

/* The CQ overran: completions that fitted are still there, and no more follow. */
__attribute__((cold, noinline)) static int what_fitted(const struct vb_cq *cq, int count)
{
	int left = (int)atomic_load(&cq->shared->count);

	return left <= 0 ? -EIO : left < count ? left : count;
}

static inline int poll_locked(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	uint32_t awake;

	if (__builtin_expect(atomic_load_explicit(&cq->shared->overrun, memory_order_relaxed), 0))
		count = what_fitted(cq, count);
	if (count <= 0)
		return count;
	if (cq->ready_pages)
		return poll_ready(cq, count, wc);
	awake = first_awake(cq);
	if (awake == cq->queue_count) /* most polls end here */
		return 0;
	if (cq->queue_count == 1)
		return poll_single(cq, count, wc);
	return poll_few(cq, awake, count, wc);
}

int vb_cq_poll(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got;

	vb_spin_lock(&cq->poll_lock);
	got = poll_locked(cq, count, wc);
	vb_spin_unlock(&cq->poll_lock);
	return got;
}

int vb_cq_poll_one(struct vb_cq *cq, struct ibv_wc *wc, uint64_t *stamp)
{
	int got;

	vb_spin_lock(&cq->poll_lock);
	cq->tm = (struct ibv_wc_tm_info){ 0 };
	got = poll_locked(cq, 1, wc);
	*stamp = cq->stamp;
	cq->wc_tm = cq->tm;
	vb_spin_unlock(&cq->poll_lock);
	return got;
}

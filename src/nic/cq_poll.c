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
 * was seen before the second look is a *horizon*: completions up to it may be taken, now or by a
 * later poll.
 *
 * Where stamps are numbers, there is a shorter way. While all lower numbers were polled, the
 * completion with the next number comes before all others, and needs no look at them. The way ends
 * at a number that is given out and not visible yet, and goes on once that was polled, or all was.
 *
 * The completing processes write the stamps; a stamp is believed for the order only.
 */
#include "nic/cq.h"
#include "nic/qp.h"

enum { AHEAD = 64 }; /* completions that are looked at before they are taken */

static inline bool is_at_rest(const struct vb_cq_watch *watch)
{
	return (atomic_load_explicit(watch->word, memory_order_relaxed) == watch->value) !=
	       watch->busy_if_equal;
}

/* Most looks find nothing: a few loads say so. */
static inline bool is_idle(struct vb_cq_queue *queue)
{
	if (atomic_load_explicit(&queue->flush_ready, memory_order_relaxed))
		return false;
	if (queue->watch.word && is_at_rest(&queue->watch))
		return true;
	if (queue->kind == VB_CQ_ARRIVALS)
		return !vb_cq_queue_has_arrivals(queue);
	if (queue->kind == VB_CQ_LOOSE)
		return !atomic_load_explicit(&queue->loose->count, memory_order_acquire);
	return false;
}

static inline bool is_flushing(const struct vb_cq *cq)
{
	return atomic_load_explicit(&cq->flushing, memory_order_relaxed);
}

static inline uint64_t peek(struct vb_cq_queue *queue, struct vb_rq **drained)
{
	return is_idle(queue) ? VB_NO_COMPLETION : vb_cq_queue_peek(queue, drained);
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

	return is_idle(queue) ? 0 : vb_cq_queue_take(queue, VB_NO_COMPLETION - 1, count, wc);
}

/* --- few queues --- */

/* A bit for each queue that may have something, by the watches alone. */
static inline uint32_t awake(const struct vb_cq *cq)
{
	uint32_t equal = 0;

	for (uint32_t i = cq->queue_count; i--;)
		equal = 2 * equal +
			(atomic_load_explicit(cq->watch_words[i], memory_order_relaxed) ==
			 cq->watch_values[i]);
	return equal ^ cq->busy_unless_equal;
}

/*
 * The queues to begin with, by fewer looks: the queue that had a completion last, alone if it has
 * one again. The look at all others follows in poll_only. A hint of that queue is not enough: then
 * all queues are looked at.
 */
static inline uint32_t awake_first(const struct vb_cq *cq)
{
	uint32_t last = cq->last, bit = 1u << last;
	bool equal = atomic_load_explicit(cq->watch_words[last], memory_order_relaxed) ==
		     cq->watch_values[last];
	bool busy = equal != (cq->busy_unless_equal >> last & 1);

	return busy && !(cq->watch_hints & bit) ? bit : awake(cq);
}

/* Where receives are flushed, watches do not tell: each queue is asked. */
__attribute__((cold, noinline)) static uint32_t not_idle(const struct vb_cq *cq, uint32_t bits)
{
	uint32_t busy = 0;

	for (; bits; bits &= bits - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(bits);

		if (!is_idle(cq->queues[i]))
			busy |= 1u << i;
	}
	return busy;
}

static inline uint32_t all(const struct vb_cq *cq)
{
	return (uint32_t)((1ull << cq->queue_count) - 1);
}

/* The queues that have something, but for those that are known to. */
static inline uint32_t busy_besides(const struct vb_cq *cq, uint32_t known)
{
	uint32_t busy;

	if (__builtin_expect(is_flushing(cq), 0))
		return not_idle(cq, all(cq) & ~known);
	busy = awake(cq) & ~known;
	return __builtin_expect(busy & cq->watch_hints, 0)
		       ? (busy & ~cq->watch_hints) | not_idle(cq, busy & cq->watch_hints)
		       : busy;
}

/* Of the queues that may have something those that have; arrivals of a shared one among them. */
static inline uint32_t busy_of(struct vb_cq *cq, uint32_t awake_bits)
{
	uint32_t busy = awake_bits & ~cq->watch_hints;
	uint32_t hints = awake_bits & cq->watch_hints;

	if (__builtin_expect(is_flushing(cq), 0))
		return not_idle(cq, all(cq));
	for (; hints; hints &= hints - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(hints);

		if (!is_idle(cq->queues[i]) && !is_for_others(cq->queues[i]))
			busy |= 1u << i;
	}
	return busy;
}

/* By branches, which are predicted: what follows does not wait for the words that were watched. */
static inline uint32_t lowest(uint32_t bits)
{
	uint32_t i = 0;

	while (!(bits >> i & 1))
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

	atomic_thread_fence(memory_order_acquire); /* it was seen by a relaxed load */
	if (busy_besides(cq, 1u << i))
		return 0;
	return vb_cq_queue_take(queue, VB_NO_COMPLETION - 1, seen, wc);
}

/* Notes the stamps of the first completions. */
static inline void look_at(struct vb_cq *cq, uint32_t bits)
{
	struct vb_cq_merge *merge = &cq->merge;
	struct vb_rq *drained = NULL;

	for (; bits; bits &= bits - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(bits);

		merge->stamp[i] = vb_cq_queue_peek(cq->queues[i], &drained);
		merge->known |= (uint32_t)(merge->stamp[i] != VB_NO_COMPLETION) << i;
	}
}

static inline void look_at_empty(struct vb_cq *cq)
{
	look_at(cq, busy_besides(cq, cq->merge.known));
}

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* False: nothing is known. */
static inline bool choose(struct vb_cq_merge *merge)
{
	uint64_t lowest_stamp = VB_NO_COMPLETION;

	merge->second = VB_NO_COMPLETION;
	for (uint32_t bits = merge->known; bits; bits &= bits - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(bits);
		uint64_t stamp = merge->stamp[i];

		if (stamp < lowest_stamp) {
			merge->second = lowest_stamp;
			lowest_stamp = stamp;
			merge->first = i;
		} else {
			merge->second = lower(merge->second, stamp);
		}
	}
	return merge->known;
}

/* The highest stamp that is seen now, by a look that goes a little way into the first queue. */
static inline uint64_t horizon_of(const struct vb_cq *cq)
{
	const struct vb_cq_merge *merge = &cq->merge;
	uint64_t horizon =
		vb_cq_queue_reach(cq->queues[merge->first], merge->stamp[merge->first], AHEAD);

	for (uint32_t bits = merge->known; bits; bits &= bits - 1)
		horizon = higher(horizon, merge->stamp[__builtin_ctz(bits)]);
	return horizon;
}

/* Completions of the queue were taken: notes the stamp of the next one. */
static inline void look_behind(struct vb_cq *cq, uint32_t i)
{
	struct vb_cq_merge *merge = &cq->merge;
	struct vb_rq *drained = NULL;

	merge->stamp[i] = peek(cq->queues[i], &drained);
	if (merge->stamp[i] == VB_NO_COMPLETION)
		merge->known &= ~(1u << i);
}

static int take_first(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	struct vb_cq_merge *merge = &cq->merge;
	int taken = vb_cq_queue_take(cq->queues[merge->first], lower(merge->horizon, merge->second),
				     count, wc);

	look_behind(cq, merge->first);
	return taken;
}

/* Takes completions up to the horizon, without a look. Later stamps are forgotten: the next look
 * finds them. */
static int merge_allowed(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	struct vb_cq_merge *merge = &cq->merge;
	int got = 0;

	while (choose(merge) && merge->stamp[merge->first] <= merge->horizon) {
		int taken = take_first(cq, count - got, wc + got);

		got += taken;
		if (got == count)
			return got;
		if (!taken) /* a peer changed the stamp */
			break;
	}
	merge->known = 0;
	return got;
}

static int merge_few(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0, taken;

	do {
		look_at_empty(cq);
		if (!choose(&cq->merge))
			return got;
		cq->merge.horizon = horizon_of(cq);
		look_at_empty(cq); /* the second look */
		taken = merge_allowed(cq, count - got, wc + got);
		got += taken;
	} while (taken && got < count);
	return got;
}

/* --- few queues, and every number below the next one was polled --- */

static inline bool has_next(const struct vb_cq *cq, uint32_t i)
{
	return cq->merge.known >> i & 1 && cq->merge.stamp[i] == cq->number_next;
}

/* False: no queue is known to have the next number. */
static bool find_next(const struct vb_cq *cq, uint32_t *place)
{
	for (uint32_t bits = cq->merge.known; bits; bits &= bits - 1) {
		*place = (uint32_t)__builtin_ctz(bits);
		if (cq->merge.stamp[*place] == cq->number_next)
			return true;
	}
	return false;
}

/* A completion without a number comes before all that have one. */
static bool unnumbered_first(struct vb_cq *cq)
{
	for (uint32_t i = 0; i < cq->unnumbered_count; i++)
		if (!is_idle(cq->unnumbered[i]))
			return vb_cq_unnumbered_waits(cq);
	return false;
}

/*
 * Takes completions number by number. Nothing that is not polled yet comes before the completion
 * that has the next number, so there is no second look. Bits: of the queues that may have
 * something.
 */
static int poll_numbers(struct vb_cq *cq, uint32_t bits, int count, struct ibv_wc *wc)
{
	struct vb_cq_merge *merge = &cq->merge;
	uint32_t at = merge->next[cq->last];
	int got = 0;

	merge->horizon = 0; /* what is noted from here on was seen by one look */
	look_at(cq, bits & ~merge->known);
	while (got < count) {
		if (!has_next(cq, at) && !find_next(cq, &at)) {
			look_at_empty(cq);
			if (!find_next(cq, &at))
				break;
		}
		if (__builtin_expect(cq->unnumbered_count, 0) && unnumbered_first(cq))
			break;
		got += vb_cq_queue_take_row(cq->queues[at], count - got, wc + got,
					    &merge->stamp[at]);
		merge->known &= ~((uint32_t)(merge->stamp[at] == VB_NO_COMPLETION) << at);
		merge->next[cq->last] = (uint8_t)at;
		cq->last = at;
		at = merge->next[at];
	}
	return got;
}

/* --- few queues, whatever their numbers are --- */

static int poll_any(struct vb_cq *cq, uint32_t bits, int count, struct ibv_wc *wc)
{
	int got = 0, taken;

	do {
		uint32_t busy = busy_of(cq, bits);

		if (!busy)
			return got;
		cq->last = lowest(busy);
		taken = poll_only(cq, cq->last, count - got, wc + got);
		got += taken;
		if (got == count)
			return got;
		bits = awake_first(cq);
	} while (taken);
	return got + merge_few(cq, count - got, wc + got);
}

/* Stamps up to the horizon are known from the last poll. */
static int poll_more(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got = merge_allowed(cq, count, wc);
	uint32_t bits;

	if (got == count)
		return got;
	bits = awake_first(cq);
	return bits || is_flushing(cq) ? got + poll_any(cq, bits, count - got, wc + got) : got;
}

/* Bits: of the queues that may have something. */
__attribute__((noinline)) static int poll_few(struct vb_cq *cq, uint32_t bits, int count,
					      struct ibv_wc *wc)
{
	int got = 0;

	if (cq->number_next && !is_flushing(cq)) { /* a flush has no number before it is seen */
		got = poll_numbers(cq, bits, count, wc);
		if (got == count || !cq->merge.known)
			return got;
		cq->merge.known = 0;
		bits = awake(cq);
	}
	got += cq->merge.known ? poll_more(cq, count - got, wc + got)
			       : poll_any(cq, bits, count - got, wc + got);
	if (got < count && cq->number_lost)
		vb_cq_number_find(cq);
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

/* Along the trail as far as it leads; *all: there is no other completion. */
static int poll_trail(struct vb_cq *cq, int count, struct ibv_wc *wc, bool *all)
{
	int got = 0;

	*all = false;
	if (!vb_cq_has_trail(cq) || is_flushing(cq)) /* no trail leads to flushed receives */
		return 0;
	do {
		got += vb_cq_trail_follow(cq, count - got, wc + got);
		*all = got == count || vb_cq_trail_at_end(cq);
	} while (!*all && vb_cq_trail_goes_on(cq));
	return got;
}

/* By the trail, and where it does not lead by the ready bits. */
__attribute__((noinline)) static int poll_many(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	bool all;
	int got = poll_trail(cq, count, wc, &all), taken;

	if (all)
		return got;
	do {
		taken = merge_ready(cq, count - got, wc + got);
		got += taken;
	} while (taken && got < count);
	return got;
}

/* --- any CQ --- */

enum { SMALL = 8 }; /* completions of a poll, and fewer than asked for: it is at the end */

/* The first empty poll after many quick ones. */
static inline bool may_wait(struct vb_pace *pace)
{
	return !pace->empty++ && pace->quick >= pace->needed;
}

/* The poller has caught up with its sender. */
__attribute__((noinline)) static uint32_t look_later(struct vb_cq *cq)
{
	uint32_t bits;

	if (!vb_pace_wait(cq))
		return 0;
	bits = awake_first(cq);
	vb_pace_waited(cq, bits);
	return bits;
}

static inline void note_found(struct vb_cq *cq)
{
	const uint32_t polls = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed);
	struct vb_pace *pace = &cq->pace;

	if (pace->empty < VB_PACE_FEW)
		pace->quick++;
	else if (pace->quick)
		vb_pace_end(cq);
	pace->empty = 0;
	if (polls % VB_POLLS_PER_YIELD)
		atomic_store_explicit(&cq->empty_polls, (polls | (VB_POLLS_PER_YIELD - 1)) + 1,
				      memory_order_relaxed);
}

/* waits: for a moment, if a sender is just behind. */
__attribute__((always_inline)) static inline int poll_queues(struct vb_cq *cq, int count,
							     struct ibv_wc *wc, bool waits)
{
	uint32_t bits;

	if (cq->ready_pages)
		return poll_many(cq, count, wc);
	if (__builtin_expect(cq->merge.known, 0))
		return poll_few(cq, 0, count, wc);
	bits = awake_first(cq);
	if (waits && !bits && __builtin_expect(may_wait(&cq->pace), 0))
		bits = look_later(cq);
	if (!bits && !is_flushing(cq)) { /* most polls end here */
		if (__builtin_expect(cq->number_lost, 0))
			vb_cq_number_find(cq);
		return 0;
	}
	if (cq->queue_count == 1)
		return poll_single(cq, count, wc);
	return poll_few(cq, bits, count, wc);
}

int vb_cq_poll_queues(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	return poll_queues(cq, count, wc, false);
}

static inline int poll_locked(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	if (__builtin_expect(atomic_load_explicit(&cq->shared->overrun, memory_order_relaxed) |
				     cq->is_apart,
			     0))
		return vb_cq_poll_apart(cq, count, wc);
	return poll_queues(cq, count, wc, true);
}

/* A stream brought a few completions: the poll lets more gather, and takes those as well. */
__attribute__((noinline)) static int poll_rest(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got = look_later(cq) ? poll_locked(cq, count, wc) : 0;

	return got > 0 ? got : 0;
}

int vb_cq_poll(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got;

	vb_spin_lock(&cq->poll_lock);
	got = poll_locked(cq, count, wc);
	if (got)
		note_found(cq);
	if (got > 0 && got < SMALL && got < count && !cq->ready_pages &&
	    __builtin_expect(cq->pace.quick >= cq->pace.needed, 0))
		got += poll_rest(cq, count - got, wc + got);
	vb_spin_unlock(&cq->poll_lock);
	return got;
}

int vb_cq_poll_one(struct vb_cq *cq, struct ibv_wc *wc, uint64_t *stamp)
{
	int got;

	vb_spin_lock(&cq->poll_lock);
	cq->tm = (struct ibv_wc_tm_info){ 0 };
	got = poll_locked(cq, 1, wc);
	if (got)
		note_found(cq);
	*stamp = cq->stamp;
	cq->wc_tm = cq->tm;
	vb_spin_unlock(&cq->poll_lock);
	return got;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. A CQ holds no entries: send completions wait in the send queues, receive
 * completions in the cells of the receive queues, and a poll looks at the attached queues, all
 * of them when they are few, those with a ready bit when they are many.
 *
 * A poll returns completions of all queues in the order in which they happened. If more than one
 * queue is attached, each completion carries a stamp, taken just before it becomes visible, and a
 * poll takes the lowest (cq_poll.c).
 */
#ifndef VB_NIC_CQ_H
#define VB_NIC_CQ_H

#include "base/clock.h"
#include "nic/channel.h"
#include "nic/cq_pace.h"
#include "nic/cq_veil.h"
#include "nic/pd.h"
#include "nic/waiters.h"

struct vb_arrivals;
struct vb_ledger;
struct vb_qp;
struct vb_rq;
struct vb_sq;

enum { VB_CQ_FEW = 16 };            /* queues that a poll looks at without ready bits */
enum { VB_CQ_UNNUMBERED = 3 };      /* queues that a CQ without numbers can have, and one more */
#define VB_NO_COMPLETION UINT64_MAX /* in place of a stamp: the queue is empty */

/* The places where completions wait. */
enum vb_cq_kind {
	VB_CQ_SENDS,
	VB_CQ_RECEIVES, /* of one sender */
	VB_CQ_ARRIVALS, /* of many senders: the QP's own queue, an SRQ's for the QP, an XRC SRQ */
	VB_CQ_LOOSE,    /* in no queue but in nodes: tag matching */
};

/*
 * A word that tells whether there may be a completion. RECEIVES: the word equals the value. SENDS
 * and ARRIVALS: the word differs from the value. NULL: only the queue itself tells.
 */
struct vb_cq_watch {
	const _Atomic uint64_t *word;
	uint64_t value;
	bool busy_if_equal;
};

/* A queue that is attached to a CQ. A QP has two, an XRC SRQ one; under the poll lock. */
struct vb_cq_queue {
	uint32_t kind; /* enum vb_cq_kind */
	_Atomic uint32_t
		flush_ready; /* its QP is in ERR, no sender inside: receives may be flushed */
	struct vb_cq_watch watch;
	struct vb_sq *sq;
	struct vb_rq *rq;
	uint64_t stamp;               /* of the first completion, while the queue is in the heap */
	uint32_t place;               /* in cq->queues */
	struct vb_arrivals *arrivals; /* ARRIVALS: in rq */
	struct vb_loose *loose;
	struct vb_qp *qp; /* the QP of the queue; NULL: an SRQ's queue */
	struct vb_cq *cq;
	uint32_t bit;   /* number of its ready bit */
	uint32_t depth; /* count of completions that it can bring */
	uint64_t sends; /* sq.done of its QP when the poller looked last (cq_pace.c) */
};

/* Completions in the order in which they were made. */
struct vb_loose {
	struct vb_spin lock;
	struct vb_list nodes; /* struct vb_wc_node */
	_Atomic uint32_t count;
};

struct vb_wc_node {
	struct vb_list node;
	uint64_t stamp; /* if the CQ asks for one */
	struct ibv_wc wc;
	struct ibv_wc_tm_info tm;
	_Atomic uint32_t *polled; /* the poll sets it to polled_to; NULL: nothing to set */
	uint32_t polled_to;
};

union vb_cq_bit {
	struct vb_cq_queue *queue;
	uintptr_t free_next; /* odd: bit_free when this bit was given back, shifted */
};

struct vb_cq_page {
	struct vb_ready_page *bits;
	uint64_t offset; /* in the segment */
};

/* Several of few queues have completions: what a poll saw, and may take without another look. */
struct vb_cq_merge {
	uint32_t known;   /* a bit for each queue that has one; 0: all was taken that was allowed */
	uint32_t first;   /* the place of the lowest ... */
	uint64_t second;  /* ... and the lowest of the others */
	uint64_t horizon; /* completions up to this stamp may be taken (cq_poll.c) */
	uint64_t stamp[VB_CQ_FEW]; /* of the first completion of each */
	uint8_t next[VB_CQ_FEW];   /* by number: the place that came after each; a guess */
};

enum { VB_POLLS_PER_YIELD = 1024 };

/* Under VERBENA_EXPLAIN: what the service thread saw at its last look; under nic->lock. */
struct vb_cq_quiet {
	uint64_t since_ns; /* completions lie there, and no thread has polled; 0: that is not so */
	uint32_t polls, count;
	bool polled, told;
};

struct vb_cq {
	union { /* first */
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	struct vb_list node; /* in nic->cqs */
	struct vb_nic *nic;
	struct vb_cq_shared *shared;
	uint64_t shared_offset;
	struct vb_waiters waiters;
	_Alignas(64) struct vb_spin poll_lock;
	/* The attached queues. With ready bits the first ready_count are a heap of those that have
	 * completions, the earliest on top. */
	uint32_t queue_count, queue_room, ready_count;
	_Atomic uint32_t flushing; /* count of flush_ready queues: their watches do not tell */
	/* A hint: a lost count does not matter. A poll that finds something rounds it up to a
	 * multiple of VB_POLLS_PER_YIELD, so the rest tells of the polls since then. */
	_Atomic uint32_t empty_polls;
	_Atomic uint32_t lanes; /* a bit per lane whose QPs complete here (nic/lane.h) */
	struct vb_cq_queue **queues;
	/* The watches of the queues while there are few, side by side; a bit per queue. */
	uint32_t busy_unless_equal, watch_hints; /* hints: the queue itself must be asked as well */
	bool number_lost; /* number_next is to be found once the CQ is empty (cq_trail.c) */
	bool is_apart;    /* there is a ledger: polls look there first */
	uint32_t last; /* place of the queue that had a completion last; polls look there first */
	struct vb_pace pace;
	struct vb_cq_merge merge;
	const _Atomic uint64_t *watch_words[VB_CQ_FEW];
	uint64_t watch_values[VB_CQ_FEW];
	struct vb_cq_page *_Atomic ready_pages; /* VB_READY_PAGES; NULL: no ready bits are set */
	union vb_cq_bit *bits;                  /* per bit: its queue, or the next free bit */
	uint32_t bit_count, bit_room;
	uint32_t bit_free; /* 1 + the bit that is given out next; 0: a new bit */
	/* The trail (cq_trail.c); NULL: none. Completing threads of this process read the first
	 * three, the others are the poller's. */
	_Atomic uint32_t *_Atomic trail;
	uint64_t trail_offset;
	uint32_t trail_mask;
	bool trail_lost; /* a completion was polled before the number that is next */
	/* Queues that were attached before there were numbers: completions without a number may
	 * still come there. */
	struct vb_cq_queue *unnumbered[VB_CQ_UNNUMBERED];
	uint32_t unnumbered_count;
	_Atomic uint32_t asks;   /* what completions must do; shared->asks is the peers' copy */
	uint64_t attached_depth; /* sum of the queues' depths */
	struct vb_channel *channel;
	struct vb_list channel_node;
	_Atomic uint32_t events_pending; /* fired, not taken from the channel */
	uint32_t events_taken;           /* under the lock of channel->events */
	_Atomic uint32_t users;          /* attached queues */
	_Atomic uint32_t overrun_told, async_taken;
	uint32_t lane_qps;        /* QPs that receive here, all in one lane ... */
	unsigned lane;            /* ... and that lane; both under nic->lock */
	struct vb_pd *pd;         /* parent domain that allocated this CQ; NULL: none */
	struct vb_ledger *ledger; /* ledger.h; written once, under poll_lock; NULL: there is none */
	bool stamped;             /* completions carry their time */
	bool ignore_overrun;
	uint64_t stamp;        /* of the completion that was polled last; under poll_lock */
	uint64_t numbers_gone; /* count of numbers that were polled; likewise */
	/* The lowest number that was not met yet; every lower one was polled, or is void. Without a
	 * trail 0: not known. Likewise. */
	uint64_t number_next;
	uint64_t number_top;      /* few queues: the highest number that was polled ... */
	uint64_t numbers_void;    /* ... and the count of void numbers below it; likewise */
	struct ibv_wc_tm_info tm; /* likewise */
	/* Extended polling, from start_poll to end_poll. */
	bool single_threaded; /* one thread at a time polls: no lock */
	struct vb_spin batch_lock;
	struct ibv_wc wc; /* the completion that the batch is at */
	uint64_t wc_stamp;
	struct ibv_wc_tm_info wc_tm;
	uint64_t wall_offset; /* of the wall clock from the device's */
	/* Moderation (cq_moderate.c). */
	_Atomic uint32_t moderate_count; /* 0: each completion makes an event */
	_Atomic uint32_t moderate_period_us;
	struct vb_spin hold_lock;
	bool holding;                 /* an event waits for more completions; under hold_lock */
	uint32_t held;                /* count of completions in this period; likewise */
	uint64_t held_until_ns;       /* likewise */
	_Atomic uint32_t arm_kind;    /* enum vb_cq_armed: the application's last arm */
	_Atomic uint32_t armed_count; /* count of arms since senders' events were collected */
	struct vb_cq_quiet quiet;
	/* The adversary (cq_veil.h), and the calls that it has replaced. */
	struct vb_veil veil;
	int (*start_poll)(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *ex);
};

static inline struct vb_cq *vb_cq(struct ibv_cq *ibv)
{
	return vb_container(ibv, struct vb_cq, ibv);
}

struct vb_cq_spec {
	int cqe;
	void *cq_context;
	struct vb_channel *channel;
	struct vb_pd *pd; /* parent domain, or NULL */
	bool stamped, single_threaded, ignore_overrun;
};

int vb_cq_create(struct ibv_context *ctx, const struct vb_cq_spec *spec, struct vb_cq **out);
int vb_cq_destroy(struct vb_cq *cq); /* -EBUSY: QPs use it. Waits for events to be acked. */
int vb_cq_resize(struct vb_cq *cq, int cqe);
/* From now on more completions than cqe are no error: the oldest are lost. */
void vb_cq_ignore_overrun(struct vb_cq *cq);
int vb_cq_req_notify(struct vb_cq *cq, bool solicited_only);

/* Attaches a queue whose kind, sq, rq and depth are set; sets its bit. Under nic->lock
 * (cq_attach.c). */
int vb_cq_attach(struct vb_cq *cq, struct vb_cq_queue *queue);
void vb_cq_detach(struct vb_cq_queue *queue);
void vb_cq_queue_resized(struct vb_cq_queue *queue, uint32_t depth);
/* Computes asks anew: depths or cqe have changed. Under the poll lock. */
void vb_cq_asks_update(struct vb_cq *cq);
/* Counts the completions that wait in the attached queues; under the poll lock. */
uint32_t vb_cq_waiting(struct vb_cq *cq);
/* Changes when completions are taken, but for those of a QP that is gone; likewise. */
uint32_t vb_cq_taken(const struct vb_cq *cq);
/* Describes the watches of few queues anew. Under the poll lock, or before any thread polls. */
void vb_cq_watches_describe(struct vb_cq *cq);
/* Frees the memory of ready bits, when the CQ is destroyed. Under nic->lock. */
void vb_cq_pages_free(struct vb_cq *cq);

/* Up to count completions, or -EIO for a CQ that overran. */
int vb_cq_poll(struct vb_cq *cq, int count, struct ibv_wc *wc);
/* One completion, and in *stamp its time if the CQ is stamped. */
int vb_cq_poll_one(struct vb_cq *cq, struct ibv_wc *wc, uint64_t *stamp);
/* Under the poll lock: of the queues alone, and of a CQ that overran or has a ledger. */
int vb_cq_poll_queues(struct vb_cq *cq, int count, struct ibv_wc *wc);
__attribute__((cold)) int vb_cq_poll_apart(struct vb_cq *cq, int count, struct ibv_wc *wc);
/* The queue is about to be emptied: completions that wait there give up their room in the CQ. Under
 * the poll lock; nothing completes in the queue any more. */
void vb_cq_forget_queue(struct vb_cq_queue *queue);

/* --- one attached queue (cq_queue.c); under the poll lock --- */

/* The stamp of the first completion; 0: it carries none; VB_NO_COMPLETION: the queue is empty. An
 * SRQ that was drained already in this look (*drained) is not drained again. */
uint64_t vb_cq_queue_peek(struct vb_cq_queue *queue, struct vb_rq **drained);
/* The stamp of the first completion, or of a later visible one among the next count. */
uint64_t vb_cq_queue_reach(const struct vb_cq_queue *queue, uint64_t first, int count);
/* The number of completions that are surely visible, up to count. At least one is. */
int vb_cq_queue_seen(const struct vb_cq_queue *queue, int count);
/* Takes completions with stamps up to last; at least one, if peek has found it. Of a CQ with one
 * queue the completions are taken without a peek. */
int vb_cq_queue_take(struct vb_cq_queue *queue, uint64_t last, int count, struct ibv_wc *wc);
/* Takes the completion with the CQ's next number, which peek has found, and those with the numbers
 * that follow. *behind: as peek's answer now. */
int vb_cq_queue_take_row(struct vb_cq_queue *queue, int count, struct ibv_wc *wc, uint64_t *behind);
uint32_t vb_cq_queue_waiting(struct vb_cq_queue *queue);
/* Sets the watch of a queue that is new or was reset. */
void vb_cq_queue_watch(struct vb_cq_queue *queue);
/* Copies the queue's watch to those of the CQ, while there are few. */
void vb_cq_queue_show_watch(const struct vb_cq_queue *queue);
/* Stands for a missing word: it never has the value of the watch, which is 0. */
extern const _Atomic uint64_t vb_cq_no_word;
/* ARRIVALS: false if there is no completion now; from then on the watch tells. */
bool vb_cq_queue_has_arrivals(struct vb_cq_queue *queue);

/* A completion of this process became visible in a queue; a full fence lies behind it. */
void vb_cq_notify(struct vb_cq *cq, uint32_t ready_bit, bool solicited);
/* Adds a completion in a node, which belongs to the queue from now on; false: the CQ overran. */
bool vb_cq_push(struct vb_cq_queue *queue, struct vb_wc_node *node, bool solicited);
/* Frees the nodes that were not polled, after the queue was detached. */
/* As vb_cq_queue_peek and vb_cq_queue_take. */
uint64_t vb_loose_peek(struct vb_loose *loose);
int vb_loose_take(struct vb_cq_queue *queue, uint64_t last, int count, struct ibv_wc *wc);
void vb_loose_free(struct vb_loose *loose);
/* The duties of a completion before it is visible: VB_CQ_COUNTS, VB_CQ_STAMPS, VB_CQ_NUMBERS. The
 * first function reads them from the CQ of any process, the second from one of this process. */
static inline uint32_t vb_cq_asks(const struct vb_cq_shared *shared)
{
	return atomic_load_explicit(&shared->asks, memory_order_relaxed);
}
static inline uint32_t vb_cq_own_asks(const struct vb_cq *cq)
{
	return atomic_load_explicit(&cq->asks, memory_order_relaxed);
}

/*
 * The stamp of a completion, for a CQ that asks: its number, or the time. It is taken right before
 * the completion becomes visible. Numbers: the thread that gets the higher number has seen all that
 * the thread with the lower number had seen, because each both reads and writes the counter.
 *
 * Where only the two queues of one QP complete, no counter is shared with other processes. If n
 * receives had completed when a send did, the send's stamp is 2 n. The stamp of receive n is 2 n +
 * 1; no thread writes it. Numbers are higher than all of these: a second QP may be attached later.
 */
#define VB_CQ_NUMBER_FIRST (1ull << 62)

/* Any attached peer can write stamps and the counter: no value may become VB_NO_COMPLETION. */
static inline uint64_t vb_cq_stamp_of(uint64_t written)
{
	return written & INT64_MAX;
}

static inline uint64_t vb_cq_stamp(struct vb_cq_shared *shared, uint32_t asks)
{
	return asks & VB_CQ_NUMBERS ? vb_cq_stamp_of(atomic_fetch_add(&shared->number, 1) + 1)
				    : vb_device_clock();
}

/* A number was taken, and no completion with it becomes visible. */
static inline void vb_cq_void_number(struct vb_cq_shared *shared, uint32_t asks)
{
	if (asks & VB_CQ_NUMBERS)
		atomic_fetch_add(&shared->voids, 1);
}

static inline bool vb_cq_is_number(uint64_t stamp)
{
	return stamp > VB_CQ_NUMBER_FIRST;
}

/* Prefetches the counter: a completion will need a number soon. */
static inline void vb_cq_prefetch_number(const struct vb_cq_shared *shared, uint32_t asks)
{
	if (asks & VB_CQ_NUMBERS)
		vb_prefetch_to_write(&shared->number);
}

/* Completions were polled, or went with their queue. The count may lack completions that happened
 * while the counting began, until the CQ is empty: so it stops at 0. */
static inline void vb_cq_forget(struct vb_cq *cq, uint32_t completions)
{
	uint32_t count;

	if (!(vb_cq_own_asks(cq) & VB_CQ_COUNTS))
		return;
	count = atomic_load(&cq->shared->count);
	while (!atomic_compare_exchange_weak(&cq->shared->count, &count,
					     count > completions ? count - completions : 0))
		;
}
/* Counts a completion where attached depths exceed cqe; false: the queue is full. */
bool vb_cq_account(struct vb_cq_shared *shared);

/* --- the trail (cq_trail.c) --- */

/* From now on completions have numbers; later ones of the attached queues may have none. */
void vb_cq_trail_begin_numbers(struct vb_cq *cq);
/* Makes the trail of a CQ with many queues. Without memory, or numbers, there is none. Under the
 * poll lock and nic->lock. */
void vb_cq_trail_make(struct vb_cq *cq);
void vb_cq_trail_free(struct vb_cq *cq);
/* Takes completions that the trail leads to. It may end before all were taken. */
int vb_cq_trail_follow(struct vb_cq *cq, int count, struct ibv_wc *wc);
/* True: the next entry is there, after a short wait. Its thread has the number already. */
bool vb_cq_trail_goes_on(struct vb_cq *cq);
/* True: every number that was given out has been polled, so no completion waits. */
bool vb_cq_trail_at_end(struct vb_cq *cq);
/* The queue leaves the CQ. */
void vb_cq_trail_forget(struct vb_cq_queue *queue);

/* A send with this stamp became visible to pollers of this process. */
static inline void vb_cq_trail_mark(struct vb_cq *cq, uint64_t stamp, uint32_t bit)
{
	_Atomic uint32_t *trail = atomic_load_explicit(&cq->trail, memory_order_acquire);

	if (trail && vb_cq_is_number(stamp))
		vb_trail_mark(trail, cq->trail_mask, stamp, bit);
}

static inline bool vb_cq_has_trail(const struct vb_cq *cq)
{
	return atomic_load_explicit(&cq->trail, memory_order_relaxed);
}

/* A completion with a number was polled before a lower number, or after a higher one. */
void vb_cq_number_jumps(struct vb_cq *cq, uint64_t number);
/* All was polled: if every number that was given out is among it, or void, the next one is known.
 */
void vb_cq_number_find(struct vb_cq *cq);
/* True: a queue that had no numbers at first may have a completion without one. */
bool vb_cq_unnumbered_waits(struct vb_cq *cq);

/* A completion is polled; under the poll lock. */
static inline void vb_cq_polled(struct vb_cq *cq, uint64_t stamp)
{
	cq->stamp = stamp;
	if (!vb_cq_is_number(stamp))
		return;
	cq->numbers_gone++;
	if (__builtin_expect(stamp == cq->number_next, 1))
		cq->number_next++;
	else
		vb_cq_number_jumps(cq, stamp);
}

/* --- ready bits (cq_ready.c) --- */

/* page has the bit. A full fence lies between the completion and this call. */
void vb_cq_set_ready(struct vb_cq_shared *shared, struct vb_ready_page *page, uint32_t bit);
/* Queues whose bits are set join the heap; under the poll lock. Returns the highest stamp among
 * their first completions, or 0. */
uint64_t vb_cq_take_ready(struct vb_cq *cq);
/* The queue with the earliest completion, or NULL. */
static inline struct vb_cq_queue *vb_cq_first_ready(const struct vb_cq *cq)
{
	return cq->ready_count ? cq->queues[0] : NULL;
}
/* The lowest stamp among the other queues of the heap; VB_NO_COMPLETION: there are none. */
static inline uint64_t vb_cq_second_ready(const struct vb_cq *cq)
{
	uint64_t a = cq->ready_count > 1 ? cq->queues[1]->stamp : VB_NO_COMPLETION;
	uint64_t b = cq->ready_count > 2 ? cq->queues[2]->stamp : VB_NO_COMPLETION;

	return a < b ? a : b;
}
/* The first completion of a queue in the heap has changed; VB_NO_COMPLETION: none is left. */
void vb_cq_ready_changed(struct vb_cq_queue *queue, uint64_t stamp);
void vb_cq_ready_remove(struct vb_cq_queue *queue);
static inline void vb_cq_set_own_ready(struct vb_cq *cq, const struct vb_cq_page *pages,
				       uint32_t bit)
{
	vb_cq_set_ready(cq->shared, pages[bit / VB_READY_PAGE].bits, bit);
}

/* Takes the arm if it matches; the caller must then make the event. */
bool vb_cq_disarm(struct vb_cq_shared *shared, bool solicited);
/* Makes events for the channel, now or, with moderation, later. */
void vb_cq_fire(struct vb_cq *cq, uint32_t events);
/* Makes the events that peers left in shared->fired. */
void vb_cq_collect_fired(struct vb_cq *cq);
/* A peer ended, perhaps after it completed a receive and before it notified this CQ. */
void vb_cq_look_again(struct vb_cq *cq);

/* --- moderation (cq_moderate.c) --- */

/* From now on an event stands for count completions, or for those of a period. */
void vb_cq_moderate(struct vb_cq *cq, uint16_t count, uint16_t period_us);
static inline bool vb_cq_moderated(struct vb_cq *cq)
{
	return atomic_load_explicit(&cq->moderate_count, memory_order_relaxed);
}
/* Completions took the arm: makes their event now, or with the completions that follow. */
void vb_cq_hold(struct vb_cq *cq, uint32_t completions);
/* Makes the events whose period is over; by the service thread. */
void vb_cq_release_due(struct vb_nic *nic, uint64_t now_ns);
/* The time of the next such event; VB_NEVER_NS: none is held. */
uint64_t vb_cq_next_due_ns(struct vb_nic *nic);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queues, a QP's own or shared (SRQ). The cells that senders complete are lent. The owner
 * keeps a private twin of every posted receive, and never takes an address, a length or an id back
 * from shared memory: any attached peer may have written the contents of a cell.
 *
 * One sender (RC, UC): cells complete strictly in order. Many senders (UD, SRQ): a sender takes a
 * cell first, so cells complete in any order. The consumer walks over the ring once (rq_drain.c).
 * Completed cells go to lists of arrivals, in the order of their completion. Taken cells go to a
 * list that the consumer looks at again. A slow or stopped sender does not hold up others: the ring
 * has twice the cells, and a post skips cells that are still open.
 */
#ifndef VB_NIC_RQ_H
#define VB_NIC_RQ_H

#include <string.h>

#include "nic/mr.h"

enum vb_recv_open {
	VB_RECV_CLOSED, /* consumed, or never posted */
	VB_RECV_POSTED,
	VB_RECV_ARRIVED, /* completed, and in a list of arrivals */
};

struct vb_recv_wqe { /* the private twin */
	uint64_t wr_id;
	uint32_t length;
	uint8_t sge_count;
	uint8_t flags;  /* VB_CELL_*; KEYS_OK: no region of it ended since; consumer, once open */
	bool counted;   /* by a completion counter, before a poll took it; consumer, once open */
	uint32_t index; /* of the receive that is or was here; written before open */
	_Atomic uint32_t open; /* enum vb_recv_open; the poster opens, the consumer closes */
	uint32_t next, prev;   /* indexes of the neighbours in a list of arrivals; consumer */
	struct ibv_sge sge[];
};

/* Completed receives of a queue with many senders, the oldest first; under the consumer's lock. */
struct vb_arrivals {
	_Atomic uint32_t count; /* also read without the lock */
	uint32_t first, last;   /* indexes; valid if count is not 0 */
};

struct vb_rq {
	struct vb_list node; /* in nic->rqs, under nic->rqs_lock */
	struct vb_nic *nic;
	struct vb_pd *pd;
	uint32_t qpn;                /* the QP that owns the queue; 0: it is shared */
	struct vb_rq_shared *shared; /* shown, like sges; the others are lent */
	struct vb_rq_lent *lent;
	uint64_t shared_offset, lent_offset, cells_offset, spill_offset, sges_offset;
	struct vb_cell *cells;
	uint8_t *spill;
	uint8_t *sges;
	uint8_t *twins;
	uint32_t depth, mask, sge_max, sges_stride, twin_stride;
	uint32_t open_max; /* as depth; 0: posts go to managed */
	bool many;
	struct vb_spin lock; /* posting */
	uint32_t tail; /* next index to post; written under lock, read by the consumer without it */
	_Atomic uint32_t posted; /* many senders: count of receives so far; written under lock */
	struct vb_mr_cache mr_cache; /* under lock */
	/* Completion counters (nic/comp_cntr.h); as lock. */
	/* One sender (rq_shelf.c); NULL: there is none. Written under nic->lock. */
	uint8_t *_Atomic shelf;
	uint64_t shelf_offset;
	struct vb_comp_cntr *comp_cntr; /* counts the receives of a QP's own queue, or NULL */
	bool counted;                   /* those of some QP: senders place the bytes */
	struct vb_managed *managed; /* receives wait until they are enabled (managed.h); or NULL */
	_Alignas(64) struct vb_spin drain_lock; /* an SRQ's consumer */
	struct vb_spin *consumer_lock;          /* drain_lock, or the poll lock of the QP's CQ */
	/*
	 * Oldest index not consumed; many senders: not walked over. Consumer writes, poster reads.
	 */
	_Atomic uint64_t head; /* an index in its low half */
	uint32_t shelf_left;   /* one sender: as shared->shelf_left; consumer */
	/* From here on for many senders only. */
	_Atomic uint32_t consumed;         /* count of receives so far; consumer */
	struct vb_srq *srq;                /* the SRQ of the queue; NULL: a QP's own queue */
	struct vb_arrivals arrivals;       /* not of QPs with an SRQ: each has a list of its own */
	struct vb_cell *_Atomic walk_at;   /* the cell at head; written after head ... */
	struct vb_cell *_Atomic walk_next; /* ... and the one behind it */
	_Atomic uint32_t taken_count;
	uint32_t *taken; /* open indexes below head that had not arrived, rising; consumer */
	uint32_t taken_room;
};

int vb_rq_init(struct vb_rq *rq, struct vb_pd *pd, uint32_t depth, uint32_t sge_max, bool many);
void vb_rq_fini(struct vb_rq *rq);
/* Forgets all posted receives; senders that may still be inside keep the old memory. */
int vb_rq_reset(struct vb_rq *rq);

/* A counter counts receives from now on; NULL: those of one QP of a shared queue. No sender can use
 * the QP meanwhile. */
void vb_rq_count(struct vb_rq *rq, struct vb_comp_cntr *cntr);

/* Makes the ring larger; receives stay posted. -EBUSY: a stopped peer is inside the old ring. */
int vb_rq_grow(struct vb_rq *rq, uint32_t depth);

/* Lends a shelf to the one sender of the queue, if the process has memory left for it. Under
 * nic->lock. */
void vb_rq_shelf_make(struct vb_rq *rq);
void vb_rq_shelf_drop(struct vb_rq *rq);
/* A message is polled: if it was in the shelf, its place is free. Pairs with the load in
 * path/local/fast_send.c: the payload was read before. */
static inline void vb_rq_shelf_leave(struct vb_rq *rq, const struct vb_cell *cell)
{
	if (__builtin_expect(VB_READ_ONCE(cell->place), 0) && !rq->many)
		atomic_store_explicit(&rq->shared->shelf_left, ++rq->shelf_left,
				      memory_order_release);
}

/* Tells the consumer that all receives before the new tail are open, or were. Under rq->lock. */
static inline void vb_rq_tail_move(struct vb_rq *rq)
{
	__atomic_store_n(&rq->tail, rq->tail + 1, __ATOMIC_RELEASE);
}

/* Many senders: receives that are posted and not consumed. */
static inline uint32_t vb_rq_held(const struct vb_rq *rq)
{
	/* In this order: one that is posted meanwhile does not make it negative. */
	uint32_t consumed = atomic_load_explicit(&rq->consumed, memory_order_acquire);

	return atomic_load_explicit(&rq->posted, memory_order_acquire) - consumed;
}

/* Posts one receive; -ENOMEM: full, -EINVAL: too many elements. Under rq->lock. */
int vb_rq_post(struct vb_rq *rq, const struct ibv_recv_wr *wr);
/*
 * A receive has a key that is no region's: if it is indirect, its pieces become the elements.
 * False: a key is not good, or there are more pieces than max_recv_sge (rq_expand.c). Under
 * rq->lock.
 */
bool vb_rq_expand(struct vb_rq *rq, const struct ibv_recv_wr *wr, struct vb_recv_wqe *twin,
		  struct vb_recv_sges *shown);
/* After posting: did a sender wait for a receive? Not under rq->lock. */
bool vb_rq_take_waiting(struct vb_rq *rq);

static inline struct vb_recv_wqe *vb_rq_twin(const struct vb_rq *rq, uint32_t index)
{
	return (void *)(rq->twins + (size_t)(index & rq->mask) * rq->twin_stride);
}

static inline struct vb_recv_sges *vb_rq_sges(const struct vb_rq *rq, uint32_t index)
{
	return (void *)(rq->sges + (size_t)(index & rq->mask) * rq->sges_stride);
}

static inline struct vb_cell *vb_rq_cell(const struct vb_rq *rq, uint32_t index)
{
	return &rq->cells[index & rq->mask];
}

/* One sender: the index of the receive that the next message takes. */
uint32_t vb_rq_next_free(const struct vb_rq *rq);

/* One sender: the number of receives that have completed so far; from is the last answer. Called by
 * the executor of the QP's sends, while other threads consume. */
uint64_t vb_rq_completed(const struct vb_rq *rq, uint64_t from);

/* One line under VERBENA_EXPLAIN about a receive whose completion is polled, if it has failed. */
void vb_rq_explain(const struct vb_rq *rq, const struct vb_recv_wqe *twin, const struct ibv_wc *wc);
/* Payload that rode along cannot be written to its buffer any more: the completion fails. */
void vb_rq_unplaced(const struct vb_rq *rq, const struct vb_recv_wqe *twin, struct ibv_wc *wc);
/* No correct sender leaves such a cell: the receive is consumed, and no length is reported. */
void vb_rq_damaged(const struct vb_rq *rq, const struct vb_recv_wqe *twin, struct ibv_wc *wc);

/* --- consuming; under the consumer's lock --- */

static inline uint32_t vb_rq_head(const struct vb_rq *rq)
{
	return (uint32_t)atomic_load_explicit(&rq->head, memory_order_relaxed);
}

/* One sender: the oldest completed cell, at head, or NULL. */
static inline struct vb_cell *vb_rq_done_at_head(const struct vb_rq *rq)
{
	uint32_t head = vb_rq_head(rq);
	struct vb_cell *cell = vb_rq_cell(rq, head);
	uint64_t word = atomic_load_explicit(&cell->word, memory_order_acquire);

	if (vb_cell_index(word) != head || vb_cell_state(word) != VB_CELL_DONE)
		return NULL;
	/* A peer can write DONE where nothing is posted. */
	return atomic_load_explicit(&vb_rq_twin(rq, head)->open, memory_order_relaxed) ? cell
										       : NULL;
}
static inline bool vb_cell_is_in(uint64_t word, uint32_t index, enum vb_cell_state state)
{
	return vb_cell_state(word) == state && vb_cell_index(word) == index;
}
/* Many senders: no sender has taken the receive at an index, in this cell, or a later one. */
static inline bool vb_rq_untaken_from(const struct vb_rq *rq, const struct vb_cell *cell,
				      uint32_t index)
{
	return vb_cell_is_in(atomic_load_explicit(&cell->word, memory_order_acquire), index,
			     VB_CELL_POSTED) ||
	       index == __atomic_load_n(&rq->tail, __ATOMIC_ACQUIRE);
}
/*
 * Many senders: true if a walk would find nothing. Called without the lock, so it may see half of
 * another thread's walk, or of a larger ring. Then the cell is not the one at head: false. *posted
 * is the word of the cell; 0: no receive is posted. A sender that has just taken the cell completes
 * it soon: a walk would take the line of the cell away from that sender.
 */
static inline bool vb_rq_quiet_at(struct vb_rq *rq, const struct vb_cell **cell, uint64_t *posted)
{
	const struct vb_cell *at = atomic_load_explicit(&rq->walk_at, memory_order_acquire);
	const struct vb_cell *next = atomic_load_explicit(&rq->walk_next, memory_order_acquire);
	uint32_t head = (uint32_t)atomic_load_explicit(&rq->head, memory_order_acquire);
	uint64_t word = atomic_load_explicit(&at->word, memory_order_acquire);
	bool is_posted = vb_cell_is_in(word, head, VB_CELL_POSTED);

	if (atomic_load_explicit(&rq->taken_count, memory_order_acquire))
		return false;
	*cell = at;
	*posted = is_posted ? word : 0;
	return is_posted || head == __atomic_load_n(&rq->tail, __ATOMIC_ACQUIRE) ||
	       (vb_cell_is_in(word, head, VB_CELL_TAKEN) && vb_rq_untaken_from(rq, next, head + 1));
}
/*
 * Many senders: true if the receive at head is complete and comes first: no older one is taken, and
 * it has no stamp. Then it needs no place in a list.
 */
bool vb_rq_arrived_at_head(const struct vb_rq *rq);
/* Many senders: moves completed receives to the list of their queue: rq->arrivals, or the QP's. */
void vb_rq_drain(struct vb_rq *rq);
/* Flushes the oldest open receive, and gives its index; false: none. Only after a grace period,
 * when no completed receive is left. */
bool vb_rq_flush_next(struct vb_rq *rq, uint32_t *index);
/* Moves the payload that rides in the cell to the receive's buffers; false: the receive's keys or
 * memory are not good any more. where and length were read from the cell, once. */
bool vb_rq_scatter(struct vb_rq *rq, const struct vb_cell *cell, uint32_t index,
		   enum vb_cell_where where, uint32_t length);
/* The same for the most common payload, a word that rode in the cell; false: it is another one. */
static inline bool vb_rq_scatter_word(const struct vb_recv_wqe *twin, const struct vb_cell *cell,
				      enum vb_cell_where where, uint32_t length)
{
	if (length != sizeof(uint64_t) || where != VB_PAYLOAD_INLINE ||
	    twin->flags != VB_CELL_KEYS_OK || !twin->sge_count ||
	    twin->sge[0].length < sizeof(uint64_t))
		return false;
	memcpy((void *)(uintptr_t)twin->sge[0].addr, cell->payload, sizeof(uint64_t));
	return true;
}
/* One sender: ends the receive at head; its cell is free. */
static inline void vb_rq_consume_head(struct vb_rq *rq)
{
	uint64_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);

	atomic_store_explicit(&vb_rq_twin(rq, (uint32_t)head)->open, VB_RECV_CLOSED,
			      memory_order_release);
	atomic_store_explicit(&rq->head, head + 1, memory_order_release);
}
/* Many senders: the same; list is the one that the receive arrived in. */
void vb_rq_consume(struct vb_rq *rq, struct vb_arrivals *list, uint32_t index);
/* The same for the receive at head, which is in no list. */
void vb_rq_consume_arrived(struct vb_rq *rq);
/* All twins of the ring, consumed ones included, in no order. */
#define vb_rq_for_all(twin, rq)                                                            \
	for (struct vb_recv_wqe *twin = vb_rq_twin(rq, 0);                                 \
	     (uint8_t *)twin < (rq)->twins + ((size_t)(rq)->mask + 1) * (rq)->twin_stride; \
	     twin = (void *)((uint8_t *)twin + (rq)->twin_stride))
/* The twins of receives that are not consumed. */
#define vb_rq_for_open(twin, rq)                                                                  \
	vb_rq_for_all(twin,                                                                       \
		      rq) if (!atomic_load_explicit(&twin->open, memory_order_acquire)) continue; \
	else
/* Posts RETURNED receives again, at the end; under the consumer's lock. */
void vb_rq_collect_returned(struct vb_rq *rq);
void vb_rq_collect_all_returned(struct vb_nic *nic);
bool vb_rq_empty(const struct vb_rq *rq);

/* Posts a dead peer's taken cells again, at the end: a sender meets rising indexes only, which
 * keeps its messages in order. */
void vb_rq_release_claimant(struct vb_rq *rq, uint16_t claimant);
/* A region ends: first its receives lose KEYS_OK, then payload that has arrived is moved. */
void vb_rq_forget_keys(struct vb_nic *nic, const struct vb_mr *mr);
void vb_rq_settle(struct vb_nic *nic, const struct vb_mr *mr);

#endif

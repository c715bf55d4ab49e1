/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hazards. Before a thread touches a peer's segment or memory, it names that peer, and the QP
 * there, in a word of its own segment, with a full fence. Only then it checks that the thing it
 * wants to touch is still there. A thread that takes something away changes the state, fences, and
 * lets a grace period pass (grace.h). Nothing blocks or locks inside a hazard.
 *
 * A thread also announces each copy from or to a peer's application memory, with its range.
 * vb_hazard_copy_begin announces the copy, and looks once more whether something was taken away
 * since the checks (vb_hazard_watch). Then only the copy follows. So a thread that was stopped
 * inside endangers that range and no other memory.
 */
#ifndef VB_NIC_HAZARD_H
#define VB_NIC_HAZARD_H

#include <sys/uio.h>

#include "shm/peer.h"

enum {
	VB_IOV_MAX = 1024,
	VB_HAZARD_SEQUENCE_SHIFT = 40,
};

struct vb_nic;

/* The state that a thread needs to execute work requests. */
struct vb_thread {
	struct vb_nic *nic;
	struct vb_hazard_cell *hazard;
	uint64_t sequence;
	uint64_t copies;
	const _Atomic uint64_t *revocations; /* counter of the peer that was watched last ... */
	uint64_t revocations_seen;           /* ... and its value then */
	uint32_t cell;                       /* index of the hazard cell, freed with the thread */
	/* For a second peer at the same time: the owner of an XRC SRQ. NULL until needed. */
	struct vb_hazard_cell *second;
	uint64_t second_sequence;
	uint32_t second_cell;
	bool inside_second;
	const bool *fences;         /* peers cannot make this process fence (base/barrier.h) */
	uint8_t gathered[VB_SPILL]; /* payload of a small SEND with several elements */
	struct iovec local[VB_IOV_MAX], remote[VB_IOV_MAX];
};

extern __thread struct vb_thread *vb_thread_self;

struct vb_thread *vb_thread_make(void);
/* In a forked child: drops the state of the parent's thread, whose cells are the parent's. */
void vb_thread_forget(void);

/* NULL: out of memory or hazard cells. */
static inline struct vb_thread *vb_thread_get(void)
{
	return __builtin_expect(!!vb_thread_self, 1) ? vb_thread_self : vb_thread_make();
}

/* A hazard names a process and one of its QPs. A slot alone means any QP of the process. */
static inline uint64_t vb_hazard_name(uint32_t slot, uint32_t qpn)
{
	return (uint64_t)(qpn & 0xffffff) << 16 | slot;
}

static inline uint32_t vb_hazard_slot(uint64_t word)
{
	return word & 0xffff;
}

static inline uint32_t vb_hazard_qpn(uint64_t word)
{
	return word >> 16 & 0xffffff;
}

static inline uint64_t vb_hazard_sequence(uint64_t word)
{
	return word >> VB_HAZARD_SEQUENCE_SHIFT;
}

/*
 * The word of the next visit. Its sequence may wrap: a grace period then waits for one visit more.
 */
static inline uint64_t vb_hazard_next(struct vb_thread *thread, uint64_t name)
{
	return ++thread->sequence << VB_HAZARD_SEQUENCE_SHIFT | name;
}

/* The exchange and the fence pair with the fence in vb_grace_begin: the thread sees that something
 * was taken away, or the word is seen there. */
static inline void vb_hazard_enter(struct vb_thread *thread, uint64_t name)
{
	atomic_exchange(&thread->hazard->word, vb_hazard_next(thread, name));
	vb_fence_after_rmw();
}

/* For threads that may be inside a hazard already: false. True: the caller must leave it again. */
static inline bool vb_hazard_visit(struct vb_thread *thread, uint32_t slot)
{
	if (vb_hazard_slot(atomic_load_explicit(&thread->hazard->word, memory_order_relaxed)))
		return false;
	vb_hazard_enter(thread, slot);
	return true;
}

/* Inside the first hazard, names a second peer as well; false: no cells are left. The copy may
 * reach all memory of that peer. */
bool vb_hazard_enter_second(struct vb_thread *thread, uint32_t slot);
void vb_hazard_leave_second(struct vb_thread *thread);

/* The release pairs with the load in is_inside (grace.c): all that the thread did is over there. */
static inline void vb_hazard_leave(struct vb_thread *thread)
{
	if (__builtin_expect(thread->inside_second, 0))
		vb_hazard_leave_second(thread);
	atomic_store_explicit(&thread->hazard->word, thread->sequence << VB_HAZARD_SEQUENCE_SHIFT,
			      memory_order_release);
}

/* The owner of the memory moves pages: nothing is copied there now (freeze.h). */
static inline bool vb_hazard_is_frozen(const struct vb_thread *thread)
{
	return thread->revocations_seen & 1;
}

/* Called inside a hazard, before the look at the peer's state. Pairs with vb_grace_begin, which
 * counts up after the state has changed. */
static inline void vb_hazard_watch(struct vb_thread *thread, const struct vb_peer *peer)
{
	thread->revocations = &peer->head->revocations;
	thread->revocations_seen = atomic_load_explicit(thread->revocations, memory_order_acquire);
}

/* The release pairs with the loads in may_reach (grace.c): the copy has ended. */
static inline void vb_hazard_copy_end(struct vb_thread *thread)
{
	atomic_store_explicit(&thread->hazard->copy, thread->copies << VB_COPY_FLAG_BITS,
			      memory_order_release);
}

/*
 * Announces a copy that reaches [from, to) of the peer. False: the peer is frozen, or something was
 * taken away since vb_hazard_watch: the caller must check everything anew. The store of copy comes
 * before the load of revocations: the rare side has a barrier for both (vb_barrier_others in
 * grace.c). The range is stored with release: a thread that reads it sees that the copy before has
 * ended, and finds another value in copy (may_reach).
 */
static inline bool vb_hazard_copy_begin(struct vb_thread *thread, uint64_t from, uint64_t to,
					unsigned flags)
{
	struct vb_hazard_cell *cell = thread->hazard;

	atomic_store_explicit(&cell->from, from, memory_order_release);
	atomic_store_explicit(&cell->to, to, memory_order_release);
	atomic_store_explicit(&cell->copy,
			      ++thread->copies << VB_COPY_FLAG_BITS | VB_COPY_NOW | flags,
			      memory_order_release);
	if (__builtin_expect(*thread->fences, 0))
		atomic_thread_fence(memory_order_seq_cst);
	else
		atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(thread->revocations, memory_order_acquire) ==
					     thread->revocations_seen &&
				     !vb_hazard_is_frozen(thread),
			     1))
		return true;
	vb_hazard_copy_end(thread);
	return false;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hazards: before a thread touches a peer's segment or memory it names that peer in a word of
 * its own segment, with a full fence, and only then looks whether what it wants to touch is
 * still there. Who takes something away changes the state, fences, and lets a grace period
 * pass: until every word that named it has changed. Nobody blocks or locks inside a hazard.
 */
#ifndef VB_NIC_HAZARD_H
#define VB_NIC_HAZARD_H

#include <sys/uio.h>

#include "nic/peer.h"

enum {
	VB_IOV_MAX = 1024,
	VB_STUCK_PEER_MS = 5000, /* how long user memory waits for a peer that is stopped inside */
};

struct vb_nic;

/* What a thread needs to execute work requests. */
struct vb_thread {
	struct vb_nic *nic;
	_Atomic uint64_t *hazard;
	uint64_t sequence;
	uint32_t cell; /* index of the hazard cell, freed with the thread */
	/* A second peer at the same time: the owner of an XRC SRQ. NULL until it is needed. */
	_Atomic uint64_t *second;
	uint64_t second_sequence;
	uint32_t second_cell;
	bool inside_second;
	struct iovec local[VB_IOV_MAX], remote[VB_IOV_MAX];
};

extern __thread struct vb_thread *vb_thread_self;

struct vb_thread *vb_thread_make(void);
/* In a forked child: what the parent's thread had is not ours. */
void vb_thread_forget(void);

/* NULL: out of memory or hazard cells. */
static inline struct vb_thread *vb_thread_get(void)
{
	return __builtin_expect(!!vb_thread_self, 1) ? vb_thread_self : vb_thread_make();
}

/* Full fence: pairs with the one in vb_grace_begin. */
static inline void vb_hazard_enter(struct vb_thread *thread, uint32_t slot)
{
	thread->sequence++;
	atomic_exchange(thread->hazard, thread->sequence << 16 | slot);
}

/* For those who may be inside already: false. True: they were not, and leave again. */
static inline bool vb_hazard_visit(struct vb_thread *thread, uint32_t slot)
{
	if (atomic_load_explicit(thread->hazard, memory_order_relaxed) & 0xffff)
		return false;
	vb_hazard_enter(thread, slot);
	return true;
}

/* Inside the first hazard, names another peer as well; false: there are no more cells. */
bool vb_hazard_enter_second(struct vb_thread *thread, uint32_t slot);
void vb_hazard_leave_second(struct vb_thread *thread);

static inline void vb_hazard_leave(struct vb_thread *thread)
{
	if (__builtin_expect(thread->inside_second, 0))
		vb_hazard_leave_second(thread);
	atomic_store_explicit(thread->hazard, thread->sequence << 16, memory_order_release);
}

struct vb_grace_wait {
	struct vb_peer *peer; /* whose thread; referenced */
	_Atomic uint64_t *cell;
	uint64_t word;
};

struct vb_grace {
	unsigned count;
	bool failed; /* out of memory: never over */
	struct vb_grace_wait *waits;
};

/* own_too: also wait for threads of this process that touch any peer (they read our memory). */
void vb_grace_begin(struct vb_nic *nic, struct vb_grace *grace, bool own_too);
/* True once, when nobody who was inside still is. */
bool vb_grace_over(struct vb_grace *grace);
/* Waits up to timeout_ms; -ETIMEDOUT with the slot of the one who is still inside. */
int vb_grace_wait(struct vb_grace *grace, unsigned timeout_ms, uint32_t *slot);
void vb_grace_drop(struct vb_grace *grace);
/* One from begin to end, own_too, for as long as user memory waits; -ETIMEDOUT as above. */
int vb_grace_pass(struct vb_nic *nic, uint32_t *slot);

#endif

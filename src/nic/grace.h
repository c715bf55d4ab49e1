/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grace periods, the other side of hazards: until every word has changed that named this process and
 * may concern what is taken away. Application memory needs less. A thread that stays inside is
 * excused once it is known not to reach that memory any more; the segment it may still write to, so
 * shared memory waits in the quarantine for the word itself.
 */
#ifndef VB_NIC_GRACE_H
#define VB_NIC_GRACE_H

#include "nic/hazard.h"

enum {
	/* How long all calls together wait for a thread that was stopped at the very memory. */
	VB_STUCK_PEER_MS = 5000,
	VB_STUCK_MAX = 16,
};

struct vb_rq;

/* What is taken away. All zero: shared memory that any thread may be inside of. */
struct vb_ending {
	uint32_t qpn; /* a QP: threads that name another one do not matter */
	/* A receive queue: those that name a QP with another one neither. Under nic->lock. */
	const struct vb_rq *rq;
	bool memory;       /* application memory, what is ... */
	uint64_t from, to; /* ... in this range ... */
	bool all;          /* ... or whatever is reached through the QP */
};

static inline struct vb_ending vb_ending_memory(uint64_t address, uint64_t length)
{
	uint64_t to = address + length;

	return (struct vb_ending){ .memory = true,
				   .from = address,
				   .to = to < address ? UINT64_MAX : to };
}

static inline struct vb_ending vb_ending_qp(uint32_t qpn)
{
	return (struct vb_ending){ .qpn = qpn, .memory = true, .all = true };
}

/* A word that calls waited for in vain, and since when: the next call does not begin anew. */
struct vb_stuck {
	const struct vb_hazard_cell *cell; /* compared only */
	uint64_t word, since_ns;
};

struct vb_grace_wait {
	struct vb_peer *peer; /* whose thread; referenced */
	struct vb_hazard_cell *cell;
	uint64_t word;
	uint64_t since_ns; /* 0: not looked up yet */
};

struct vb_grace {
	struct vb_nic *nic;
	struct vb_ending ending;
	unsigned count;
	bool failed;      /* out of memory: never over */
	bool inside;      /* a thread was excused: it may still be in the segment */
	bool looked;      /* for excuses */
	uint64_t look_ns; /* when the next look is due; 0: not said yet */
	struct vb_grace_wait *waits;
};

/* own_too: also wait for threads of this process that touch any peer (they read our memory). */
void vb_grace_begin(struct vb_nic *nic, struct vb_grace *grace, const struct vb_ending *ending,
		    bool own_too);
/* True once, when no thread that was inside still is. */
bool vb_grace_over(struct vb_grace *grace);
/* The same with threads excused; from time to time a look at them, which costs some system calls. */
bool vb_grace_settled(struct vb_grace *grace);
/* Waits until it is settled; -ETIMEDOUT with the slot of the process whose thread is inside, once that
 * thread did not move for timeout_ms, counted from the first call that met it. */
int vb_grace_wait(struct vb_grace *grace, unsigned timeout_ms, uint32_t *slot);
void vb_grace_drop(struct vb_grace *grace);
/* One from begin to end, own_too, for as long as application memory waits; -ETIMEDOUT as above. 1: it
 * is settled, but a thread is inside. */
int vb_grace_pass(struct vb_nic *nic, const struct vb_ending *ending, uint32_t *slot);

#endif

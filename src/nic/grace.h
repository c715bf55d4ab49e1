/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grace periods, the other side of hazards. A period lasts until every hazard word has changed that
 * named this process and may concern the thing that was taken away. Application memory needs less:
 * a thread that stays inside is excused once it cannot reach that memory any more. Such a thread
 * may still write to the segment, so shared memory waits in the quarantine until the word has
 * changed.
 */
#ifndef VB_NIC_GRACE_H
#define VB_NIC_GRACE_H

#include "nic/hazard.h"

enum {
	/* Time that all calls together wait for a thread that was stopped while it copied. */
	VB_STUCK_PEER_MS = 5000,
	VB_STUCK_MAX = 16,
};

struct vb_rq;

/* The thing that is taken away. All zero: shared memory that any thread may be inside of. */
struct vb_ending {
	uint32_t qpn; /* a QP: threads that name another QP do not matter */
	/* A receive queue: threads that name a QP with another queue do not matter. Under
	 * nic->lock. */
	const struct vb_rq *rq;
	bool memory;       /* application memory ... */
	uint64_t from, to; /* ... in this range ... */
	bool all;          /* ... or all that is reached through the QP */
	bool severed;      /* its pages leave their file: copies through views do not matter */
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

/* A word that calls waited for in vain, and since when: the next call waits only the rest. */
struct vb_stuck {
	const struct vb_hazard_cell *cell; /* compared only */
	uint64_t word, since_ns;
};

struct vb_grace_wait {
	struct vb_peer *peer; /* process of the thread; referenced */
	struct vb_hazard_cell *cell;
	uint64_t word;
	uint64_t since_ns; /* 0: not looked up yet */
};

struct vb_grace {
	struct vb_nic *nic;
	struct vb_ending ending;
	unsigned count;
	bool failed;      /* out of memory: the period never ends */
	bool inside;      /* an excused thread may still be in the segment */
	bool looked;      /* excuses were looked for */
	uint64_t look_ns; /* time of the next look for excuses; 0: not set yet */
	struct vb_grace_wait *waits;
};

/* own_too: also waits for threads of this process that touch any peer (they read our memory). */
void vb_grace_begin(struct vb_nic *nic, struct vb_grace *grace, const struct vb_ending *ending,
		    bool own_too);
/* Waits for threads of this process alone, whichever peer they touch. */
void vb_grace_begin_own(struct vb_nic *nic, struct vb_grace *grace);
/* True: all threads that were inside have left. */
bool vb_grace_over(struct vb_grace *grace);
/* The same, but excused threads do not count. From time to time looks for excuses, which costs some
 * system calls. */
bool vb_grace_settled(struct vb_grace *grace);
/* Waits until the period is settled. -ETIMEDOUT, with the slot of the process whose thread is
 * inside: that thread did not move for timeout_ms, counted from the first call that met it. */
int vb_grace_wait(struct vb_grace *grace, unsigned timeout_ms, uint32_t *slot);
void vb_grace_drop(struct vb_grace *grace);
/* A whole period with own_too, for up to VB_STUCK_PEER_MS; -ETIMEDOUT as above. 1: the period is
 * settled, but an excused thread may still be in the segment. */
int vb_grace_pass(struct vb_nic *nic, const struct vb_ending *ending, uint32_t *slot);

#endif

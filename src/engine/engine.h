/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What keeps the NIC going: executing send queues, waiting for peers, answering attaches,
 * collecting what peers left for us. A thread that posts or polls does it itself; the service
 * thread does it when nobody else does, and sleeps otherwise.
 */
#ifndef VB_ENGINE_ENGINE_H
#define VB_ENGINE_ENGINE_H

#include <pthread.h>

#include "nic/qp.h"

enum { VB_POST_BUDGET = 1 << 20 }; /* bytes that one post or poll copies before it returns */

struct vb_engine {
	struct vb_nic *nic;
	pthread_t thread;
	int epoll;
	_Atomic int started;
	unsigned watched_slots;       /* under nic->lock */
	struct vb_spin progress_lock; /* who pops pending QPs and collects attention */
	struct vb_spin pending_lock;
	struct vb_list pending; /* struct vb_qp, by pend.node */
	_Atomic uint32_t pending_count;
	_Atomic uint32_t pending_version; /* moves with each addition */
	_Atomic uint64_t service_wake_ns; /* when the service thread wakes by itself */
	bool port_woke;                   /* service thread: a socket of the wire did */
	bool coarse;                      /* service thread: sleeps whole milliseconds */
	_Atomic bool peer_ended;          /* and something may still name it (let_go.c) */
	_Atomic uint32_t retried; /* QPs that waited, by pollers since the service thread looked */
};

/* Starts the service thread, once per process, with the first QP, and lets it watch the slots
 * that were added since. 0 or -errno. */
int vb_engine_start(struct vb_nic *nic);

/* --- let_go.c --- */

/* By the service thread: what needs no process that has ended lets go of it. */
void vb_engine_let_go(struct vb_engine *engine);

/* --- run.c --- */

/* Executes what is posted on qp, unless someone is at it. */
void vb_engine_kick(struct vb_qp *qp);
/* The same by the one who just posted and took the token under the queue's lock. */
void vb_engine_execute(struct vb_qp *qp, uint32_t end, bool service);

/* Before a QP ends, or the process: datagrams that are complete leave, or it is too late for them. */
void vb_engine_settle_aside(struct vb_qp *qp);
void vb_engine_settle_all(struct vb_nic *nic);

/* --- pending.c --- */

void vb_engine_pend(struct vb_engine *engine, struct vb_qp *qp);
void vb_engine_unpend(struct vb_engine *engine, struct vb_qp *qp);
/* Lets up to most of the waiting QPs try again, and says how many. Under progress_lock. */
unsigned vb_engine_retry(struct vb_engine *engine, unsigned most, bool service);
uint64_t vb_engine_next_wake_ns(struct vb_engine *engine);

/* --- attention.c --- */

/* Collects what peers left: failures, events, limits. */
void vb_engine_attend(struct vb_nic *nic, bool service);
/* A receive was posted, or a QP became ready: whoever waits for that tries again. */
void vb_engine_wake_waiters(struct vb_nic *nic);

/* --- progress.c --- */

void vb_engine_progress(struct vb_nic *nic);
/* By the service thread: everything that is due. False: pollers see to what waits. */
bool vb_engine_service(struct vb_engine *engine);

/* Takes in what arrived on the wire. */
void vb_engine_poll_wire(struct vb_nic *nic);

/*
 * For every poll that finds nothing: three loads when there is nothing to do either. True: that took
 * time, in which completions may have come from anywhere.
 */
static inline bool vb_engine_poll(struct vb_nic *nic)
{
	bool took_time = false;

	if (__builtin_expect(atomic_load_explicit(&nic->wire, memory_order_relaxed) != NULL, 0)) {
		vb_engine_poll_wire(nic);
		took_time = true;
	}
	if (__builtin_expect(
		    !atomic_load_explicit(&nic->seg.lent->attention, memory_order_relaxed) &&
			    !atomic_load_explicit(&nic->waiting, memory_order_relaxed),
		    1))
		return took_time;
	vb_engine_progress(nic);
	return true;
}

enum { VB_FOUND_POLLS = 32 }; /* so many of a thread that found something: time to look around */

/* Counts a poll that found `got`, brings the wire on now and then, and returns `got`. */
int vb_engine_count_found(struct vb_nic *nic, int got);

/*
 * For every poll that finds something: a program whose polls are never empty brings the wire on,
 * too. One load where there is no wire.
 */
static inline int vb_engine_found(struct vb_nic *nic, int got)
{
	if (__builtin_expect(!atomic_load_explicit(&nic->wire, memory_order_relaxed), 1))
		return got;
	return vb_engine_count_found(nic, got);
}

/* --- attach.c --- */

/* Begins to attach to the process that holds a slot; its answer comes to the service thread. */
void vb_attach_start(struct vb_nic *nic, uint32_t slot);
/* RTR: attach early, so that the first message does not wait and a later death is known. */
void vb_attach_qp(struct vb_qp *qp);
void vb_attach_accept(struct vb_nic *nic, int listener);
/* A message or the end of a peer's socket. */
void vb_attach_event(struct vb_nic *nic, struct vb_peer *peer);

/* --- child.c --- */

/* Before there is a NIC, and before a library that calls this one registers for fork. */
void vb_engine_watch_fork(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine keeps the NIC going: it executes send queues, waits for peers, answers attaches and
 * collects the attention that peers left. A thread that posts or polls does this work itself. The
 * service thread does it when no other thread does, and sleeps otherwise.
 */
#ifndef VB_ENGINE_ENGINE_H
#define VB_ENGINE_ENGINE_H

#include <pthread.h>

#include "nic/map.h"
#include "nic/qp.h"

enum {
	VB_POST_BUDGET = 1 << 20,    /* bytes that one post or poll copies before it returns */
	VB_POLLED_LOOK_NS = 1000000, /* pollers retry: look that often whether they still do */
};

struct vb_engine {
	struct vb_nic *nic;
	int epoll;                    /* the service thread sleeps in it */
	_Atomic int started;          /* set by the service thread when it runs */
	unsigned watched_slots;       /* slots in epoll so far; under nic->lock */
	struct vb_spin progress_lock; /* held to collect attention, and to walk over waiting CQs */
	_Atomic uint64_t service_wake_ns; /* the service thread sleeps until then; 0: do not ring */
	uint32_t ports_woke;              /* service thread only: bits of lanes that woke it */
	_Atomic bool coarse;              /* sleeps last whole milliseconds */
	_Atomic bool peer_ended;          /* a process ended that QPs or ways may name (let_go.c) */
};

/*
 * Starts the service thread, once per process, with the first QP. The thread also watches the slots
 * that were added since the last call. 0 or -errno.
 */
int vb_engine_start(struct vb_nic *nic);

/* Starts a detached thread that gets no signals of the application. 0 or -errno. */
int vb_engine_start_thread(void *(*run)(void *arg), void *arg);
/* Waits for events of an epoll; timeout NULL: for ever. */
struct epoll_event;
int vb_engine_sleep(struct vb_engine *engine, int epoll, struct epoll_event *events, int most,
		    const struct timespec *timeout);

/* --- let_go.c --- */

/* By the service thread: UD QPs and the ways of the wire let go of processes that have ended. */
void vb_engine_let_go(struct vb_engine *engine);

/* --- run.c --- */

/* Executes the work requests that are posted on qp, unless another thread has the token. */
void vb_engine_kick(struct vb_qp *qp);
/* The same, by a thread that has just posted and took the token under the queue's lock. */
void vb_engine_execute(struct vb_qp *qp, uint32_t end, bool service);

/* Before a QP or the process ends: waits, up to 20 ms, until completed datagrams have left. */
void vb_engine_settle_aside(struct vb_qp *qp);
void vb_engine_settle_all(struct vb_nic *nic);

/* --- pending.c --- */

void vb_engine_pend(struct vb_engine *engine, struct vb_qp *qp);
/* By a poller: tries some of the QPs again that complete to the CQ it polls. False: none waits. */
bool vb_engine_retry_own(struct vb_cq *cq);
/* By a poller: the same for CQs whose own pollers do not. Under progress_lock. */
void vb_engine_retry_others(struct vb_nic *nic, const struct vb_cq *own);
/* Queues that were enabled (nic->enable_due) go on now, or soon in another thread. */
void vb_engine_go_on(struct vb_nic *nic);
/* By the service thread: all QPs that pollers do not try. True: pollers try all that wait. Under
 * progress_lock. */
bool vb_engine_retry_all(struct vb_nic *nic);
/* The time at which the service thread must try a QP, or look whether pollers still do. */
uint64_t vb_engine_next_wake_ns(struct vb_engine *engine, uint64_t now_ns);

/* --- attention.c --- */

/* Collects the attention that peers left: failures, events, limits. */
void vb_engine_attend(struct vb_nic *nic, bool service);
/* A receive was posted, or a QP became ready: senders that wait for that try again. */
void vb_engine_wake_waiters(struct vb_nic *nic);

/* --- progress.c --- */

/* By a poller of the CQ. False: nothing was to be done. */
bool vb_engine_progress(struct vb_cq *cq);
/* By the service thread: does all work that is due. False: pollers retry the waiting QPs. */
bool vb_engine_service(struct vb_engine *engine);

/* Takes in the packets that arrived in these lanes, which are or were open. */
void vb_engine_poll_wire(struct vb_nic *nic, uint32_t lanes);

/* The open lanes that polls of a CQ bring on. */
static inline uint32_t vb_engine_lanes(const struct vb_cq *cq)
{
	return atomic_load_explicit(&cq->lanes, memory_order_relaxed) &
	       atomic_load_explicit(&cq->nic->lanes_open, memory_order_acquire);
}

/* No thread of the process has something to do for others, but for the wire: three loads. */
static inline bool vb_engine_idle(const struct vb_nic *nic)
{
	return !(atomic_load_explicit(&nic->map_wanted, memory_order_relaxed) |
		 atomic_load_explicit(&nic->seg.lent->attention, memory_order_relaxed) |
		 atomic_load_explicit(&nic->waiting, memory_order_relaxed));
}

/*
 * For polls that find nothing. True: the call took time, and completions may have come meanwhile
 * from any side.
 */
static inline bool vb_engine_poll(struct vb_cq *cq)
{
	const uint32_t lanes = vb_engine_lanes(cq);
	struct vb_nic *nic = cq->nic;

	if (__builtin_expect(atomic_load_explicit(&nic->map_wanted, memory_order_relaxed), 0))
		vb_map_turn(nic);
	if (lanes)
		vb_engine_poll_wire(nic, lanes);
	if (vb_engine_idle(nic))
		return lanes != 0;
	return vb_engine_progress(cq) || lanes;
}

/* A thread whose polls find something looks at the wire after so many of them. */
enum { VB_FOUND_POLLS = 32 };

/* Counts a poll that found `got` completions, sometimes brings the wire on, and returns `got`. */
int vb_engine_count_found(struct vb_cq *cq, int got);

/*
 * For every poll that finds something: a program whose polls are never empty brings the lanes of
 * its CQ on as well. Two loads where there is no wire.
 */
static inline int vb_engine_found(struct vb_cq *cq, int got)
{
	if (__builtin_expect(atomic_load_explicit(&cq->nic->map_wanted, memory_order_relaxed), 0))
		vb_map_turn(cq->nic);
	if (__builtin_expect(!atomic_load_explicit(&cq->nic->lanes_open, memory_order_relaxed), 1))
		return got;
	return vb_engine_count_found(cq, got);
}

/* --- attach.c --- */

/* Begins to attach to the process that holds a slot. The service thread gets the answer. */
void vb_attach_start(struct vb_nic *nic, uint32_t slot);
/* RTR: attaches early, so that the first message does not wait and a later death is known. */
void vb_attach_qp(struct vb_qp *qp);
void vb_attach_accept(struct vb_nic *nic, int listener);
/* A peer's socket has a message, or has ended. */
void vb_attach_event(struct vb_nic *nic, struct vb_peer *peer);

/* --- child.c --- */

/* Registers for fork: before there is a NIC, and before a library that calls this one registers. */
void vb_engine_watch_fork(void);

#endif

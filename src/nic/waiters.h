/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queues that wait: for a peer, for a receive, or for the next part of a long transfer. Each
 * CQ has the list of those that complete there, because threads that poll the CQ try them again.
 * Threads with CQs of their own share no line here. The CQs with a list stand in a list of the NIC,
 * and stay there for a while after their own is empty.
 */
#ifndef VB_NIC_WAITERS_H
#define VB_NIC_WAITERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/spin.h"

struct vb_cq;
struct vb_nic;
struct vb_qp;

/* The threads, besides the service thread, that tried QPs of a list since that thread looked. */
enum {
	VB_TRIED_BY_OWN = 1,   /* a thread that polls the CQ itself */
	VB_TRIED_BY_OTHER = 2, /* a thread that polls another CQ */
};

struct vb_waiters {
	_Alignas(64) struct vb_spin lock;
	_Atomic uint32_t count;    /* of QPs in the list; written under lock */
	_Atomic uint32_t tried;    /* count of tries by pollers since the service thread looked */
	struct vb_spin retry_lock; /* held to take QPs from the list and to run them */
	struct vb_list qps;        /* struct vb_qp, by pend.node; under lock */
	/* Rarely written. */
	_Alignas(64) _Atomic uint32_t tried_by; /* VB_TRIED_BY_* */
	bool is_listed;                         /* under lock */
	bool keeps_up;       /* service thread only: at its last look pollers had tried all QPs */
	uint32_t pins;       /* a walker is here: the CQ must not end; under nic->waiting_lock */
	struct vb_list node; /* in nic->waiting_cqs, under nic->waiting_lock */
};

void vb_waiters_init(struct vb_waiters *waiters);

void vb_waiters_add(struct vb_qp *qp);
void vb_waiters_remove(struct vb_qp *qp);
/* Takes the QP that waits for the longest time; NULL: none waits. */
struct vb_qp *vb_waiters_pop(struct vb_waiters *waiters);
/* The first time at which one of them wants to be tried again. */
uint64_t vb_waiters_next_ns(struct vb_waiters *waiters);

/*
 * A walk over the CQs in the list of the NIC, one walk at a time. The walk lets go of a CQ when it
 * asks for the next one, and lets it leave the list, if no QP waits there and `leaves` is true.
 * NULL begins a walk, and ends it.
 */
struct vb_waiters *vb_waiters_walk(struct vb_nic *nic, struct vb_waiters *last, bool leaves);
/* No QP completes to the CQ any more: it leaves the list, and no walk is there. */
void vb_waiters_end(struct vb_cq *cq);

#endif

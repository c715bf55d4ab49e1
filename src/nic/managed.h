/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Managed queues of a QP (IBV_EXP_QP_CREATE_MANAGED_SEND, _RECV): what is posted there waits until
 * a work request of another queue enables it. Sends wait in the send queue, whose executor goes no
 * further (vb_qp_sends_end). Receives wait beside the receive queue, because senders look there.
 * A QP in ERR flushes all of them.
 */
#ifndef VB_NIC_MANAGED_H
#define VB_NIC_MANAGED_H

#include "nic/qp.h"

/* Indexes count what was posted since RESET, so they are those of the send queue. */
struct vb_managed_queue {
	bool is_managed;
	uint32_t next;            /* posted ENABLEs count from here, and ... */
	uint32_t ahead;           /* ... the next ones from so much more */
	_Atomic uint32_t enabled; /* everything before this index */
};

struct vb_managed_recv;

struct vb_managed {
	_Atomic uint32_t refs; /* the QP's, and one of each work request that names it */
	/* From here on under nic->cross_lock; `enabled` of sends is read without. */
	struct vb_qp *qp;
	bool is_closed; /* the QP is being destroyed, or is gone */
	struct vb_managed_queue sends, receives;
	struct vb_managed_recv *held; /* a ring; owned */
	uint32_t held_tail;           /* index of the next receive that is posted ... */
	uint32_t held_head;           /* ... and of the first one that waits */
	size_t held_stride;
};

/* Before the first post. -EINVAL: the QP has no such queue, -EOPNOTSUPP; -ENOMEM. */
int vb_managed_make(struct vb_qp *qp, bool sends, bool receives);
/* The QP is about to be destroyed: nothing enables its queues any more. */
void vb_managed_close(struct vb_qp *qp);
/* The queues are empty again. */
void vb_managed_reset(struct vb_qp *qp);
void vb_managed_get(struct vb_managed *managed);
void vb_managed_put(struct vb_managed *managed); /* NULL: nothing */

/* Receives that are posted: *wr is the one that was refused. 0, -EINVAL, -ENOMEM. */
int vb_managed_post_recv(struct vb_rq *rq, struct ibv_recv_wr **wr);
/* The receives that wait, of a receive queue. */
uint32_t vb_managed_held(const struct vb_rq *rq);
/* The QP is in ERR: receives that wait are flushed like the others. */
void vb_managed_release_all(struct vb_qp *qp);
/* The WQEs up to an index were flushed: none of them is executed any more. */
void vb_managed_flushed(struct vb_qp *qp, uint32_t end);
/* Under cross_lock. True: a sender waited for a receive. */
bool vb_managed_release(struct vb_managed *managed, uint32_t end);

#endif

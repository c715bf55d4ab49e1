/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters: they count the completions of QPs that they are attached to, whether or not
 * the program polls them.
 *
 * Work requests of the send queue are counted when they complete (path/complete.c), silent ones
 * too. The thread of a peer completes receives. So a poll counts those that it takes, and a reader
 * of the counter those that wait for a poll: each receive is counted once, under the consumer's
 * lock. The bytes of such a receive must be in its buffers before the poll: senders place them
 * (VB_CELL_PLACE). A receive of an SRQ counts for the QP that it completes for; once one of its QPs
 * has a counter, the bytes of all its receives are placed.
 *
 * READs and WRITEs of peers are counted by the thread that executes them, in the lent part of the
 * segment (exec/served.h). A reader of the counter adds what came since the last look. A peer can
 * write there, and so change the counts.
 */
#ifndef VB_NIC_COMP_CNTR_H
#define VB_NIC_COMP_CNTR_H

#include "abi/verbs.h"
#include "nic/qp.h"

struct vb_comp_cntr {
	struct ibv_comp_cntr ibv; /* first */
	bool bytes;               /* counts bytes, not work requests; errors are one each */
	_Atomic uint64_t done, errors;
	_Atomic uint32_t users;   /* count of QPs and operations that it is attached to */
	struct vb_list receivers; /* QPs whose receives it counts; under nic->lock */
	struct vb_list served;    /* struct vb_comp_served; under nic->lock */
};

static inline struct vb_comp_cntr *vb_comp_cntr(struct ibv_comp_cntr *ibv)
{
	return vb_container(ibv, struct vb_comp_cntr, ibv);
}

/* A mask of enum ibv_qp_attach_comp_cntr_op: the operations that can be counted. */
enum {
	VB_COMP_CNTR_LOCAL = IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_RECV |
			     IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ |
			     IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
	VB_COMP_CNTR_REMOTE = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ |
			      IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE,
};

/*
 * -EOPNOTSUPP: an operation that cannot be counted, or receives of an SRQ that matches tags;
 * -EINVAL: the state of the QP, or no operation; -EBUSY: another counter counts one of the
 * operations.
 */
int vb_comp_cntr_attach(struct vb_comp_cntr *cntr, struct vb_qp *qp, uint32_t ops);
/* The QP leaves the NIC: counts all that has come to it. Under nic->lock. */
void vb_comp_cntr_withdraw(struct vb_qp *qp);
/* The QP is destroyed. */
void vb_comp_cntr_detach(struct vb_qp *qp);

/* Counts the receives that wait for a poll, and operations of peers; afterwards done and errors are
 * up to date. */
void vb_comp_cntr_catch_up(struct vb_comp_cntr *cntr);

/* A work request of a QP with VB_SENDS_COUNTED has completed. By the executor. */
void vb_comp_cntr_send(struct vb_qp *qp, const struct vb_wqe *wqe);
/* A poll takes a receive of a QP's own queue with a counter. Under the poll lock. */
void vb_comp_cntr_receive(struct vb_rq *rq, uint32_t index, const struct ibv_wc *wc);
/* The same of an SRQ, for a QP with a counter or without one. Under drain_lock. */
void vb_comp_cntr_shared(const struct vb_qp *qp, uint32_t index, const struct ibv_wc *wc);
/* Counts the completed receives that wait; no counter: none. Under the poll lock. */
void vb_comp_cntr_waiting(struct vb_qp *qp);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP of an identifier, which the library moves through its states. */
#ifndef VB_RDMACM_QP_H
#define VB_RDMACM_QP_H

#include "rdmacm/cma.h"

/*
 * Another thread may call rdma_destroy_qp at any time, for instance while an event is fetched. So
 * the library uses id.qp in one of two ways: it reads fields of the QP under the lock, or it calls
 * verbs with a QP that it holds. rdma_destroy_qp takes the QP from the identifier and waits for the
 * releases. A holder waits for nothing that the program does.
 */
/* NULL: there is none, or not any more. Takes the lock. */
struct ibv_qp *vb_cma_qp_hold(struct vb_cma_id *id);
/* Nothing happens without a QP. Takes the lock. */
void vb_cma_qp_release(struct vb_cma_id *id, struct ibv_qp *qp);

/*
 * RTR, then RTS, with what both sides agreed upon. RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH: what
 * the peer said. The QP is held; nothing happens without one.
 */
int vb_cma_qp_ready(struct vb_cma_id *id, struct ibv_qp *qp, uint8_t responder_resources,
		    uint8_t initiator_depth);
/* Holds the QP of the identifier itself. */
int vb_cma_qp_error(struct vb_cma_id *id);
/* INIT; a datagram QP goes on to RTS. */
int vb_cma_qp_begin(struct vb_cma_id *id, struct ibv_qp *qp);

/* qp_attr.c: for the state in attr->qp_state; 0 or -EINVAL. */
int vb_cma_qp_attr(struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask);

/* For a QP in RTS: the path in reserve, loaded and armed. The mask, 0: there is none. */
int vb_cma_qp_alternate(const struct vb_cma_id *id, struct ibv_qp_attr *attr);

/* The Q_Key of datagram QPs: IPoIB has that of its broadcast group. */
enum { VB_CMA_IPOIB_QKEY = 0x0b1b };
uint32_t vb_cma_qkey(const struct vb_cma_id *id);

/* What the REP said about vendor options is given to the QP, which is held. */
int vb_cma_ece_respond(struct vb_cma_id *id, struct ibv_qp *qp);

#endif

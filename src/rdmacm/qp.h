/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP of an identifier, which the library moves through its states, and the CQs for it. */
#ifndef VB_RDMACM_QP_H
#define VB_RDMACM_QP_H

#include "rdmacm/cma.h"

/*
 * Another thread may call rdma_destroy_qp at any time, even while this one fetches an event. So the
 * library uses id.qp in one of two ways: it reads fields of the QP under the lock, or it calls
 * verbs with a QP that it holds. rdma_destroy_qp takes the QP from the identifier and waits for the
 * releases. A holder waits for nothing that the program does.
 */
/* NULL: the identifier has no QP. Takes the lock. */
struct ibv_qp *vb_cma_qp_hold(struct vb_cma_id *id);
/* Does nothing if qp is NULL. Takes the lock. */
void vb_cma_qp_release(struct vb_cma_id *id, struct ibv_qp *qp);

/*
 * Moves a held QP to RTR and RTS, with the values that both sides agreed upon. RDMA_MAX_RESP_RES
 * and RDMA_MAX_INIT_DEPTH stand for the values of the peer. Does nothing if qp is NULL.
 */
int vb_cma_qp_ready(struct vb_cma_id *id, struct ibv_qp *qp, uint8_t responder_resources,
		    uint8_t initiator_depth);
/* Moves the QP to ERR. Holds the QP itself. */
int vb_cma_qp_error(struct vb_cma_id *id);
/* Moves a new QP to INIT, and a datagram QP on to RTS. */
int vb_cma_qp_begin(struct vb_cma_id *id, struct ibv_qp *qp);

/* qp_attr.c: attributes and mask for the state in attr->qp_state. */
int vb_cma_qp_attr(struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask);

/* The attributes that load and arm the alternate path in RTS. Returns the mask; 0: no such path. */
int vb_cma_qp_alternate(const struct vb_cma_id *id, struct ibv_qp_attr *attr);

/* The Q_Key of datagram QPs. IPoIB uses that of its broadcast group. */
enum { VB_CMA_IPOIB_QKEY = 0x0b1b };
uint32_t vb_cma_qkey(const struct vb_cma_id *id);

/* Gives the vendor options of the REP to a held QP. */
int vb_cma_ece_respond(struct vb_cma_id *id, struct ibv_qp *qp);

/*
 * default_cqs.c: the CQs, and their channels, that the library makes where the application gave
 * none. 0 entries: no such CQ.
 */
int vb_cma_default_cqs_make(struct rdma_cm_id *id, uint32_t send_entries, uint32_t recv_entries);
void vb_cma_default_cqs_destroy(struct rdma_cm_id *id);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP of an identifier, which the library moves through its states. */
#ifndef VB_RDMACM_QP_H
#define VB_RDMACM_QP_H

#include "rdmacm/cma.h"

/*
 * RTR, then RTS, with what both sides agreed upon. RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH: what
 * the peer said. Nothing happens without a QP.
 */
int vb_cma_qp_ready(struct vb_cma_id *id, uint8_t responder_resources, uint8_t initiator_depth);
int vb_cma_qp_error(struct vb_cma_id *id);
/* INIT; a datagram QP goes on to RTS. */
int vb_cma_qp_begin(struct vb_cma_id *id, struct ibv_qp *qp);

/* qp_attr.c: for the state in attr->qp_state; 0 or -EINVAL. */
int vb_cma_qp_attr(struct vb_cma_id *id, struct ibv_qp_attr *attr, int *mask);

/* What the REP said about vendor options is given to the QP. */
int vb_cma_ece_respond(struct vb_cma_id *id);

#endif

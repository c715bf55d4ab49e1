/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC between the files of this folder. */
#ifndef VB_VERBS_XRC_H
#define VB_VERBS_XRC_H

#include "nic/xrcd.h"

struct ibv_srq *vb_xrc_srq_create(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
struct ibv_qp *vb_xrc_receiver_create(struct ibv_context *context,
				      struct ibv_qp_init_attr_ex *attr);
/* The handle goes, and with the last one the QP. */
int vb_xrc_receiver_destroy(struct vb_qp *qp);
int vb_xrc_handle_modify(struct vb_qp *handle, const struct ibv_qp_attr *attr, int mask);
int vb_xrc_handle_query(struct vb_qp *handle, struct ibv_qp_attr *attr,
			struct ibv_qp_init_attr *init);

/* Other processes may open QPs of this one from now on. */
void vb_xrc_share_enable(void);

/* context.c: an object that may outlive the application's context is gone. */
void vb_context_release(struct vb_context *ctx);

/* qp.c */
int vb_verbs_modify(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);
int vb_verbs_stop_and_destroy(struct vb_qp *qp);
/* ibv_destroy_qp of any QP, also one that the application was not given. */
int vb_verbs_destroy(struct vb_qp *qp);

#endif

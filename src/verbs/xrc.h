/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions for XRC that the files of this folder share. */
#ifndef VB_VERBS_XRC_H
#define VB_VERBS_XRC_H

#include "nic/xrcd.h"

struct ibv_srq *vb_xrc_srq_create(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
struct ibv_qp *vb_xrc_receiver_create(struct ibv_context *context,
				      struct ibv_qp_init_attr_ex *attr);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What raw packet QPs need of their own, between the calls of verbs. */
#ifndef VB_VERBS_RAW_H
#define VB_VERBS_RAW_H

#include "nic/wq.h"

/* ibv_create_qp without what follows from the type (qp.c). */
int vb_qp_make(struct vb_pd *pd, struct ibv_qp_init_attr *attr, struct vb_qp **qp);

/* A QP whose frames are spread over the work queues of a table. */
int vb_raw_create_spread(struct ibv_qp_init_attr_ex *attr, struct vb_qp **qp);

#endif

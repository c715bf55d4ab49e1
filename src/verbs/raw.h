/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions for raw packet QPs that the files of this folder share. */
#ifndef VB_VERBS_RAW_H
#define VB_VERBS_RAW_H

#include "nic/wq.h"

/* ibv_create_qp without the steps that depend on the type (qp.c). */
int vb_qp_make(struct vb_pd *pd, struct ibv_qp_init_attr *attr, struct vb_qp **qp);

/* Creates a QP that spreads its frames over the work queues of a table. */
int vb_raw_create_spread(struct ibv_qp_init_attr_ex *attr, struct vb_qp **qp);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_TM_H
#define VB_VERBS_TM_H

#include <infiniband/verbs.h>

/* ibv_create_srq_ex for IBV_SRQT_TM; NULL and errno. */
struct ibv_srq *vb_tm_srq_create(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);

#endif

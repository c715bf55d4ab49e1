/* SPDX-License-Identifier: BSD-2-Clause */
/* Steps that several calls share about objects that they take and give out; mr.c, qp.c, srq.c. */
#ifndef VB_VERBS_GIVEN_H
#define VB_VERBS_GIVEN_H

#include "nic/given.h"
#include "nic/mr.h"
#include "nic/qp.h"

/* Checks a PD in which objects are made: given out, and of the NIC of this process. 0 or -errno. */
int vb_verbs_check_pd(struct ibv_pd *pd, const char *call);
/* The return value of the call: the new object, or NULL and errno if err is not 0. */
struct ibv_mr *vb_verbs_give_mr(struct vb_mr *mr, int err);
struct ibv_qp *vb_verbs_give_qp(struct vb_qp *qp, int err);
struct ibv_srq *vb_verbs_give_srq(struct vb_srq *srq, int err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* What several calls do about objects that they take and give out; mr.c, qp.c, srq.c. */
#ifndef VB_VERBS_GIVEN_H
#define VB_VERBS_GIVEN_H

#include "nic/given.h"
#include "nic/mr.h"
#include "nic/qp.h"

/* A PD that objects are made in: given out, and of the NIC of this process. 0 or -errno. */
int vb_verbs_check_pd(struct ibv_pd *pd, const char *call);
/* err, if it is one, or the new object, as the call returns it; NULL and errno. */
struct ibv_mr *vb_verbs_give_mr(struct vb_mr *mr, int err);
struct ibv_qp *vb_verbs_give_qp(struct vb_qp *qp, int err);
struct ibv_srq *vb_verbs_give_srq(struct vb_srq *srq, int err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The interface of raw packet QPs: the first QP opens it, the last one closes it. */
#ifndef VB_ENGINE_RAW_PORT_H
#define VB_ENGINE_RAW_PORT_H

#include "nic/wq.h"

/* Connects a new raw packet QP to its interface. 0, -EPERM, -EOPNOTSUPP on InfiniBand, -ENOMEM. */
int vb_raw_enter(struct vb_qp *qp);
/* The QP is gone. raw may be NULL; nic is that of the QP. */
void vb_raw_leave(struct vb_raw_qp *raw, const struct vb_nic *nic);

#endif

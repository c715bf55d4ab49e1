/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: which UD QPs of this process are attached to which MGID. */
#ifndef VB_NIC_MCAST_H
#define VB_NIC_MCAST_H

#include "nic/qp.h"

/* -EINVAL: not UD, not a multicast GID; -ENOMEM: too many. Attaching twice is one attachment. */
int vb_mcast_attach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid);
int vb_mcast_detach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid);

#endif

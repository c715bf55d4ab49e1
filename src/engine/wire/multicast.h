/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaching a QP to a multicast group, and the host to it while any QP is. */
#ifndef VB_ENGINE_WIRE_MULTICAST_H
#define VB_ENGINE_WIRE_MULTICAST_H

#include "nic/mcast.h"

/* 0; attaching twice is one attachment. -EINVAL, -ENOMEM as nic/mcast.h says; what the kernel
 * says if the interface cannot join. */
int vb_multicast_attach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid);
int vb_multicast_detach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* Interfaces of this host have changed: groups follow one that was made anew. Service thread. */
void vb_multicast_again(struct vb_nic *nic);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches a QP to a multicast group, and joins this host to the group while any QP is attached. */
#ifndef VB_ENGINE_WIRE_MULTICAST_H
#define VB_ENGINE_WIRE_MULTICAST_H

#include "nic/mcast.h"

/*
 * 0; two attaches are one attachment. -EINVAL, -ENOMEM as nic/mcast.h says, or the kernel's error
 * if the interface cannot join.
 */
int vb_multicast_attach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid);
int vb_multicast_detach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* By the service thread: interfaces have changed. Groups follow one that was made anew. */
void vb_multicast_again(struct vb_nic *nic);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast memberships: which UD QPs of this process are attached to which MGID. */
#ifndef VB_NIC_MCAST_H
#define VB_NIC_MCAST_H

#include "nic/group.h"
#include "nic/qp.h"

/*
 * 0 and the group; -EALREADY: the QP is attached already, which is no error to the application;
 * -EINVAL: not UD, not a multicast GID, not a multicast LID on InfiniBand; -ENOMEM: too many.
 */
int vb_mcast_attach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid,
		    struct vb_group *group);
/* 0 and the group; -EINVAL: the QP is not attached. */
int vb_mcast_detach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid,
		    struct vb_group *group);

/*
 * The interface of a device was made anew and has this index now. True: the QPs of one group on
 * another interface (`from`) are members of `to` from now on. The caller repeats it until false.
 */
bool vb_mcast_follow(struct vb_nic *nic, const struct vb_device *dev, int ifindex,
		     struct vb_group *from, struct vb_group *to);

/* The QPs that are members of a group, each once. Returns their count. */
unsigned vb_mcast_members(struct vb_nic *nic, const union ibv_gid *group_gid, uint16_t fabric,
			  uint32_t qpns[VB_MCAST_QP_MAX]);
/* The MGID by which a member attached to the group; false: no such member. */
bool vb_mcast_mgid(struct vb_nic *nic, uint32_t qpn, const union ibv_gid *group_gid,
		   uint16_t fabric, union ibv_gid *mgid);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. A group belongs to a link: the same MGID names two groups on two interfaces,
 * and two on RoCE and on InfiniBand. Groups of IPv4 on InfiniBand reach the subnet; all other
 * groups there end at the host.
 */
#ifndef VB_NIC_GROUP_H
#define VB_NIC_GROUP_H

#include "nic/device.h"

enum {
	VB_MULTICAST_QPN = 0xffffff,
	VB_MULTICAST_LID_FIRST = 0xc000, /* multicast LIDs of InfiniBand */
	VB_MULTICAST_LID_LAST = 0xfffe,
	VB_FABRIC_NONE = 0,
	VB_FABRIC_INFINIBAND = 0xffff,
};

struct vb_group {
	union ibv_gid gid; /* of vb_group_gid: IPv4 groups are mapped */
	int ifindex;       /* of the link; 0: InfiniBand, within the host */
	uint16_t fabric;   /* a number for the link, the same in every process */
	bool within_host;  /* no UDP: `lo`, VERBENA_PATH=slot and sim, InfiniBand but for IPv4 */
};

/* The group that a multicast GID names on a device. Explains a scope that ends at the host. */
struct vb_group vb_group_of(const struct vb_device *dev, const union ibv_gid *mgid);

/* The same group on another interface. */
struct vb_group vb_group_on(const struct vb_group *group, int ifindex);

/*
 * An IPv4 group has several MGIDs: ::ffff:a.b.c.d of RoCEv2, ff0e::ffff:a.b.c.d of RoCEv1,
 * ff1x:401b:<P_Key>::(28 bits of the group) of IPoIB and ff1x:4001:... of rdma_cm. Returns the
 * first form of all four; other MGIDs are returned as they are.
 */
union ibv_gid vb_group_gid(const union ibv_gid *mgid);

#endif

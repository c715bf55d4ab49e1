/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LIDs across hosts. The ports of one IP subnet are one InfiniBand subnet: a port's LID is the host
 * part of its interface's IPv4 address, so that a LID names an address without asking anybody.
 */
#ifndef VB_NIC_LID_H
#define VB_NIC_LID_H

#include "nic/device.h"

/* The address that packets of the port come from. 0, or -ENETUNREACH: its LID is of this host only. */
int vb_lid_own_address(const struct vb_device *dev, union ibv_gid *own);
/* And that of the port with another LID. */
int vb_lid_addresses(const struct vb_device *dev, uint16_t lid, union ibv_gid *own,
		     union ibv_gid *other);
/* Names the subnet that the port is in, among all; 0: none, its LID is of this host only. */
uint64_t vb_lid_subnet(const struct vb_device *dev);
/* The LID of the port that sends from an address; the own one for all of this host, 0: unknown. */
uint16_t vb_lid_at(const struct vb_device *dev, const union ibv_gid *address);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LIDs across hosts. The ports of one IP subnet are one InfiniBand subnet. A port's LID is the host
 * part of its interface's IPv4 address, so that a LID names an address without a question to
 * others.
 */
#ifndef VB_NIC_LID_H
#define VB_NIC_LID_H

#include "nic/device.h"

/* The source address of the port's packets. -ENETUNREACH: its LID is valid on this host only. */
int vb_lid_own_address(const struct vb_device *dev, union ibv_gid *own);
/* That address, and the address of the port with another LID. */
int vb_lid_addresses(const struct vb_device *dev, uint16_t lid, union ibv_gid *own,
		     union ibv_gid *other);
/* A number that names the port's subnet; 0: none, its LID is valid on this host only. */
uint64_t vb_lid_subnet(const struct vb_device *dev);
/*
 * The LID of the port with an address: the device's own for all addresses of this host; 0: unknown.
 */
uint16_t vb_lid_at(const struct vb_device *dev, const union ibv_gid *address);

#endif

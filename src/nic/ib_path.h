/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths between InfiniBand ports, found without a subnet manager. The interface of a port plays the
 * part of its IPoIB interface: the port has the addresses of the interface, and the kernel's table
 * of neighbours leads from an address to a MAC, hence to a GID, and back.
 */
#ifndef VB_NIC_IB_PATH_H
#define VB_NIC_IB_PATH_H

#include "nic/device.h"

struct vb_ib_path {
	union ibv_gid sgid, dgid;
	uint16_t slid, dlid; /* dlid 0: no port of this subnet has the address */
};

/*
 * From a port of this host to the port with an address, as far as it is known by now. scope is the
 * interface of a link-local address, else 0. Does not wait.
 */
struct vb_ib_path vb_ib_path_to(const struct vb_device *dev, const union ibv_gid *src,
				const union ibv_gid *dst, uint32_t scope);
/*
 * Is that the LID of the port with an address? An interface may have several addresses, and its
 * port has the LID of the first. False also where the neighbour is not known yet, who is asked
 * then.
 */
bool vb_ib_lid_is(const struct vb_device *dev, uint16_t lid, const union ibv_gid *src,
		  const union ibv_gid *address, uint32_t scope);
/*
 * The address of a port with this GID, the own one included. 0; -ENODEV: not of this subnet;
 * -EHOSTUNREACH: this host has not heard of that port.
 */
int vb_ib_address(const struct vb_device *dev, const union ibv_gid *gid, union ibv_gid *address);
/* The InfiniBand device on an interface, or on any (0); NULL. */
struct vb_device *vb_ib_device(int ifindex);

#endif

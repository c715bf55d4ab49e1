/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths between InfiniBand ports, found without a subnet manager. The network interface of a port
 * stands in for its IPoIB interface. The port has the addresses of that interface. The kernel's
 * table of neighbours leads from an address to a MAC, hence to a GID, and back.
 */
#ifndef VB_NIC_IB_PATH_H
#define VB_NIC_IB_PATH_H

#include "nic/device.h"

struct vb_ib_path {
	union ibv_gid sgid, dgid;
	uint16_t slid, dlid; /* dlid 0: no port of this subnet has the address */
};

/*
 * The path from a port of this host to the port with address dst, as far as the kernel knows it
 * now. scope is the interface of a link-local address, else 0. Does not wait.
 */
struct vb_ib_path vb_ib_path_to(const struct vb_device *dev, const union ibv_gid *src,
				const union ibv_gid *dst, uint32_t scope);
/*
 * Is this the LID of the port with the address? An interface may have several addresses; its port
 * has the LID of the first. False also if the kernel does not know the neighbour yet: then the
 * kernel is made to ask for it.
 */
bool vb_ib_lid_is(const struct vb_device *dev, uint16_t lid, const union ibv_gid *src,
		  const union ibv_gid *address, uint32_t scope);
/*
 * The address of the port with this GID; the port may be dev's. -ENODEV: a GID of another subnet;
 * -EHOSTUNREACH: the kernel does not know that port.
 */
int vb_ib_address(const struct vb_device *dev, const union ibv_gid *gid, union ibv_gid *address);
/* The interface of a device now; 0: none. */
int vb_ib_interface(const struct vb_device *dev);
/* The own address of a port; loopback: its LID is valid on this host only. */
union ibv_gid vb_ib_own_address(const struct vb_device *dev);
/* The InfiniBand device on an interface, or on any interface (0); NULL: none. */
struct vb_device *vb_ib_device(int ifindex);

#endif

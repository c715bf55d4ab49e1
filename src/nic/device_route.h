/* SPDX-License-Identifier: BSD-2-Clause */
/* From socket addresses to a device: which one carries an address, and how a host is reached. */
#ifndef VB_NIC_DEVICE_ROUTE_H
#define VB_NIC_DEVICE_ROUTE_H

#include <sys/socket.h>

#include "nic/device.h"

struct vb_device_route {
	union ibv_gid src, dst; /* IPv4 mapped; without a destination dst is zero */
	struct vb_device *device;
	int ifindex;
	int sgid_index; /* of the device's GID that stands for src */
	uint32_t scope; /* the interface where dst (without one: src) is link-local, else 0 */
	bool local;     /* dst is this host, or there is none */
	unsigned
		mtu; /* of the way to another host, in bytes, as far as the kernel knows it; 0: unknown */
};

/*
 * src NULL or a wildcard: as the kernel's routing tables say. dst NULL: the device that carries
 * src. -ENETUNREACH, -EHOSTUNREACH; -EADDRNOTAVAIL: src is not ours; -ENODEV: no device carries it,
 * or dst, which is ours;
 * -EINVAL: a link-local address without interface, two families; -EAFNOSUPPORT: neither IP.
 */
int vb_device_route(const struct sockaddr *src, const struct sockaddr *dst,
		    struct vb_device_route *route);

#endif

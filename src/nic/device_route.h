/* SPDX-License-Identifier: BSD-2-Clause */
/* From socket addresses to a device: which device carries an address, and how to reach a host. */
#ifndef VB_NIC_DEVICE_ROUTE_H
#define VB_NIC_DEVICE_ROUTE_H

#include <sys/socket.h>

#include "nic/device.h"

struct vb_device_route {
	union ibv_gid src, dst; /* IPv4 addresses are mapped; no destination: dst is zero */
	struct vb_device *device;
	int ifindex;
	int sgid_index; /* index of the device's GID that stands for src */
	uint32_t scope; /* interface where dst (no dst: src) is link-local, else 0 */
	bool local;     /* dst is this host, or there is no dst */
	unsigned mtu;   /* of the way to another host, in bytes; 0: the kernel does not know */
};

/*
 * src NULL or a wildcard: the kernel's routing tables choose the source. dst NULL: finds the device
 * that carries src. -ENETUNREACH, -EHOSTUNREACH; -EADDRNOTAVAIL: src is no address of this host;
 * -ENODEV: no device carries src, or dst on this host; -EINVAL: a link-local address without an
 * interface, or two families; -EAFNOSUPPORT: not IP.
 */
int vb_device_route(const struct sockaddr *src, const struct sockaddr *dst,
		    struct vb_device_route *route);

#endif

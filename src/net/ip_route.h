/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions to the kernel's routing tables. */
#ifndef VB_NET_IP_ROUTE_H
#define VB_NET_IP_ROUTE_H

#include <infiniband/verbs.h>

/* The interface index of the default route with the lowest metric, 0 if there is none. */
int vb_route_default(int family);

enum vb_route {
	VB_ROUTE_NONE,
	VB_ROUTE_HOST, /* the address belongs to this host, by a local route */
	VB_ROUTE_REMOTE,
};

/*
 * The kind of route from an own address (NULL: any) to dst. ifindex 0: through any interface. A
 * kernel that does not answer counts as VB_ROUTE_REMOTE: the first packet will tell.
 */
enum vb_route vb_route_lookup(const union ibv_gid *src, const union ibv_gid *dst, int ifindex);

#endif

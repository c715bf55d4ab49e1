/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's table of neighbours: link-layer addresses of next hops. */
#ifndef VB_NET_NEIGHBOUR_H
#define VB_NET_NEIGHBOUR_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/*
 * True if the kernel has the link-layer address of the next hop from src to dst, needs none, or
 * does not answer. False: the kernel is asking the link, look again later. scope is the interface
 * of a link-local dst, else 0. Does not wait.
 */
bool vb_neighbour_is_known(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope);

enum { VB_MAC_SIZE = 6 };
/* The MAC of the next hop, if the kernel has one now. */
bool vb_neighbour_mac(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope,
		      uint8_t mac[VB_MAC_SIZE]);
/* An IPv4 address that the kernel's table has for a MAC on this link. */
bool vb_neighbour_ipv4(int ifindex, const uint8_t mac[VB_MAC_SIZE], union ibv_gid *address);

/* The neighbours with an IPv4 address and a MAC on an interface: their number. */
struct vb_neighbour {
	union ibv_gid address;
	uint8_t mac[VB_MAC_SIZE];
};
unsigned vb_neighbour_list(int ifindex, struct vb_neighbour *list, unsigned room);

#endif

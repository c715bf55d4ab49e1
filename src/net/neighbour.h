/* SPDX-License-Identifier: BSD-2-Clause */
/* Neighbours: does anybody answer on the link at the next hop to an address? */
#ifndef VB_NET_NEIGHBOUR_H
#define VB_NET_NEIGHBOUR_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/*
 * True if the kernel has the link-layer address of the next hop from src to dst, or needs none, or
 * cannot be asked. Else false, and the kernel is asking the link: look again later. scope is the
 * interface of a link-local dst, else 0. Does not wait.
 */
bool vb_neighbour_is_known(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope);

enum { VB_MAC_SIZE = 6 };
/* The MAC of the next hop, if the kernel has one now. */
bool vb_neighbour_mac(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope,
		      uint8_t mac[VB_MAC_SIZE]);
/* An IPv4 address that the kernel knows on this link by its MAC. */
bool vb_neighbour_ipv4(int ifindex, const uint8_t mac[VB_MAC_SIZE], union ibv_gid *address);

#endif

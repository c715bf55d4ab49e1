/* SPDX-License-Identifier: BSD-2-Clause */
/* Neighbours: does anybody answer on the link at the next hop to an address? */
#ifndef VB_NIC_NEIGHBOUR_H
#define VB_NIC_NEIGHBOUR_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/*
 * True if the kernel has the link-layer address of the next hop from src to dst, or needs none, or
 * cannot be asked. Else false, and the kernel is asking the link: look again later. scope is the
 * interface of a link-local dst, else 0. Does not wait.
 */
bool vb_neighbour_is_known(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope);

#endif

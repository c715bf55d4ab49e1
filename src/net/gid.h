/* SPDX-License-Identifier: BSD-2-Clause */
/* GIDs as values, and the rule that makes a port's GID table out of an interface's addresses. */
#ifndef VB_NET_GID_H
#define VB_NET_GID_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "net/netif.h"

enum {
	VB_GID_LINK_LOCAL, /* index of the link-local GID */
	VB_GID_IPV4,       /* index of the first IPv4 GID */
	VB_GID_OTHERS,     /* index of the oldest of all other GIDs */
	VB_GID_TEXT = 46,  /* bytes that a printed GID needs */
};

enum { VB_LID_MAX = 0xBFFF, VB_LID_DEFAULT = 1 }; /* the unicast LIDs are 1..VB_LID_MAX */

static inline bool vb_gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a, b, sizeof(*a));
}

bool vb_gid_is_zero(const union ibv_gid *gid);
bool vb_gid_is_ipv4(const union ibv_gid *gid); /* ::ffff:a.b.c.d */
bool vb_gid_is_link_local(const union ibv_gid *gid);
bool vb_gid_is_multicast(const union ibv_gid *gid); /* ff00::/8, or a mapped IPv4 group */
bool vb_gid_is_loopback(const union ibv_gid *gid);  /* ::1, or a mapped 127.0.0.0/8 */

union ibv_gid vb_gid_ipv4(const void *address);
union ibv_gid vb_gid_from_guid(uint64_t guid); /* fe80:: and the GUID (network order) */
union ibv_gid vb_gid_from_lid(uint16_t lid);   /* stands for a LID of another port */

/* The GID as an IPv6 or IPv4 address is printed. text has VB_GID_TEXT bytes and is returned. */
const char *vb_gid_print(const union ibv_gid *gid, char *text);

/*
 * The EUI-64 of an interface, network order: from the MAC, else from the IPv4 address, else from
 * the name. All processes of a host get the same number without asking each other.
 */
uint64_t vb_netif_guid(const struct vb_netif_snapshot *all, const struct vb_netif *netif);
/* The GUID of the InfiniBand port on this interface. It is another port than the RoCE one. */
uint64_t vb_netif_guid_infiniband(const struct vb_netif_snapshot *all,
				  const struct vb_netif *netif);
/* The same GUID for a host that is known by its MAC. */
uint64_t vb_guid_infiniband(const uint8_t mac[6]);
/* The way back; false: the GUID was not made from a MAC. */
bool vb_guid_infiniband_mac(uint64_t guid, uint8_t mac[6]);
/* The LID of that port: the host part of the IPv4 address if that is a unicast LID, else 1. */
uint16_t vb_netif_lid(const struct vb_netif_snapshot *all, const struct vb_netif *netif);

/* The GID table of an Ethernet port. Unused entries are zero; the last entry is always unused. */
void vb_gid_table_fill(const struct vb_netif_snapshot *all, const struct vb_netif *netif,
		       union ibv_gid table[VB_GIDS]);

/*
 * Arranges a table that was just filled like the table before. A GID that is still there keeps its
 * index, because programs remember it; a new GID takes an empty index. Each of the first two
 * entries changes only when its old address is gone.
 */
void vb_gid_table_keep(const union ibv_gid before[VB_GIDS], union ibv_gid table[VB_GIDS]);

/* The GID is an address of this host, or the link-local GID of one of its interfaces. */
bool vb_gid_is_of_host(const struct vb_netif_snapshot *all, const union ibv_gid *gid);
/* The same, by the current snapshot. */
bool vb_gid_is_own(const union ibv_gid *gid);
/* The same, or the GID is that of an InfiniBand port of this host. */
bool vb_gid_is_own_port(const union ibv_gid *gid);

#endif

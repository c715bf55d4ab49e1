/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interfaces and addresses of this network namespace. vb_netif_snapshot_get reads a new
 * snapshot from the kernel when the last one is older than 100 ms. A snapshot never changes, except
 * for the speed of an interface: the first caller of vb_link_speed_mbps fills it in.
 */
#ifndef VB_NET_NETIF_H
#define VB_NET_NETIF_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vb_netif {
	int index;
	unsigned flags; /* IFF_* */
	unsigned mtu;
	bool has_mac;
	uint8_t mac[6];
	char name[IF_NAMESIZE];
	_Atomic int speed_mbps; /* for vb_link_speed_mbps alone; 0: not read yet, -1: unknown */
};

struct vb_netif_addr {
	union ibv_gid gid; /* IPv4 addresses are mapped, ::ffff:a.b.c.d */
	int ifindex;
	uint8_t prefix_bits; /* of the unmapped address: at most 32 for IPv4 */
	bool tentative;      /* IPv6: not yet known to be unique, the kernel does not use it */
	uint32_t created;    /* time of its creation, in hundredths of a second */
};

/* Arrays in the kernel's order, which is the same for every process. */
struct vb_netif_snapshot {
	_Atomic unsigned holders; /* the last holder frees the snapshot */
	uint64_t read_at_ns;
	size_t netif_count, addr_count;
	struct vb_netif *netifs;
	struct vb_netif_addr *addrs;
};

/*
 * Never NULL: if the kernel does not answer, the last snapshot, or `lo` alone. Return it by _put.
 */
const struct vb_netif_snapshot *vb_netif_snapshot_get(void);
void vb_netif_snapshot_put(const struct vb_netif_snapshot *snapshot);
/* The kernel reported a change: the next vb_netif_snapshot_get reads a new snapshot. */
void vb_netif_snapshot_expire(void);

/*
 * Reads past the cache; the caller is the only holder. NULL: no answer of the kernel, or no memory.
 */
struct vb_netif_snapshot *vb_netif_snapshot_read(void);
void vb_netif_snapshot_destroy(struct vb_netif_snapshot *snapshot);

const struct vb_netif *vb_netif_by_name(const struct vb_netif_snapshot *all, const char *name);
const struct vb_netif *vb_netif_by_index(const struct vb_netif_snapshot *all, int ifindex);

/* The interface is up and has a carrier. Loopback always counts: it works without both. */
bool vb_netif_is_up(const struct vb_netif *netif);

/* The first IPv4 address of an interface, or NULL. */
const struct vb_netif_addr *vb_netif_ipv4(const struct vb_netif_snapshot *all,
					  const struct vb_netif *netif);

/*
 * The interface of a device whose configuration names none. In this order: the interface of a
 * default route (ipv4_default, ipv6_default: indexes, 0 for none), the first interface that is up
 * and has an address, the first that is up, loopback. NULL: there is no interface.
 */
const struct vb_netif *vb_netif_choose(const struct vb_netif_snapshot *all, int ipv4_default,
				       int ipv6_default);

#endif

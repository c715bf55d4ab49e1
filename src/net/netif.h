/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interfaces and addresses of this network namespace. A snapshot is read from the kernel when
 * somebody asks and the last one is older than 100 ms; it never changes afterwards, but for the speed of
 * an interface, which is filled in when somebody asks for it.
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
	_Atomic int speed_mbps; /* through vb_link_speed_mbps; 0: not asked for yet, -1: unknown */
};

struct vb_netif_addr {
	union ibv_gid gid; /* IPv4 addresses are mapped, ::ffff:a.b.c.d */
	int ifindex;
	uint8_t prefix_bits; /* of the address itself: at most 32 for IPv4 */
	bool tentative;      /* IPv6: not yet known to be unique, the kernel does not use it */
	uint32_t created;    /* when it was added, in hundredths of a second */
};

/* Arrays in the kernel's order, which is the same for every process. */
struct vb_netif_snapshot {
	_Atomic unsigned holders; /* freed by the last one */
	uint64_t read_at_ns;
	size_t netif_count, addr_count;
	struct vb_netif *netifs;
	struct vb_netif_addr *addrs;
};

/* Never NULL; where the kernel cannot be asked: the last one, or `lo` alone. Give it back with _put. */
const struct vb_netif_snapshot *vb_netif_snapshot_get(void);
void vb_netif_snapshot_put(const struct vb_netif_snapshot *snapshot);
/* The kernel said that something changed: the next one is read afresh. */
void vb_netif_snapshot_expire(void);

/* Past the cache. NULL: the kernel cannot be asked, or no memory. The caller is the one holder. */
struct vb_netif_snapshot *vb_netif_snapshot_read(void);
void vb_netif_snapshot_destroy(struct vb_netif_snapshot *snapshot);

const struct vb_netif *vb_netif_by_name(const struct vb_netif_snapshot *all, const char *name);
const struct vb_netif *vb_netif_by_index(const struct vb_netif_snapshot *all, int ifindex);

/* Up and with a carrier; the loopback interface always counts, it needs neither to be local. */
bool vb_netif_is_up(const struct vb_netif *netif);

/* The first IPv4 address of an interface, or NULL. */
const struct vb_netif_addr *vb_netif_ipv4(const struct vb_netif_snapshot *all,
					  const struct vb_netif *netif);

/*
 * The interface of a device that names none: that of the default route (candidates in order, 0 for
 * none), else the first that is up, rather one with an address, else the loopback one. NULL if
 * there is no interface.
 */
const struct vb_netif *vb_netif_choose(const struct vb_netif_snapshot *all, int ipv4_default,
				       int ipv6_default);

#endif

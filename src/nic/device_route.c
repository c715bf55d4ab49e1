/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel chooses the source address: that of a UDP socket which is connected to the
 * destination. So every rule of its routing tables counts. The interface is the one with this
 * address. The device is the first on that interface.
 */
#include "nic/device_route.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "net/gid.h"
#include "net/netif.h"

enum { ANY_PORT = 9 }; /* connecting a UDP socket sends nothing */

/* A parsed socket address. */
struct place {
	union ibv_gid gid; /* zero: a wildcard, or none */
	uint32_t scope;
	bool ipv4, given;
};

static int read_place(const struct sockaddr *address, struct place *place)
{
	const struct sockaddr_in *in = (const void *)address;
	const struct sockaddr_in6 *in6 = (const void *)address;

	*place = (struct place){ 0 };
	if (!address)
		return 0;
	place->given = true;
	if (address->sa_family == AF_INET) {
		place->ipv4 = true;
		if (in->sin_addr.s_addr)
			place->gid = vb_gid_ipv4(&in->sin_addr);
		return 0;
	}
	if (address->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	memcpy(place->gid.raw, &in6->sin6_addr, sizeof(place->gid.raw));
	place->ipv4 = vb_gid_is_ipv4(&place->gid);
	place->scope = in6->sin6_scope_id;
	return 0;
}

static bool is_wildcard(const struct place *place)
{
	return vb_gid_is_zero(&place->gid);
}

static bool needs_scope(const struct place *place)
{
	return vb_gid_is_link_local(&place->gid) && !place->scope;
}

/* --- addresses of this host --- */

static const struct vb_netif_addr *find_own(const struct vb_netif_snapshot *all,
					    const struct place *place)
{
	for (size_t i = 0; i < all->addr_count; i++) {
		const struct vb_netif_addr *addr = &all->addrs[i];

		if (vb_gid_equal(&addr->gid, &place->gid) &&
		    (!vb_gid_is_link_local(&addr->gid) || addr->ifindex == (int)place->scope))
			return addr;
	}
	return NULL;
}

/* Of two devices on one interface the Ethernet device: IP addresses belong to it. */
static struct vb_device *device_on(const struct vb_netif_snapshot *all,
				   const struct vb_netif *netif)
{
	struct vb_device *const *devices, *found = NULL;
	const int count = vb_device_table(&devices);

	for (int i = 0; i < count; i++)
		if ((!netif || vb_device_netif(devices[i], all) == netif) &&
		    (!found || (found->infiniband && !devices[i]->infiniband)))
			found = devices[i];
	return found;
}

static int carry_by(const struct vb_netif_snapshot *all, int ifindex, struct vb_device_route *route)
{
	const struct vb_netif *netif = vb_netif_by_index(all, ifindex);

	route->device = netif ? device_on(all, netif) : NULL;
	route->ifindex = ifindex;
	return route->device ? 0 : -ENODEV;
}

/* Any device reaches this host. */
static int carry_by_any(const struct vb_netif_snapshot *all, struct vb_device_route *route)
{
	const struct vb_netif *netif;

	route->device = device_on(all, NULL);
	if (!route->device)
		return -ENODEV;
	netif = vb_device_netif(route->device, all);
	route->ifindex = netif ? netif->index : 0;
	return 0;
}

/* The index of src itself, else of a routable GID of its family, else the first. */
static int find_sgid(const struct vb_device_route *route)
{
	const bool ipv4 = vb_gid_is_ipv4(&route->src);
	union ibv_gid gids[VB_GIDS];

	vb_device_gids(route->device, gids);
	for (int i = 0; i < VB_GIDS; i++)
		if (vb_gid_equal(&gids[i], &route->src))
			return i;
	for (int i = ipv4 ? 0 : VB_GID_OTHERS; i < VB_GIDS; i++)
		if (!vb_gid_is_zero(&gids[i]) && !vb_gid_is_link_local(&gids[i]) &&
		    vb_gid_is_ipv4(&gids[i]) == ipv4)
			return i;
	return 0;
}

static int route_own(const struct vb_netif_snapshot *all, const struct place *src,
		     struct vb_device_route *route)
{
	const struct vb_netif_addr *own = find_own(all, src);

	route->src = src->gid;
	route->scope = vb_gid_is_link_local(&src->gid) ? src->scope : 0;
	route->local = true;
	if (needs_scope(src))
		return -EINVAL;
	/* `lo` may have a device; else any device stands for it. */
	if (own && !carry_by(all, own->ifindex, route))
		return 0;
	if (vb_gid_is_loopback(&src->gid))
		return carry_by_any(all, route);
	return own ? -ENODEV : -EADDRNOTAVAIL;
}

/* --- the way to an address --- */

static socklen_t fill_sockaddr(struct sockaddr_in6 *out, const struct place *place, uint16_t port)
{
	struct sockaddr_in *in = (void *)out;

	memset(out, 0, sizeof(*out));
	if (place->ipv4) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, place->gid.raw + 12, sizeof(in->sin_addr));
		return sizeof(*in);
	}
	out->sin6_family = AF_INET6;
	out->sin6_port = htons(port);
	out->sin6_scope_id = place->scope;
	memcpy(&out->sin6_addr, place->gid.raw, sizeof(out->sin6_addr));
	return sizeof(*out);
}

static int ask_source(int fd, const struct place *src, const struct place *dst, struct place *found)
{
	struct sockaddr_in6 address;
	socklen_t size;

	if (!is_wildcard(src)) {
		size = fill_sockaddr(&address, src, 0);
		if (bind(fd, (void *)&address, size))
			return -errno;
	}
	size = fill_sockaddr(&address, dst, ANY_PORT);
	if (connect(fd, (void *)&address, size))
		return -errno;
	size = sizeof(address);
	if (getsockname(fd, (void *)&address, &size))
		return -errno;
	return read_place((void *)&address, found);
}

/* MTU of a connected socket's route: configured values and messages of routers count. */
static unsigned ask_mtu(int fd, bool ipv4)
{
	int mtu = 0;
	socklen_t size = sizeof(mtu);

	if (getsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU : IPV6_MTU, &mtu, &size))
		return 0;
	return mtu > 0 ? (unsigned)mtu : 0;
}

static int find_source(const struct place *src, const struct place *dst, struct place *found,
		       unsigned *mtu)
{
	int fd = socket(dst->ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	err = ask_source(fd, src, dst, found);
	*mtu = err ? 0 : ask_mtu(fd, dst->ipv4);
	close(fd);
	return err;
}

/* A wildcard destination means this host, as for TCP. */
static void mean_loopback(struct place *dst)
{
	static const uint8_t localhost[4] = { 127, 0, 0, 1 };

	if (!is_wildcard(dst))
		return;
	if (dst->ipv4)
		dst->gid = vb_gid_ipv4(localhost);
	else
		dst->gid.raw[15] = 1;
}

static bool is_here(const struct vb_netif_snapshot *all, const struct place *dst)
{
	return vb_gid_is_loopback(&dst->gid) || find_own(all, dst);
}

/*
 * To this host, from any of its addresses. The device is that of the source, or without a source
 * that of the destination. Both must have a device: the other side is found by its address.
 */
static int route_here(const struct vb_netif_snapshot *all, const struct place *src,
		      const struct place *dst, struct vb_device_route *route)
{
	int err = route_own(all, dst, route);

	if (!err && !is_wildcard(src))
		err = route_own(all, src, route);
	route->dst = dst->gid;
	route->scope = vb_gid_is_link_local(&dst->gid) ? dst->scope : 0;
	return err;
}

static int route_there(const struct vb_netif_snapshot *all, const struct place *src,
		       const struct place *dst, struct vb_device_route *route)
{
	struct place found;
	int err = find_source(src, dst, &found, &route->mtu);

	if (!err)
		err = route_own(all, &found, route);
	route->dst = dst->gid;
	route->scope =
		vb_gid_is_link_local(&dst->gid) || (!dst->ipv4 && vb_gid_is_multicast(&dst->gid))
			? (uint32_t)route->ifindex
			: 0;
	/* A route of type "local" gives this host an address that no interface has. */
	route->local = !err && vb_gid_equal(&route->src, &route->dst);
	return err;
}

static int find_route(const struct place *src, const struct place *dst,
		      struct vb_device_route *route)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	int err;

	*route = (struct vb_device_route){ 0 };
	if (!dst->given)
		err = route_own(all, src, route);
	else if (is_here(all, dst))
		err = route_here(all, src, dst, route);
	else
		err = route_there(all, src, dst, route);
	vb_netif_snapshot_put(all);
	return err;
}

int vb_device_route(const struct sockaddr *src, const struct sockaddr *dst,
		    struct vb_device_route *route)
{
	struct place from, to;
	int err = read_place(src, &from);

	if (!err)
		err = read_place(dst, &to);
	if (err)
		return err;
	if (to.given && from.given && from.ipv4 != to.ipv4)
		return -EINVAL;
	if ((!to.given && is_wildcard(&from)) || (to.given && needs_scope(&to)))
		return -EINVAL;
	if (to.given)
		mean_loopback(&to);
	err = find_route(&from, &to, route);
	if (err == -EADDRNOTAVAIL) { /* or the address is newer than the snapshot */
		vb_netif_snapshot_expire();
		err = find_route(&from, &to, route);
	}
	if (!err)
		route->sgid_index = find_sgid(route);
	return err;
}

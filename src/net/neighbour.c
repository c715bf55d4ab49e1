/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/neighbour.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/neighbour.h>

#include "net/gid.h"
#include "net/netif.h"
#include "net/netlink.h"

enum {
	DISCARD_PORT = 9, /* RFC 863: hosts throw away every packet for it */
	HAS_ADDRESS = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY,
};

/* The next hop of a packet; ifindex 0: no hop is known. */
struct hop {
	union ibv_gid gid;
	int ifindex;
};

static void add_address(struct vb_netlink_request *request, int type, const union ibv_gid *gid)
{
	bool ipv4 = vb_gid_is_ipv4(gid);

	vb_netlink_attr(request, type, gid->raw + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
}

static int family_of(const union ibv_gid *gid)
{
	return vb_gid_is_ipv4(gid) ? AF_INET : AF_INET6;
}

/* --- the next hop --- */

static void take_gateway(struct hop *hop, const struct rtattr *attr)
{
	if (RTA_PAYLOAD(attr) == 4)
		hop->gid = vb_gid_ipv4(RTA_DATA(attr));
	else if (RTA_PAYLOAD(attr) == sizeof(hop->gid))
		memcpy(&hop->gid, RTA_DATA(attr), sizeof(hop->gid));
}

/* A gateway of the other family. */
static void take_via(struct hop *hop, const struct rtattr *attr)
{
	const struct rtvia *via = RTA_DATA(attr);

	if (RTA_PAYLOAD(attr) == sizeof(*via) + sizeof(hop->gid) && via->rtvia_family == AF_INET6)
		memcpy(&hop->gid, via->rtvia_addr, sizeof(hop->gid));
}

static void keep_hop(const struct nlmsghdr *message, void *argument)
{
	const struct rtmsg *body = NLMSG_DATA(message);
	struct hop *hop = argument;
	const struct rtattr *attr;
	int left;

	if (message->nlmsg_type != RTM_NEWROUTE ||
	    message->nlmsg_len < NLMSG_LENGTH(sizeof(*body)) || body->rtm_type != RTN_UNICAST)
		return;
	for (attr = vb_netlink_attrs(message, sizeof(*body), &left); RTA_OK(attr, left);
	     attr = RTA_NEXT(attr, left)) {
		if (attr->rta_type == RTA_GATEWAY)
			take_gateway(hop, attr);
		else if (attr->rta_type == RTA_VIA)
			take_via(hop, attr);
		else if (attr->rta_type == RTA_OIF && RTA_PAYLOAD(attr) == sizeof(hop->ifindex))
			memcpy(&hop->ifindex, RTA_DATA(attr), sizeof(hop->ifindex));
	}
}

static struct hop find_hop(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope)
{
	const bool with_src = !vb_gid_is_link_local(src);
	const unsigned char bits = vb_gid_is_ipv4(dst) ? 32 : 128;
	const struct rtmsg body = { .rtm_family = (unsigned char)family_of(dst),
				    .rtm_dst_len = bits,
				    .rtm_src_len = with_src ? bits : 0 };
	struct vb_netlink_request request;
	struct hop hop = { .gid = *dst };

	vb_netlink_request(&request, RTM_GETROUTE, 0, &body, sizeof(body));
	add_address(&request, RTA_DST, dst);
	if (with_src)
		add_address(&request, RTA_SRC, src);
	if (scope)
		vb_netlink_attr(&request, RTA_OIF, &scope, sizeof(scope));
	if (vb_netlink_ask(&request, keep_hop, &hop))
		hop.ifindex = 0;
	return hop;
}

/* On a link with at most one other end the kernel needs no link-layer addresses. */
static bool link_has_neighbours(int ifindex)
{
	const unsigned without = IFF_LOOPBACK | IFF_NOARP | IFF_POINTOPOINT;
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const struct vb_netif *netif = vb_netif_by_index(all, ifindex);
	const bool has = netif && !(netif->flags & without);

	vb_netif_snapshot_put(all);
	return has;
}

/* --- the kernel's table --- */

enum entry { NONE, KNOWN, ASKED, FAILED };

/* A row of the kernel's table, without the fields that nothing reads. */
struct row {
	unsigned state; /* NUD_* */
	int ifindex;
	union ibv_gid gid; /* the IPv4 address; zero: an IPv6 row, or no address */
	bool has_mac;
	uint8_t mac[VB_MAC_SIZE];
};

static void read_row(const struct nlmsghdr *message, struct row *row)
{
	const struct ndmsg *body = NLMSG_DATA(message);
	const struct rtattr *attr;
	int left;

	*row = (struct row){ .state = body->ndm_state, .ifindex = body->ndm_ifindex };
	for (attr = vb_netlink_attrs(message, sizeof(*body), &left); RTA_OK(attr, left);
	     attr = RTA_NEXT(attr, left)) {
		if (attr->rta_type == NDA_DST && RTA_PAYLOAD(attr) == 4)
			row->gid = vb_gid_ipv4(RTA_DATA(attr));
		if (attr->rta_type == NDA_LLADDR && RTA_PAYLOAD(attr) == sizeof(row->mac)) {
			memcpy(row->mac, RTA_DATA(attr), sizeof(row->mac));
			row->has_mac = body->ndm_state & HAS_ADDRESS;
		}
	}
}

static bool is_row(const struct nlmsghdr *message)
{
	return message->nlmsg_type == RTM_NEWNEIGH &&
	       message->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ndmsg));
}

static void keep_row(const struct nlmsghdr *message, void *argument)
{
	if (is_row(message))
		read_row(message, argument);
}

static int ask_row(const struct hop *hop, struct row *row)
{
	const struct ndmsg body = { .ndm_family = (unsigned char)family_of(&hop->gid),
				    .ndm_ifindex = hop->ifindex };
	struct vb_netlink_request request;

	*row = (struct row){ .state = NUD_NONE };
	vb_netlink_request(&request, RTM_GETNEIGH, 0, &body, sizeof(body));
	add_address(&request, NDA_DST, &hop->gid);
	return vb_netlink_ask(&request, keep_row, row);
}

/* Some kernels dump the table but answer no question about one row: there every hop is KNOWN. */
static enum entry look_up_hop(const struct hop *hop)
{
	struct row row;
	int err = ask_row(hop, &row);

	if (err)
		return err == -ENOENT ? NONE : KNOWN;
	if (row.state & HAS_ADDRESS)
		return KNOWN;
	return row.state & NUD_INCOMPLETE ? ASKED : row.state & NUD_FAILED ? FAILED : NONE;
}

static socklen_t fill_sockaddr(struct sockaddr_in6 *address, const union ibv_gid *gid,
			       uint32_t scope, uint16_t port)
{
	struct sockaddr_in *in = (void *)address;

	memset(address, 0, sizeof(*address));
	if (vb_gid_is_ipv4(gid)) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, gid->raw + 12, sizeof(in->sin_addr));
		return sizeof(*in);
	}
	address->sin6_family = AF_INET6;
	address->sin6_port = htons(port);
	address->sin6_scope_id = scope;
	memcpy(&address->sin6_addr, gid->raw, sizeof(address->sin6_addr));
	return sizeof(*address);
}

/* Only a packet to the hop makes the kernel ask the link. This one is empty. */
static void make_kernel_ask(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope)
{
	int fd = socket(family_of(dst), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in6 address;
	socklen_t size = fill_sockaddr(&address, src, scope, 0);

	if (fd < 0)
		return;
	if (!vb_gid_is_link_local(src))
		(void)bind(fd, (void *)&address, size);
	size = fill_sockaddr(&address, dst, scope, DISCARD_PORT);
	(void)sendto(fd, NULL, 0, 0, (void *)&address, size);
	close(fd);
}

bool vb_neighbour_is_known(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope)
{
	const struct hop hop = find_hop(src, dst, scope);
	enum entry entry;

	if (!hop.ifindex || !link_has_neighbours(hop.ifindex))
		return true;
	entry = look_up_hop(&hop);
	if (entry == NONE || entry == FAILED) {
		make_kernel_ask(src, dst, scope);
		entry = look_up_hop(&hop);
	}
	/* NONE: even the packet did not make the kernel ask, so the table says nothing. */
	return entry == KNOWN || entry == NONE;
}

bool vb_neighbour_mac(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope,
		      uint8_t mac[VB_MAC_SIZE])
{
	const struct hop hop = find_hop(src, dst, scope);
	struct row row;

	if (!hop.ifindex || ask_row(&hop, &row) || !row.has_mac)
		return false;
	memcpy(mac, row.mac, sizeof(row.mac));
	return true;
}

static void keep_row_of_mac(const struct nlmsghdr *message, void *argument)
{
	struct row *wanted = argument, row;

	if (!is_row(message))
		return;
	read_row(message, &row);
	if (row.has_mac && row.ifindex == wanted->ifindex && !vb_gid_is_zero(&row.gid) &&
	    !memcmp(row.mac, wanted->mac, sizeof(row.mac)))
		wanted->gid = row.gid;
}

bool vb_neighbour_ipv4(int ifindex, const uint8_t mac[VB_MAC_SIZE], union ibv_gid *address)
{
	const struct ndmsg body = { .ndm_family = AF_INET };
	struct vb_netlink_request request;
	struct row wanted = { .ifindex = ifindex };

	memcpy(wanted.mac, mac, sizeof(wanted.mac));
	vb_netlink_request(&request, RTM_GETNEIGH, NLM_F_DUMP, &body, sizeof(body));
	/* The result does not matter: a table that changes during the dump did have this row. */
	(void)vb_netlink_ask(&request, keep_row_of_mac, &wanted);
	*address = wanted.gid;
	return !vb_gid_is_zero(address);
}

struct listing {
	int ifindex;
	struct vb_neighbour *list;
	unsigned count, room;
};

static void keep_neighbour(const struct nlmsghdr *message, void *argument)
{
	struct listing *listing = argument;
	struct vb_neighbour *neighbour = &listing->list[listing->count];
	struct row row;

	if (!is_row(message) || listing->count == listing->room)
		return;
	read_row(message, &row);
	if (!row.has_mac || row.ifindex != listing->ifindex || vb_gid_is_zero(&row.gid) ||
	    vb_gid_is_multicast(&row.gid))
		return;
	neighbour->address = row.gid;
	memcpy(neighbour->mac, row.mac, sizeof(row.mac));
	listing->count++;
}

unsigned vb_neighbour_list(int ifindex, struct vb_neighbour *list, unsigned room)
{
	const struct ndmsg body = { .ndm_family = AF_INET };
	struct listing listing = { .ifindex = ifindex, .list = list, .room = room };
	struct vb_netlink_request request;

	vb_netlink_request(&request, RTM_GETNEIGH, NLM_F_DUMP, &body, sizeof(body));
	(void)vb_netlink_ask(&request, keep_neighbour, &listing);
	return listing.count;
}

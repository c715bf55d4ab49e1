/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ip_route.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "net/gid.h"
#include "net/netlink.h"

/* A route of the kernel's, without the fields that nothing reads. */
struct route {
	uint32_t table, metric;
	int ifindex;
};

/* The first path of a multipath route. */
static int multipath_ifindex(const struct rtattr *attr)
{
	const struct rtnexthop *hop = RTA_DATA(attr);

	return RTA_PAYLOAD(attr) >= sizeof(*hop) ? hop->rtnh_ifindex : 0;
}

static uint32_t attr_u32(const struct rtattr *attr)
{
	uint32_t value = 0;

	if (RTA_PAYLOAD(attr) >= sizeof(value))
		memcpy(&value, RTA_DATA(attr), sizeof(value));
	return value;
}

static struct route parse_route(const struct nlmsghdr *message)
{
	const struct rtmsg *body = NLMSG_DATA(message);
	struct route route = { .table = body->rtm_table };
	const struct rtattr *attr;
	int left;

	for (attr = vb_netlink_attrs(message, sizeof(*body), &left); RTA_OK(attr, left);
	     attr = RTA_NEXT(attr, left)) {
		if (attr->rta_type == RTA_TABLE)
			route.table = attr_u32(attr);
		else if (attr->rta_type == RTA_PRIORITY)
			route.metric = attr_u32(attr);
		else if (attr->rta_type == RTA_OIF)
			route.ifindex = (int)attr_u32(attr);
		else if (attr->rta_type == RTA_MULTIPATH)
			route.ifindex = multipath_ifindex(attr);
	}
	return route;
}

static bool is_route(const struct nlmsghdr *message)
{
	return message->nlmsg_type == RTM_NEWROUTE &&
	       message->nlmsg_len >= NLMSG_LENGTH(sizeof(struct rtmsg));
}

static void keep_best_default(const struct nlmsghdr *message, void *argument)
{
	const struct rtmsg *body = NLMSG_DATA(message);
	struct route *best = argument, route;

	/* IPv6 lists "unreachable default dev lo" where there is no default route. */
	if (!is_route(message) || body->rtm_dst_len != 0 || body->rtm_type != RTN_UNICAST)
		return;
	route = parse_route(message);
	if (route.table != RT_TABLE_MAIN || route.ifindex <= 0)
		return;
	if (!best->ifindex || route.metric < best->metric)
		*best = route;
}

int vb_route_default(int family)
{
	const struct rtmsg body = { .rtm_family = (unsigned char)family,
				    .rtm_table = RT_TABLE_MAIN };
	struct vb_netlink_request request;
	struct route best = { 0 };

	/* The result does not matter: a table that changes during the dump did have this route. */
	vb_netlink_request(&request, RTM_GETROUTE, NLM_F_DUMP, &body, sizeof(body));
	vb_netlink_ask(&request, keep_best_default, &best);
	return best.ifindex;
}

static void keep_type(const struct nlmsghdr *message, void *argument)
{
	const struct rtmsg *body = NLMSG_DATA(message);

	if (is_route(message))
		*(int *)argument = body->rtm_type;
}

static void add_address(struct vb_netlink_request *request, int type, const union ibv_gid *gid)
{
	bool ipv4 = vb_gid_is_ipv4(gid);

	vb_netlink_attr(request, type, gid->raw + (ipv4 ? 12 : 0), ipv4 ? 4 : 16);
}

static int ask_route(const union ibv_gid *src, const union ibv_gid *dst, int ifindex, int *type)
{
	bool ipv4 = vb_gid_is_ipv4(dst);
	unsigned char bits = ipv4 ? 32 : 128;
	const struct rtmsg body = { .rtm_family = ipv4 ? AF_INET : AF_INET6,
				    .rtm_dst_len = bits,
				    .rtm_src_len = src ? bits : 0 };
	struct vb_netlink_request request;

	vb_netlink_request(&request, RTM_GETROUTE, 0, &body, sizeof(body));
	add_address(&request, RTA_DST, dst);
	if (src)
		add_address(&request, RTA_SRC, src);
	if (ifindex)
		vb_netlink_attr(&request, RTA_OIF, &ifindex, sizeof(ifindex));
	return vb_netlink_ask(&request, keep_type, type);
}

/* With these errors the kernel says: no route. With all others it does not answer the question. */
static bool says_unreachable(int error)
{
	return error == -ENETUNREACH || error == -EHOSTUNREACH || error == -EACCES ||
	       error == -EINVAL || error == -ENETDOWN || error == -ENODEV;
}

enum vb_route vb_route_lookup(const union ibv_gid *src, const union ibv_gid *dst, int ifindex)
{
	int type = RTN_UNSPEC;
	int error = ask_route(src, dst, ifindex, &type);

	if (says_unreachable(error))
		return VB_ROUTE_NONE;
	if (error || type == RTN_UNSPEC || type == RTN_UNICAST)
		return VB_ROUTE_REMOTE;
	return type == RTN_LOCAL ? VB_ROUTE_HOST : VB_ROUTE_NONE;
}

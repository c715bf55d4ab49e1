/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a snapshot from the kernel: two dumps over a netlink socket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/if_addr.h>

#include "base/clock.h"
#include "net/gid.h"
#include "net/netif.h"
#include "net/netlink.h"

enum { READ_TRIES = 4 };

/* A snapshot while it is read; failed: out of memory. */
struct reading {
	struct vb_netif_snapshot *snapshot;
	bool failed;
};

/* Makes room for one more element. The capacity is the next power of two, so no field stores it. */
static void *grow_array(void *array, size_t count, size_t size)
{
	if (count && (count & (count - 1)))
		return array;
	return realloc(array, (count ? count * 2 : 1) * size);
}

static void parse_link_attr(struct vb_netif *netif, const struct rtattr *attr)
{
	size_t size = RTA_PAYLOAD(attr);

	if (attr->rta_type == IFLA_IFNAME && size <= sizeof(netif->name)) {
		memcpy(netif->name, RTA_DATA(attr), size);
		netif->name[sizeof(netif->name) - 1] = '\0';
	} else if (attr->rta_type == IFLA_MTU && size == sizeof(netif->mtu)) {
		memcpy(&netif->mtu, RTA_DATA(attr), size);
	} else if (attr->rta_type == IFLA_ADDRESS && size == sizeof(netif->mac)) {
		memcpy(netif->mac, RTA_DATA(attr), size);
		netif->has_mac = memcmp(netif->mac, "\0\0\0\0\0", size) != 0;
	}
}

static void add_link(const struct nlmsghdr *message, void *argument)
{
	const struct ifinfomsg *body = NLMSG_DATA(message);
	struct vb_netif netif = { 0 };
	struct reading *reading = argument;
	struct vb_netif_snapshot *snapshot = reading->snapshot;
	const struct rtattr *attr;
	void *larger;
	int left;

	if (message->nlmsg_type != RTM_NEWLINK || message->nlmsg_len < NLMSG_LENGTH(sizeof(*body)))
		return;
	netif.index = body->ifi_index;
	netif.flags = body->ifi_flags;
	for (attr = vb_netlink_attrs(message, sizeof(*body), &left); RTA_OK(attr, left);
	     attr = RTA_NEXT(attr, left))
		parse_link_attr(&netif, attr);
	larger = grow_array(snapshot->netifs, snapshot->netif_count, sizeof(netif));
	if (!larger) {
		reading->failed = true;
		return;
	}
	snapshot->netifs = larger;
	snapshot->netifs[snapshot->netif_count++] = netif;
}

static bool attr_gid(const struct rtattr *attr, union ibv_gid *gid)
{
	if (RTA_PAYLOAD(attr) == 4)
		*gid = vb_gid_ipv4(RTA_DATA(attr));
	else if (RTA_PAYLOAD(attr) == 16)
		memcpy(gid, RTA_DATA(attr), 16);
	else
		return false;
	return true;
}

static uint32_t attr_created(const struct rtattr *attr)
{
	struct ifa_cacheinfo info = { 0 };

	if (RTA_PAYLOAD(attr) >= sizeof(info))
		memcpy(&info, RTA_DATA(attr), sizeof(info));
	return info.cstamp;
}

/*
 * The own address is IFA_LOCAL if there is one: then IFA_ADDRESS is that of the link's other end.
 */
static bool parse_addr(const struct nlmsghdr *message, struct vb_netif_addr *addr, uint32_t *flags)
{
	bool local = false, found = false;
	const struct rtattr *attr;
	int left;

	for (attr = vb_netlink_attrs(message, sizeof(struct ifaddrmsg), &left); RTA_OK(attr, left);
	     attr = RTA_NEXT(attr, left)) {
		if (attr->rta_type == IFA_LOCAL)
			found = local = attr_gid(attr, &addr->gid);
		else if (attr->rta_type == IFA_ADDRESS && !local)
			found = attr_gid(attr, &addr->gid);
		else if (attr->rta_type == IFA_FLAGS && RTA_PAYLOAD(attr) == sizeof(*flags))
			memcpy(flags, RTA_DATA(attr), sizeof(*flags));
		else if (attr->rta_type == IFA_CACHEINFO)
			addr->created = attr_created(attr);
	}
	return found;
}

static void add_addr(const struct nlmsghdr *message, void *argument)
{
	const struct ifaddrmsg *body = NLMSG_DATA(message);
	struct reading *reading = argument;
	struct vb_netif_snapshot *snapshot = reading->snapshot;
	struct vb_netif_addr addr = { 0 };
	uint32_t flags;
	void *larger;

	if (message->nlmsg_type != RTM_NEWADDR || message->nlmsg_len < NLMSG_LENGTH(sizeof(*body)))
		return;
	flags = body->ifa_flags;
	/* Another host has an address that failed duplicate detection. */
	if (!parse_addr(message, &addr, &flags) || (flags & IFA_F_DADFAILED))
		return;
	addr.ifindex = (int)body->ifa_index;
	addr.prefix_bits = body->ifa_prefixlen;
	addr.tentative = (flags & IFA_F_TENTATIVE) && !(flags & IFA_F_OPTIMISTIC);
	larger = grow_array(snapshot->addrs, snapshot->addr_count, sizeof(addr));
	if (!larger) {
		reading->failed = true;
		return;
	}
	snapshot->addrs = larger;
	snapshot->addrs[snapshot->addr_count++] = addr;
}

static int dump_tables(struct reading *reading)
{
	const struct ifinfomsg any_link = { 0 };
	const struct ifaddrmsg any_addr = { 0 };
	struct vb_netlink_request request;
	int result;

	reading->snapshot->netif_count = reading->snapshot->addr_count = 0;
	vb_netlink_request(&request, RTM_GETLINK, NLM_F_DUMP, &any_link, sizeof(any_link));
	result = vb_netlink_ask(&request, add_link, reading);
	if (result)
		return result;
	vb_netlink_request(&request, RTM_GETADDR, NLM_F_DUMP, &any_addr, sizeof(any_addr));
	result = vb_netlink_ask(&request, add_addr, reading);
	return reading->failed ? -ENOMEM : result;
}

void vb_netif_snapshot_destroy(struct vb_netif_snapshot *snapshot)
{
	free(snapshot->netifs);
	free(snapshot->addrs);
	free(snapshot);
}

struct vb_netif_snapshot *vb_netif_snapshot_read(void)
{
	struct reading reading = { .snapshot = calloc(1, sizeof(*reading.snapshot)) };
	int result = -EAGAIN;

	if (!reading.snapshot)
		return NULL;
	/* The time before the dump: the dump may miss a change that happens during it. */
	reading.snapshot->read_at_ns = vb_now_ns();
	for (int tries = 0; tries < READ_TRIES && result == -EAGAIN; tries++)
		result = dump_tables(&reading);
	/* -EAGAIN, the tables still change: the last dump is as good as any. */
	if ((result && result != -EAGAIN) || !reading.snapshot->netif_count) {
		vb_netif_snapshot_destroy(reading.snapshot);
		return NULL;
	}
	atomic_init(&reading.snapshot->holders, 1);
	return reading.snapshot;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/group.h"

#include <string.h>

#include "base/log.h"
#include "net/gid.h"
#include "net/netif.h"
#include "nic/choice.h"
#include "nic/lid.h"

enum { FABRICS = 0xfffe }; /* the numbers of interfaces are 1 to this */

/* ff0e::ffff:a.b.c.d */
static bool is_mapped_v1(const union ibv_gid *mgid)
{
	static const uint8_t prefix[12] = { 0xff, 0x0e, [10] = 0xff, [11] = 0xff };

	return !memcmp(mgid->raw, prefix, sizeof(prefix)) && mgid->raw[12] >> 4 == 0xe;
}

/* RFC 4391, 4: scope, signature, P_Key, and the lower 28 bits of the group. */
static bool is_ipoib(const union ibv_gid *mgid)
{
	static const uint8_t zero[6];

	return mgid->raw[0] == 0xff && mgid->raw[1] >> 4 == 1 && mgid->raw[2] == 0x40 &&
	       (mgid->raw[3] == 0x1b || mgid->raw[3] == 0x01) &&
	       !memcmp(mgid->raw + 6, zero, sizeof(zero)) && mgid->raw[12] >> 4 == 0;
}

union ibv_gid vb_group_gid(const union ibv_gid *mgid)
{
	uint8_t address[4];

	if (!is_mapped_v1(mgid) && !is_ipoib(mgid))
		return *mgid;
	memcpy(address, mgid->raw + 12, sizeof(address));
	address[0] |= 0xe0;
	return vb_gid_ipv4(address);
}

/* The kernel has no route for IPv6 groups on `lo`, so they cannot be forced to UDP. */
static bool is_loop(const struct vb_netif *netif, const union ibv_gid *gid)
{
	return netif->flags & IFF_LOOPBACK && (!vb_choice_udp_to_self() || !vb_gid_is_ipv4(gid));
}

/* The kernel does not send such packets, but a NIC would. */
static void explain_scope(const struct vb_group *group)
{
	enum { SCOPE_MASK = 0x0f, SCOPE_INTERFACE = 1 };
	char text[VB_GID_TEXT];

	if (group->within_host || vb_gid_is_ipv4(&group->gid) ||
	    (group->gid.raw[1] & SCOPE_MASK) > SCOPE_INTERFACE)
		return;
	vb_explain_note(
		"the group %s is interface-local (ff01::/16): its packets stay on this host; "
		"groups from ff02::/16 on reach other hosts",
		vb_gid_print(&group->gid, text));
}

struct vb_group vb_group_on(const struct vb_group *group, int ifindex)
{
	struct vb_group there = *group;

	there.ifindex = ifindex;
	if (group->fabric != VB_FABRIC_INFINIBAND)
		there.fabric = (uint16_t)(1 + ifindex % FABRICS);
	return there;
}

/* Packets are RoCEv2, from the address of the port's LID to the address of the group. */
static struct vb_group infiniband_group(const struct vb_device *dev, const union ibv_gid *mgid)
{
	struct vb_group group = { .gid = *mgid,
				  .fabric = VB_FABRIC_INFINIBAND,
				  .within_host = true };
	const struct vb_netif_snapshot *all;
	const struct vb_netif *netif;
	union ibv_gid own;

	if (!is_ipoib(mgid) || vb_choice_never_udp_to_self() || vb_lid_own_address(dev, &own))
		return group;
	all = vb_netif_snapshot_get();
	netif = vb_device_netif(dev, all);
	if (netif) {
		group.gid = vb_group_gid(mgid);
		group.ifindex = netif->index;
		group.within_host = false;
	}
	vb_netif_snapshot_put(all);
	return group;
}

struct vb_group vb_group_of(const struct vb_device *dev, const union ibv_gid *mgid)
{
	struct vb_group group = { 0 };
	const struct vb_netif_snapshot *all;
	const struct vb_netif *netif;

	if (dev->infiniband)
		return infiniband_group(dev, mgid);
	all = vb_netif_snapshot_get();
	netif = vb_device_netif(dev, all);
	group.gid = vb_group_gid(mgid);
	group = vb_group_on(&group, netif ? netif->index : 0);
	group.within_host = vb_choice_never_udp_to_self() || (netif && is_loop(netif, &group.gid));
	vb_netif_snapshot_put(all);
	explain_scope(&group);
	return group;
}

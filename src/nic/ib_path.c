/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/ib_path.h"

#include <errno.h>

#include "net/gid.h"
#include "net/neighbour.h"
#include "net/netif.h"
#include "nic/lid.h"

int vb_ib_interface(const struct vb_device *dev)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const struct vb_netif *netif = vb_device_netif(dev, all);
	const int ifindex = netif ? netif->index : 0;

	vb_netif_snapshot_put(all);
	return ifindex;
}

struct vb_device *vb_ib_device(int ifindex)
{
	struct vb_device *const *devices;
	const int count = vb_device_table(&devices);

	for (int i = 0; i < count; i++)
		if (devices[i]->infiniband && (!ifindex || vb_ib_interface(devices[i]) == ifindex))
			return devices[i];
	return NULL;
}

/* An IPv6 address contains no LID; the IPv4 address of the same neighbour does. */
static uint16_t lid_of_neighbour(const struct vb_device *dev, const union ibv_gid *dst,
				 const uint8_t mac[VB_MAC_SIZE])
{
	union ibv_gid address = *dst;

	if (!vb_gid_is_ipv4(dst) && !vb_neighbour_ipv4(vb_ib_interface(dev), mac, &address))
		return 0;
	return vb_lid_at(dev, &address);
}

struct vb_ib_path vb_ib_path_to(const struct vb_device *dev, const union ibv_gid *src,
				const union ibv_gid *dst, uint32_t scope)
{
	struct vb_ib_path path = { .sgid = vb_gid_from_guid(dev->guid),
				   .slid = vb_device_lid(dev) };
	uint8_t mac[VB_MAC_SIZE] = { 0 };
	bool has_mac;

	if (vb_gid_is_own(dst)) {
		path.dgid = path.sgid;
		path.dlid = path.slid;
		return path;
	}
	has_mac = vb_neighbour_mac(src, dst, scope, mac);
	path.dlid = has_mac || vb_gid_is_ipv4(dst) ? lid_of_neighbour(dev, dst, mac) : 0;
	if (path.dlid)
		path.dgid = has_mac ? vb_gid_from_guid(vb_guid_infiniband(mac))
				    : vb_gid_from_lid(path.dlid);
	return path;
}

/* The MAC of a neighbour. If the kernel does not know it, makes the kernel ask. */
static bool ask_mac(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope,
		    uint8_t mac[VB_MAC_SIZE])
{
	if (vb_neighbour_mac(src, dst, scope, mac))
		return true;
	(void)vb_neighbour_is_known(src, dst, scope);
	return vb_neighbour_mac(src, dst, scope, mac);
}

bool vb_ib_lid_is(const struct vb_device *dev, uint16_t lid, const union ibv_gid *src,
		  const union ibv_gid *address, uint32_t scope)
{
	uint8_t mac[VB_MAC_SIZE], mac_of_lid[VB_MAC_SIZE];
	union ibv_gid own, other;

	if (vb_gid_is_own(address))
		return lid == vb_device_lid(dev);
	if (vb_gid_is_ipv4(address) && lid && lid == vb_lid_at(dev, address))
		return true;
	if (vb_lid_addresses(dev, lid, &own, &other))
		return false;
	return ask_mac(src, address, scope, mac) && ask_mac(&own, &other, 0, mac_of_lid) &&
	       !memcmp(mac, mac_of_lid, sizeof(mac));
}

/* Requests within this host need no address that other hosts know. */
union ibv_gid vb_ib_own_address(const struct vb_device *dev)
{
	static const uint8_t localhost[4] = { 127, 0, 0, 1 };
	union ibv_gid own;

	return vb_lid_own_address(dev, &own) ? vb_gid_ipv4(localhost) : own;
}

static int neighbour_address(const struct vb_device *dev, const union ibv_gid *gid,
			     union ibv_gid *address)
{
	uint8_t mac[VB_MAC_SIZE];

	if (!vb_guid_infiniband_mac(gid->global.interface_id, mac) ||
	    !vb_neighbour_ipv4(vb_ib_interface(dev), mac, address) || !vb_lid_at(dev, address))
		return -EHOSTUNREACH;
	return 0;
}

int vb_ib_address(const struct vb_device *dev, const union ibv_gid *gid, union ibv_gid *address)
{
	const union ibv_gid port_gid = vb_gid_from_guid(dev->guid);

	if (vb_gid_is_zero(gid) || vb_gid_is_loopback(gid) || vb_gid_equal(gid, &port_gid)) {
		*address = vb_ib_own_address(dev);
		return 0;
	}
	if (gid->global.subnet_prefix != port_gid.global.subnet_prefix)
		return -ENODEV;
	return neighbour_address(dev, gid, address);
}

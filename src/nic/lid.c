/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/lid.h"

#include <arpa/inet.h>
#include <errno.h>

#include "net/gid.h"
#include "net/netif.h"

/* Host order. */
struct subnet {
	uint32_t own, host_mask;
};

/* No subnet: loopback, which reaches no other host, and a host part that is no LID. */
static bool find_subnet(const struct vb_device *dev, struct subnet *subnet)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const struct vb_netif *netif = vb_device_netif(dev, all);
	const struct vb_netif_addr *addr = netif ? vb_netif_ipv4(all, netif) : NULL;
	bool found = addr && addr->prefix_bits <= 32 && !(netif->flags & IFF_LOOPBACK);

	if (found) {
		uint32_t host;

		memcpy(&subnet->own, addr->gid.raw + 12, sizeof(subnet->own));
		subnet->own = ntohl(subnet->own);
		subnet->host_mask = (uint32_t)(UINT64_C(0xffffffff) >> addr->prefix_bits);
		host = subnet->own & subnet->host_mask;
		found = host >= 1 && host <= VB_LID_MAX;
	}
	vb_netif_snapshot_put(all);
	return found;
}

static union ibv_gid gid_of(uint32_t address)
{
	address = htonl(address);
	return vb_gid_ipv4(&address);
}

int vb_lid_own_address(const struct vb_device *dev, union ibv_gid *own)
{
	struct subnet subnet;

	if (!find_subnet(dev, &subnet))
		return -ENETUNREACH;
	*own = gid_of(subnet.own);
	return 0;
}

uint64_t vb_lid_subnet(const struct vb_device *dev)
{
	struct subnet subnet;

	if (!find_subnet(dev, &subnet))
		return 0;
	return (uint64_t)(subnet.own & ~subnet.host_mask) << 32 | subnet.host_mask;
}

int vb_lid_addresses(const struct vb_device *dev, uint16_t lid, union ibv_gid *own,
		     union ibv_gid *other)
{
	struct subnet subnet;

	/* The last address of a subnet is its broadcast address. */
	if (!lid || lid > VB_LID_MAX || !find_subnet(dev, &subnet) || lid >= subnet.host_mask)
		return -ENETUNREACH;
	*own = gid_of(subnet.own);
	*other = gid_of((subnet.own & ~subnet.host_mask) | lid);
	return 0;
}

uint16_t vb_lid_at(const struct vb_device *dev, const union ibv_gid *address)
{
	struct subnet subnet;
	uint32_t number, host;

	if (!vb_gid_is_ipv4(address) || vb_gid_is_own(address))
		return vb_device_lid(dev);
	memcpy(&number, address->raw + 12, sizeof(number));
	number = ntohl(number);
	if (!find_subnet(dev, &subnet) || (number ^ subnet.own) & ~subnet.host_mask)
		return 0;
	host = number & subnet.host_mask;
	return host <= VB_LID_MAX ? (uint16_t)host : 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire/listen.h"

#include <errno.h>

#include "engine/wire/wire_impl.h"
#include "net/gid.h"
#include "net/netif.h"
#include "nic/choice.h"
#include "nic/lid.h"

static_assert(VB_DEVICES_MAX <= 32, "a bit for each in listen_devices");

int vb_listen_device(struct vb_lane *lane, const struct vb_device *dev)
{
	union ibv_gid gids[VB_GIDS], lid;
	int err = 0, one;

	lane->listen_devices |= 1u << dev->index;
	if (dev->infiniband && !vb_lid_own_address(dev, &lid))
		vb_port_listen(lane->port, &lid);
	vb_device_gids(dev, gids);
	for (int i = 0; i < VB_GIDS; i++) {
		if (vb_gid_is_zero(&gids[i]))
			continue;
		one = vb_port_listen(lane->port, &gids[i]);
		/* an address that cannot be opened does not hide the others */
		err = err ? err : one;
	}
	return err;
}

static bool is_on_device(const struct vb_netif_snapshot *all, int ifindex)
{
	const struct vb_netif *netif = vb_netif_by_index(all, ifindex);
	struct vb_device *const *devices;
	const int count = vb_device_table(&devices);

	for (int i = 0; i < count && netif; i++)
		if (vb_device_netif(devices[i], all) == netif)
			return true;
	return false;
}

static bool is_wanted(const struct vb_netif_snapshot *all, const struct vb_netif_addr *addr)
{
	if (addr->tentative)
		return false;
	if (vb_gid_is_loopback(&addr->gid))
		return vb_choice_udp_to_self();
	return is_on_device(all, addr->ifindex);
}

int vb_listen_everywhere(struct vb_lane *lane)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	int first = -EADDRNOTAVAIL;
	bool any = false;

	lane->listen_everywhere = true;
	for (size_t i = 0; i < all->addr_count; i++) {
		int err = is_wanted(all, &all->addrs[i])
				  ? vb_port_listen(lane->port, &all->addrs[i].gid)
				  : -EADDRNOTAVAIL;

		any |= !err;
		if (err != -EADDRNOTAVAIL)
			first = err;
	}
	vb_netif_snapshot_put(all);
	return any ? 0 : first;
}

static void listen_again(struct vb_lane *lane)
{
	struct vb_device *const *devices;
	const int count = vb_device_table(&devices);

	vb_wire_lock(lane);
	if (vb_wire_begin(lane))
		vb_roce_forget_ways(&lane->roce);
	for (int i = 0; i < count; i++)
		if (lane->listen_devices >> i & 1)
			vb_listen_device(lane, devices[i]);
	if (lane->listen_everywhere)
		vb_listen_everywhere(lane);
	vb_wire_unlock(lane);
}

void vb_listen_again(struct vb_nic *nic)
{
	vb_lanes_for(lane, nic) listen_again(lane);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire/multicast.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "engine/wire/wire_impl.h"
#include "net/gid.h"
#include "net/netif.h"

static int join_group(struct vb_nic *nic, const struct vb_group *group)
{
	int err;
	struct vb_lane *lane = vb_wire_get(nic, &err);

	if (!lane)
		return err;
	vb_wire_lock(lane);
	err = vb_port_group_join(lane->port, group);
	vb_wire_unlock(lane);
	return err;
}

static void leave_group(struct vb_nic *nic, const struct vb_group *group)
{
	struct vb_lane *lane = vb_lane_first(nic);

	if (!lane)
		return;
	vb_wire_lock(lane);
	vb_port_group_leave(lane->port, group);
	vb_wire_unlock(lane);
}

int vb_multicast_attach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct vb_group group;
	char text[VB_GID_TEXT];
	int err = vb_mcast_attach(qp, gid, lid, &group);

	if (err)
		return err == -EALREADY ? 0 : err;
	/* The first lane joins, and shows the packets to the lane of the QP. */
	atomic_fetch_or(&qp->nic->lanes_grouped, 1u << atomic_load(&qp->lane));
	err = join_group(qp->nic, &group);
	if (err) {
		vb_explain("ibv_attach_mcast: this host cannot join %s: %s",
			   vb_gid_print(&group.gid, text), strerror(-err));
		vb_mcast_detach(qp, gid, lid, &group);
	}
	return err;
}

int vb_multicast_detach(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct vb_group group;
	int err = vb_mcast_detach(qp, gid, lid, &group);

	if (!err)
		leave_group(qp->nic, &group);
	return err;
}

static void follow_interface(struct vb_lane *lane, const struct vb_device *dev, int ifindex)
{
	struct vb_group from, to;

	while (vb_mcast_follow(lane->nic, dev, ifindex, &from, &to))
		vb_port_group_move(lane->port, &from, &to);
}

void vb_multicast_again(struct vb_nic *nic)
{
	struct vb_lane *lane = vb_lane_first(nic);
	const struct vb_netif_snapshot *all;
	struct vb_device *const *devices;
	const int count = vb_device_table(&devices);

	if (!lane)
		return;
	vb_wire_lock(lane);
	all = vb_netif_snapshot_get();
	for (int i = 0; i < count; i++) {
		const struct vb_netif *netif = vb_device_netif(devices[i], all);

		if (netif)
			follow_interface(lane, devices[i], netif->index);
	}
	vb_netif_snapshot_put(all);
	vb_port_groups_again(lane->port);
	vb_wire_unlock(lane);
}

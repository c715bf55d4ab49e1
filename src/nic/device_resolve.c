/* SPDX-License-Identifier: BSD-2-Clause */
/* Resolves the application's address vector to the place where the message goes. */
#include <errno.h>

#include "base/log.h"
#include "net/gid.h"
#include "net/ip_route.h"
#include "net/netif.h"
#include "nic/device.h"
#include "nic/fact.h"
#include "nic/group.h"
#include "nic/lid.h"
#include "nic/rate.h"

static int resolve_sgid(const struct vb_device *dev, const struct ibv_ah_attr *attr,
			struct vb_av *av)
{
	if (vb_device_gid(dev, attr->grh.sgid_index, &av->sgid)) {
		vb_explain("%s: sgid_index %u is outside of the GID table, which has %u entries",
			   dev->ibv.name, attr->grh.sgid_index, vb_fact_u32(VB_FACT_GID_TBL_LEN));
		return -EINVAL;
	}
	if (vb_gid_is_zero(&av->sgid)) {
		vb_explain("%s: sgid_index %u is empty; 'verbena devices' lists the GIDs",
			   dev->ibv.name, attr->grh.sgid_index);
		return -EINVAL;
	}
	return 0;
}

/* The source for the kernel's policy rules. A link-local GID may be made up: no address to it. */
static const union ibv_gid *route_source(const struct vb_av *av)
{
	return vb_gid_is_link_local(&av->sgid) ? NULL : &av->sgid;
}

/* 0: the loopback interface, or the interface is gone. */
static int interface_index(const struct vb_device *dev)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const struct vb_netif *netif = vb_device_netif(dev, all);
	const int ifindex = netif && !(netif->flags & IFF_LOOPBACK) ? netif->index : 0;

	vb_netif_snapshot_put(all);
	return ifindex;
}

static enum vb_route find_route(const struct vb_av *av)
{
	if (!av->ifindex)
		return VB_ROUTE_NONE;
	/* Only a link-local address needs the interface: with one, IPv4 finds any host. */
	return vb_route_lookup(route_source(av), &av->dgid,
			       vb_gid_is_link_local(&av->dgid) ? av->ifindex : 0);
}

static int resolve_remote(const struct vb_device *dev, struct vb_av *av)
{
	char source[VB_GID_TEXT], destination[VB_GID_TEXT];
	enum vb_route route;

	vb_gid_print(&av->sgid, source);
	vb_gid_print(&av->dgid, destination);
	if (vb_gid_is_zero(&av->dgid) || vb_gid_is_ipv4(&av->sgid) != vb_gid_is_ipv4(&av->dgid)) {
		vb_explain("%s: source GID %s and destination GID %s must both be IPv4 or IPv6",
			   dev->ibv.name, source, destination);
		return -EINVAL;
	}
	route = find_route(av);
	if (route == VB_ROUTE_NONE) {
		vb_explain("%s: there is no route from %s to %s", dev->ibv.name, source,
			   destination);
		return -ENETUNREACH;
	}
	av->local = route == VB_ROUTE_HOST;
	return 0;
}

static int resolve_ethernet(const struct vb_device *dev, const struct ibv_ah_attr *attr,
			    struct vb_av *av)
{
	if (!attr->is_global) {
		vb_explain("%s: Ethernet needs a GRH: set is_global, grh.dgid, grh.sgid_index",
			   dev->ibv.name);
		return -EINVAL;
	}
	if (resolve_sgid(dev, attr, av))
		return -EINVAL;
	av->ifindex = interface_index(dev);
	av->multicast = vb_gid_is_multicast(&av->dgid);
	av->local = av->multicast || vb_gid_is_local(dev, &av->dgid);
	/* Groups and 127.0.0.1 or ::1 go with every source. */
	if (av->multicast || vb_gid_is_loopback(&av->dgid))
		return 0;
	if (av->local && vb_gid_is_ipv4(&av->sgid) == vb_gid_is_ipv4(&av->dgid))
		return 0;
	return resolve_remote(dev, av);
}

/*
 * The LID of another port is never an error here: a wrong LID shows as a timeout. The DLID finds
 * the port, as in an InfiniBand subnet; the GID of a GRH goes with the packet.
 */
static int resolve_infiniband(const struct vb_device *dev, const struct ibv_ah_attr *attr,
			      struct vb_av *av)
{
	const union ibv_gid port_gid = vb_gid_from_guid(dev->guid);
	const uint16_t lid = vb_device_lid(dev);

	if (!attr->dlid) {
		vb_explain("%s: DLID 0 is reserved; the peer's LID is in its port attributes",
			   dev->ibv.name);
		return -EINVAL;
	}
	av->slid = lid;
	av->dlid = attr->dlid;
	if (!attr->is_global) {
		av->sgid = port_gid;
		av->dgid = attr->dlid == lid ? port_gid : vb_gid_from_lid(attr->dlid);
	} else if (resolve_sgid(dev, attr, av)) {
		return -EINVAL;
	}
	av->multicast = attr->is_global && vb_gid_is_multicast(&av->dgid);
	av->local = av->multicast || (attr->dlid == lid && vb_gid_equal(&av->dgid, &port_gid));
	/* This port takes no packet with the GID of another port. */
	if (!av->local && attr->dlid != lid)
		vb_lid_addresses(dev, attr->dlid, &av->lid_src, &av->lid_dst);
	return 0;
}

static void resolve_group(const struct vb_device *dev, struct vb_av *av)
{
	const struct vb_group group = vb_group_of(dev, &av->dgid);

	av->within_host = group.within_host;
	av->fabric = group.fabric;
	if (dev->infiniband)
		av->ifindex = group.ifindex;
}

/* An unknown code is an error, as on a NIC. */
static int resolve_rate(const struct vb_device *dev, const struct ibv_ah_attr *attr,
			struct vb_av *av)
{
	const int mbps = vb_rate_by_code(attr->static_rate)->mbps;

	if (attr->static_rate == IBV_RATE_MAX)
		return 0;
	if (mbps < 0) {
		vb_explain("%s: static_rate %u is no value of enum ibv_rate", dev->ibv.name,
			   attr->static_rate);
		return -EINVAL;
	}
	av->rate_kbps = (uint32_t)mbps * 1000;
	return 0;
}

int vb_device_resolve(const struct vb_device *dev, const struct ibv_ah_attr *attr, struct vb_av *av)
{
	int err;

	*av = (struct vb_av){ .grh = attr->is_global, .sl = attr->sl };
	if (attr->port_num != 1) {
		vb_explain("%s: port_num %u does not exist, the only port is 1", dev->ibv.name,
			   attr->port_num);
		return -EINVAL;
	}
	if (attr->is_global) {
		av->dgid = attr->grh.dgid;
		av->flow_label = attr->grh.flow_label & 0xfffff;
		av->sgid_index = attr->grh.sgid_index;
		av->traffic_class = attr->grh.traffic_class;
		av->hop_limit = attr->grh.hop_limit;
	}
	err = resolve_rate(dev, attr, av);
	if (!err)
		err = dev->infiniband ? resolve_infiniband(dev, attr, av)
				      : resolve_ethernet(dev, attr, av);
	if (!err && av->multicast)
		resolve_group(dev, av);
	return err;
}

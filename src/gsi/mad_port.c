/* SPDX-License-Identifier: BSD-2-Clause */
/* A device's port as agents tell about it, and the addresses of ports. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/attach/port_counts.h"
#include "gsi/mad.h"
#include "net/gid.h"
#include "nic/ib_path.h"
#include "nic/lid.h"
#include "nic/pkey.h"
#include "nic/qp.h"
#include "nic/rate.h"

enum {
	QDR = 4, /* link speeds up to it have a field, the faster ones another */
	FDR10 = 8,
	EXTENDED_AT = 4,  /* FDR is the fifth bit of active_speed */
	WIDTHS = 0x1f,    /* 1X, 4X, 8X, 12X, 2X */
	SPEEDS = 7,       /* SDR, DDR, QDR */
	SPEEDS_EXT = 0xf, /* FDR, EDR, HDR, NDR */
	VL0 = 1,
};

/* --- addresses --- */

struct vb_device *vb_mad_device_at(const union ibv_gid *address, bool infiniband_only)
{
	struct vb_device *const *devices, *found = NULL;
	const int count = vb_device_table(&devices);
	union ibv_gid own;

	for (int i = 0; i < count; i++) {
		if (infiniband_only && !devices[i]->infiniband)
			continue;
		if (devices[i]->infiniband && !vb_lid_own_address(devices[i], &own) &&
		    vb_gid_equal(&own, address))
			return devices[i];
		if (!found || (devices[i]->infiniband && !found->infiniband))
			found = devices[i];
	}
	return found;
}

static int resolve_lid(const struct vb_device *dev, uint16_t lid, struct vb_gsi_datagram *datagram)
{
	if (lid != vb_device_lid(dev))
		return vb_lid_addresses(dev, lid, &datagram->src, &datagram->dst);
	datagram->src = datagram->dst = vb_ib_own_address(dev);
	return 0;
}

static int resolve_infiniband(const struct vb_device *dev, const struct vb_mad_address *to,
			      struct vb_gsi_datagram *datagram)
{
	if (!to->grh)
		return resolve_lid(dev, to->lid, datagram);
	datagram->src = vb_ib_own_address(dev);
	return vb_ib_address(dev, &to->gid, &datagram->dst);
}

static int resolve_ethernet(const struct vb_device *dev, const struct vb_mad_address *to,
			    struct vb_gsi_datagram *datagram)
{
	const struct ibv_ah_attr attr = {
		.is_global = to->grh,
		.port_num = 1,
		.grh = { .dgid = to->gid,
			 .sgid_index = (uint8_t)to->sgid_index,
			 .traffic_class = to->traffic_class },
	};
	struct vb_av av;
	int err = vb_device_resolve(dev, &attr, &av);

	if (err)
		return err;
	datagram->src = av.sgid;
	datagram->dst = av.dgid;
	datagram->scope = vb_gid_is_link_local(&av.dgid) ? (uint32_t)av.ifindex : 0;
	return 0;
}

int vb_mad_resolve(const struct vb_device *dev, const struct vb_mad_address *to,
		   struct vb_gsi_datagram *datagram)
{
	datagram->traffic_class = to->traffic_class;
	return dev->infiniband ? resolve_infiniband(dev, to, datagram)
			       : resolve_ethernet(dev, to, datagram);
}

/* --- the port --- */

static void describe_node(const struct vb_device *dev, struct vb_mad_port *port)
{
	struct ibv_device_attr_ex attr = { 0 };
	char text[VB_MAD_DESCRIPTION_SIZE + 1] = "", host[65] = "";

	vb_device_attr(dev, &attr);
	gethostname(host, sizeof(host) - 1);
	snprintf(text, sizeof(text), "%.40s %.22s", host, dev->ibv.name);
	memcpy(port->description, text, sizeof(port->description));
	port->system_image_guid = be64toh(attr.orig_attr.sys_image_guid);
	port->node_guid = port->port_guid = be64toh(attr.orig_attr.node_guid);
	port->vendor_id = attr.orig_attr.vendor_id;
	port->device_id = (uint16_t)attr.orig_attr.vendor_part_id;
	port->revision = attr.orig_attr.hw_ver;
}

static void describe_link(const struct ibv_port_attr *attr, struct vb_mad_port *port)
{
	/* FDR10 is of one vendor only: other programs see QDR. */
	const bool extended = attr->active_speed > FDR10;

	port->state = (uint8_t)attr->state;
	port->phys_state = attr->phys_state;
	port->mtu = (uint8_t)attr->active_mtu;
	port->mtu_max = (uint8_t)attr->max_mtu;
	port->width = attr->active_width;
	port->width_supported = WIDTHS;
	port->speed = attr->active_speed > QDR ? QDR : attr->active_speed;
	port->speed_supported = SPEEDS;
	port->speed_ext = extended ? attr->active_speed >> EXTENDED_AT : 0;
	port->speed_ext_supported = SPEEDS_EXT;
	port->vl_capability = VL0;
	port->subnet_timeout = attr->subnet_timeout;
}

static void describe_place(const struct vb_device *dev, const struct ibv_port_attr *attr,
			   struct vb_mad_port *port)
{
	const union ibv_gid gid = vb_gid_from_guid(dev->guid);

	port->subnet_prefix = be64toh(gid.global.subnet_prefix);
	port->lid = attr->lid;
	port->sm_lid = attr->sm_lid;
	port->sm_sl = attr->sm_sl;
	port->lmc = attr->lmc;
	port->capability_mask = attr->port_cap_flags;
	port->capability_mask2 = attr->port_cap_flags2;
	port->rate = (uint8_t)vb_rate_by_mbps((int)vb_device_mbps(dev))->code;
}

static uint16_t at_most_16(uint32_t value)
{
	return value < UINT16_MAX ? (uint16_t)value : UINT16_MAX;
}

void vb_mad_port_fill(struct vb_nic *nic, const struct vb_device *dev, struct vb_mad_port *port)
{
	const struct vb_violations violations = vb_qps_violations(nic, dev);
	struct ibv_port_attr attr;

	*port = (struct vb_mad_port){ .pkey_count = vb_pkey_table_length() };
	if (vb_device_port_attr(dev, 1, &attr))
		return;
	describe_node(dev, port);
	describe_link(&attr, port);
	describe_place(dev, &attr, port);
	for (unsigned i = 0; i < port->pkey_count; i++)
		port->pkeys[i] = vb_pkey_at(i);
	port->pkey_violations = at_most_16(violations.pkey);
	port->qkey_violations = at_most_16(violations.qkey);
	port->sm_activity = (uint32_t)(vb_now_ns() / 1000000000u);
}

void vb_mad_port_count(struct vb_mad_port *port, const struct vb_port_counts *counts)
{
	struct vb_mad_counters *sum = &port->counters;

	sum->xmit_data += counts->bytes_out / 4;
	sum->rcv_data += counts->bytes_in / 4;
	sum->xmit_packets += counts->packets_out;
	sum->rcv_packets += counts->packets_in;
	sum->rcv_errors += counts->rcv_errors;
	sum->xmit_discards += counts->xmit_discards;
}

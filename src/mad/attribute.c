/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One row per field. Bytes count from the beginning of the attribute, and bits from the top of the
 * byte, as in the IBA (14.2.5, 13.4.8, 16.1.3).
 */
#include "mad/attribute.h"

#include "wire/mad.h"

/* clang-format off */
#define FIELD(type, path, byte, first, count_)                                          \
	{                                                                               \
		.member = offsetof(struct type, path),                                  \
		.size = sizeof(((struct type *)0)->path), .bit = 8 * (byte) + (first),  \
		.width = (count_)                                                       \
	}
#define WHOLE(type, path, byte) FIELD(type, path, byte, 0, 8 * sizeof(((struct type *)0)->path))
#define LAYOUT(rows) { rows, sizeof(rows) / sizeof(*(rows)) }

#define NODE(path, byte) WHOLE(vb_node_info, path, byte)
static const struct vb_field node_info[] = {
	NODE(base_version, 0),
	NODE(class_version, 1),
	NODE(node_type, 2),
	NODE(port_count, 3),
	NODE(system_image_guid, 4),
	NODE(node_guid, 12),
	NODE(port_guid, 20),
	NODE(partition_cap, 28),
	NODE(device_id, 30),
	NODE(revision, 32),
	NODE(local_port, 36),
	FIELD(vb_node_info, vendor_id, 37, 0, 24),
};

#define PORT(path, byte)              WHOLE(vb_port_info, path, byte)
#define PORT_BITS(path, byte, at, n)  FIELD(vb_port_info, path, byte, at, n)
static const struct vb_field port_info[] = {
	PORT(m_key, 0),
	PORT(gid_prefix, 8),
	PORT(lid, 16),
	PORT(sm_lid, 18),
	PORT(capability_mask, 20),
	PORT(local_port, 28),
	PORT(width_enabled, 29),
	PORT(width_supported, 30),
	PORT(width_active, 31),
	PORT_BITS(speed_supported, 32, 0, 4),
	PORT_BITS(state, 32, 4, 4),
	PORT_BITS(phys_state, 33, 0, 4),
	PORT_BITS(down_default, 33, 4, 4),
	PORT_BITS(lmc, 34, 5, 3),
	PORT_BITS(speed_active, 35, 0, 4),
	PORT_BITS(speed_enabled, 35, 4, 4),
	PORT_BITS(neighbor_mtu, 36, 0, 4),
	PORT_BITS(sm_sl, 36, 4, 4),
	PORT_BITS(vl_cap, 37, 0, 4),
	PORT_BITS(mtu_cap, 41, 4, 4),
	PORT_BITS(operational_vls, 43, 0, 4),
	PORT(pkey_violations, 46),
	PORT(qkey_violations, 48),
	PORT(guid_cap, 50),
	PORT_BITS(client_reregister, 51, 0, 1),
	PORT_BITS(subnet_timeout, 51, 3, 5),
	PORT_BITS(response_time, 52, 3, 5),
	PORT(capability_mask2, 60),
	PORT_BITS(speed_ext_active, 62, 0, 4),
	PORT_BITS(speed_ext_supported, 62, 4, 4),
	PORT_BITS(speed_ext_enabled, 63, 3, 5),
};

static const struct vb_field switch_info[] = {
	WHOLE(vb_switch_info, linear_fdb_cap, 0),
	WHOLE(vb_switch_info, linear_fdb_top, 6),
	FIELD(vb_switch_info, life_time, 11, 0, 5),
	WHOLE(vb_switch_info, partition_cap, 14),
};

static const struct vb_field sm_info[] = {
	WHOLE(vb_sm_info, guid, 0),
	WHOLE(vb_sm_info, activity, 16),
	FIELD(vb_sm_info, priority, 20, 0, 4),
	FIELD(vb_sm_info, state, 20, 4, 4),
};

static const struct vb_field class_port_info[] = {
	WHOLE(vb_class_port_info, base_version, 0),
	WHOLE(vb_class_port_info, class_version, 1),
	WHOLE(vb_class_port_info, capability_mask, 2),
	FIELD(vb_class_port_info, response_time, 7, 3, 5),
};

#define COUNTER(path, byte) WHOLE(vb_port_counters_mad, path, byte)
static const struct vb_field port_counters[] = {
	COUNTER(port, 1),
	COUNTER(select, 2),
	COUNTER(rcv_errors, 8),
	COUNTER(xmit_discards, 14),
	COUNTER(xmit_data, 24),
	COUNTER(rcv_data, 28),
	COUNTER(xmit_packets, 32),
	COUNTER(rcv_packets, 36),
};

#define EXTENDED(path, byte) WHOLE(vb_port_counters_ext, path, byte)
static const struct vb_field port_counters_ext[] = {
	EXTENDED(port, 1),
	EXTENDED(select, 2),
	EXTENDED(xmit_data, 8),
	EXTENDED(rcv_data, 16),
	EXTENDED(xmit_packets, 24),
	EXTENDED(rcv_packets, 32),
	EXTENDED(unicast_xmit, 40),
	EXTENDED(unicast_rcv, 48),
};
/* clang-format on */

const struct vb_layout vb_node_info_layout = LAYOUT(node_info);
const struct vb_layout vb_port_info_layout = LAYOUT(port_info);
const struct vb_layout vb_switch_info_layout = LAYOUT(switch_info);
const struct vb_layout vb_sm_info_layout = LAYOUT(sm_info);
const struct vb_layout vb_class_port_info_layout = LAYOUT(class_port_info);
const struct vb_layout vb_port_counters_layout = LAYOUT(port_counters);
const struct vb_layout vb_port_counters_ext_layout = LAYOUT(port_counters_ext);

/* --- a port of a channel adapter --- */

enum {
	CHANNEL_ADAPTER = 1,
	MASTER = 3,       /* state of the subnet manager */
	DOWN_POLLING = 2, /* LinkDownDefaultState */
	GUIDS = 1,        /* of the port */
};

void vb_node_info_emit(const struct vb_mad_port *port, uint8_t *data)
{
	const struct vb_node_info info = {
		.base_version = VB_MAD_BASE_VERSION,
		.class_version = 1,
		.node_type = CHANNEL_ADAPTER,
		.port_count = 1,
		.local_port = 1,
		.system_image_guid = port->system_image_guid,
		.node_guid = port->node_guid,
		.port_guid = port->port_guid,
		.partition_cap = (uint16_t)port->pkey_count,
		.device_id = port->device_id,
		.revision = port->revision,
		.vendor_id = port->vendor_id,
	};

	vb_layout_emit(&vb_node_info_layout, &info, data);
}

void vb_port_info_emit(const struct vb_mad_port *port, uint8_t *data)
{
	const struct vb_port_info info = {
		.gid_prefix = port->subnet_prefix,
		.lid = port->lid,
		.sm_lid = port->sm_lid,
		.capability_mask = port->capability_mask,
		.local_port = 1,
		.width_enabled = port->width_supported,
		.width_supported = port->width_supported,
		.width_active = port->width,
		.speed_supported = port->speed_supported,
		.state = port->state,
		.phys_state = port->phys_state,
		.down_default = DOWN_POLLING,
		.lmc = port->lmc,
		.speed_active = port->speed,
		.speed_enabled = port->speed_supported,
		.neighbor_mtu = port->mtu,
		.sm_sl = port->sm_sl,
		.vl_cap = port->vl_capability,
		.mtu_cap = port->mtu_max,
		.operational_vls = port->vl_capability,
		.pkey_violations = port->pkey_violations,
		.qkey_violations = port->qkey_violations,
		.guid_cap = GUIDS,
		.subnet_timeout = port->subnet_timeout,
		.response_time = port->subnet_timeout,
		.capability_mask2 = port->capability_mask2,
		.speed_ext_active = port->speed_ext,
		.speed_ext_supported = port->speed_ext_supported,
		.speed_ext_enabled = port->speed_ext_supported,
	};

	vb_layout_emit(&vb_port_info_layout, &info, data);
}

void vb_sm_info_emit(const struct vb_mad_port *port, uint8_t *data)
{
	const struct vb_sm_info info = {
		.guid = port->port_guid,
		.activity = port->sm_activity,
		.state = MASTER,
	};

	vb_layout_emit(&vb_sm_info_layout, &info, data);
}

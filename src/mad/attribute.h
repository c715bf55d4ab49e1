/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of agents as values, and the place of their fields in a MAD. */
#ifndef VB_MAD_ATTRIBUTE_H
#define VB_MAD_ATTRIBUTE_H

#include <stddef.h>
#include <stdint.h>

#include "mad/port.h"
#include "wire/field.h"

struct vb_node_info {
	uint8_t base_version, class_version, node_type, port_count, local_port;
	uint64_t system_image_guid, node_guid, port_guid;
	uint16_t partition_cap, device_id;
	uint32_t revision, vendor_id;
};

struct vb_port_info {
	uint64_t m_key, gid_prefix;
	uint16_t lid, sm_lid;
	uint32_t capability_mask;
	uint8_t local_port;
	uint8_t width_enabled, width_supported, width_active;
	uint8_t speed_supported, state, phys_state, down_default;
	uint8_t lmc, speed_active, speed_enabled;
	uint8_t neighbor_mtu, sm_sl, vl_cap, mtu_cap, operational_vls;
	uint16_t pkey_violations, qkey_violations;
	uint8_t guid_cap, client_reregister, subnet_timeout, response_time;
	uint16_t capability_mask2;
	uint8_t speed_ext_active, speed_ext_supported, speed_ext_enabled;
};

struct vb_switch_info {
	uint16_t linear_fdb_cap, linear_fdb_top;
	uint8_t life_time;
	uint16_t partition_cap;
};

struct vb_sm_info {
	uint64_t guid;
	uint32_t activity;
	uint8_t priority, state;
};

struct vb_class_port_info {
	uint8_t base_version, class_version;
	uint16_t capability_mask;
	uint8_t response_time;
};

/* Counters that stay 0 here (no cable can fail, no switch enforces partitions) have no member. */
struct vb_port_counters_mad {
	uint8_t port;
	uint16_t select;
	uint16_t rcv_errors, xmit_discards;
	uint32_t xmit_data, rcv_data, xmit_packets, rcv_packets;
};

struct vb_port_counters_ext {
	uint8_t port;
	uint16_t select;
	uint64_t xmit_data, rcv_data, xmit_packets, rcv_packets, unicast_xmit, unicast_rcv;
};

struct vb_layout {
	const struct vb_field *fields;
	unsigned count;
};

extern const struct vb_layout vb_node_info_layout, vb_port_info_layout, vb_switch_info_layout,
	vb_sm_info_layout, vb_class_port_info_layout, vb_port_counters_layout,
	vb_port_counters_ext_layout;

enum { VB_NODE_INFO_SIZE = 40, VB_PORT_INFO_SIZE = 64, VB_SM_INFO_SIZE = 24 };

/* The bytes must be zero before. */
static inline void vb_layout_emit(const struct vb_layout *layout, const void *value, uint8_t *data)
{
	vb_fields_emit(layout->fields, layout->count, value, data);
}

static inline void vb_layout_parse(const struct vb_layout *layout, const uint8_t *data, void *value)
{
	vb_fields_parse(layout->fields, layout->count, data, value);
}

/* NodeInfo, PortInfo and SMInfo of a port of a channel adapter; the bytes must be zero before. */
void vb_node_info_emit(const struct vb_mad_port *port, uint8_t *data);
void vb_port_info_emit(const struct vb_mad_port *port, uint8_t *data);
void vb_sm_info_emit(const struct vb_mad_port *port, uint8_t *data);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* A port for agents, with a different value in every field that they tell. */
#ifndef VB_TESTS_UNIT_MAD_SAMPLE_PORT_H
#define VB_TESTS_UNIT_MAD_SAMPLE_PORT_H

#include <string.h>

#include "mad/agent.h"

static inline struct vb_mad_port sample_port(void)
{
	struct vb_mad_port port = {
		.system_image_guid = 0x1011121314151617,
		.node_guid = 0x2021222324252627,
		.port_guid = 0x3031323334353637,
		.subnet_prefix = 0xfe80000000000000,
		.vendor_id = 0x414243,
		.revision = 0x51525354,
		.device_id = 0x6162,
		.description = "host verbena1",
		.lid = 0x0102,
		.sm_lid = 0x0304,
		.lmc = 3,
		.sm_sl = 5,
		.capability_mask = 0x0201c822,
		.capability_mask2 = 0x7172,
		.state = 4,
		.phys_state = 5,
		.mtu = 4,
		.mtu_max = 5,
		.width = 2,
		.width_supported = 0x1f,
		.speed = 4,
		.speed_supported = 7,
		.speed_ext = 2,
		.speed_ext_supported = 0xf,
		.rate = 16,
		.vl_capability = 1,
		.subnet_timeout = 18,
		.pkey_violations = 0x8182,
		.qkey_violations = 0x9192,
		.pkeys = { 0xffff, 0x8001, [31] = 0x7fff },
		.pkey_count = 32,
		.sm_activity = 77,
		.counters = { 0x1122334455, 0x66, 0x77, 0x88, 0x12345, 9 },
	};

	return port;
}

/* A request with header alone. */
static inline void sample_request(uint8_t mad[VB_MAD_SIZE], uint8_t management_class,
				  uint8_t method, uint16_t attribute, uint32_t modifier)
{
	const struct vb_mad header = {
		.base_version = VB_MAD_BASE_VERSION,
		.management_class = management_class,
		.class_version = management_class == VB_MAD_CLASS_SUBN_ADM ? 2 : 1,
		.method = method,
		.transaction_id = 0x0123456789abcdef,
		.attribute_id = attribute,
		.attribute_modifier = modifier,
	};

	memset(mad, 0, VB_MAD_SIZE);
	vb_mad_emit(&header, mad);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* A port and its node, as agents tell about them. All in host order. */
#ifndef VB_MAD_PORT_H
#define VB_MAD_PORT_H

#include <stdint.h>

#include "base/limits.h"

enum { VB_MAD_DESCRIPTION_SIZE = 64 };

/* Since the host's processes began, or since they were cleared. Data is in words of 4 bytes. */
struct vb_mad_counters {
	uint64_t xmit_data, rcv_data, xmit_packets, rcv_packets;
	uint64_t rcv_errors, xmit_discards;
};

struct vb_mad_port {
	uint64_t system_image_guid, node_guid, port_guid;
	uint64_t subnet_prefix;
	uint32_t vendor_id, revision;
	uint16_t device_id;
	char description[VB_MAD_DESCRIPTION_SIZE]; /* not terminated if it is full */

	uint16_t lid, sm_lid;
	uint8_t lmc, sm_sl;
	uint32_t capability_mask;
	uint16_t capability_mask2;
	uint8_t state, phys_state;              /* enum ibv_port_state; IBA 14.2.5.6 */
	uint8_t mtu, mtu_max;                   /* enum ibv_mtu */
	uint8_t width, width_supported;         /* bits: 1X, 4X, 8X, 12X, 2X */
	uint8_t speed, speed_supported;         /* bits: SDR, DDR, QDR */
	uint8_t speed_ext, speed_ext_supported; /* bits: FDR, EDR, HDR, NDR */
	uint8_t rate;                           /* enum ibv_rate */
	uint8_t vl_capability;                  /* IBA: 1 is VL0 alone */
	uint8_t subnet_timeout;
	uint16_t pkey_violations, qkey_violations;
	uint16_t pkeys[VB_PKEYS_MAX];
	unsigned pkey_count; /* length of the table */

	uint32_t sm_activity; /* of the subnet manager on this host */
	struct vb_mad_counters counters;
};

#endif

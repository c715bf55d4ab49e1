/* SPDX-License-Identifier: BSD-2-Clause */
/* The performance management agent (IBA 16.1). */
#include <string.h>

#include "mad/agent.h"
#include "mad/attribute.h"

enum attribute { CLASS_PORT_INFO = 0x0001, PORT_COUNTERS = 0x0012, PORT_COUNTERS_EXT = 0x001d };

enum {
	EXTENDED_COUNTERS = 0x0200, /* capability: PortCountersExtended */
	RESPONSE_TIME = 18,         /* 4.096 us << 18: about a second */
	CLEARABLE = VB_PERF_RCV_ERRORS | VB_PERF_XMIT_DISCARDS | VB_PERF_XMIT_DATA |
		    VB_PERF_RCV_DATA | VB_PERF_XMIT_PACKETS | VB_PERF_RCV_PACKETS,
	EXT_XMIT_DATA = 1 << 0, /* bits of CounterSelect of the extended counters */
	EXT_RCV_DATA = 1 << 1,
	EXT_XMIT_PACKETS = 1 << 2,
	EXT_RCV_PACKETS = 1 << 3,
};

static void put_class_port_info(uint8_t *data)
{
	const struct vb_class_port_info info = {
		.base_version = VB_MAD_BASE_VERSION,
		.class_version = 1,
		.capability_mask = EXTENDED_COUNTERS,
		.response_time = RESPONSE_TIME,
	};

	vb_layout_emit(&vb_class_port_info_layout, &info, data);
}

/* These counters stop at their largest value (IBA 16.1.3.5). */
static uint32_t at_most(uint64_t value, uint32_t most)
{
	return value < most ? (uint32_t)value : most;
}

static void put_counters(const struct vb_mad_counters *counters, uint8_t port, uint8_t *data)
{
	const struct vb_port_counters_mad value = {
		.port = port,
		.rcv_errors = (uint16_t)at_most(counters->rcv_errors, UINT16_MAX),
		.xmit_discards = (uint16_t)at_most(counters->xmit_discards, UINT16_MAX),
		.xmit_data = at_most(counters->xmit_data, UINT32_MAX),
		.rcv_data = at_most(counters->rcv_data, UINT32_MAX),
		.xmit_packets = at_most(counters->xmit_packets, UINT32_MAX),
		.rcv_packets = at_most(counters->rcv_packets, UINT32_MAX),
	};

	vb_layout_emit(&vb_port_counters_layout, &value, data);
}

static void put_counters_ext(const struct vb_mad_counters *counters, uint8_t port, uint8_t *data)
{
	const struct vb_port_counters_ext value = {
		.port = port,
		.xmit_data = counters->xmit_data,
		.rcv_data = counters->rcv_data,
		.xmit_packets = counters->xmit_packets,
		.rcv_packets = counters->rcv_packets,
		.unicast_xmit = counters->xmit_packets,
		.unicast_rcv = counters->rcv_packets,
	};

	vb_layout_emit(&vb_port_counters_ext_layout, &value, data);
}

/* Puts the answer in the place of the request. */
static uint16_t put_attribute(const struct vb_mad_port *port, const struct vb_mad *mad,
			      uint8_t *data)
{
	const uint8_t asked = data[1];

	memset(data, 0, VB_MAD_SIZE - VB_PERF_DATA_AT);
	if (mad->attribute_id == CLASS_PORT_INFO) {
		put_class_port_info(data);
		return VB_MAD_OK;
	}
	if (mad->attribute_id != PORT_COUNTERS && mad->attribute_id != PORT_COUNTERS_EXT)
		return VB_MAD_BAD_ATTRIBUTE;
	if (asked != 1 || mad->attribute_modifier)
		return VB_MAD_BAD_VALUE;
	if (mad->attribute_id == PORT_COUNTERS)
		put_counters(&port->counters, asked, data);
	else
		put_counters_ext(&port->counters, asked, data);
	return VB_MAD_OK;
}

uint16_t vb_perf_get(const struct vb_mad_port *port, const struct vb_mad *mad, uint8_t *data)
{
	return put_attribute(port, mad, data);
}

static uint16_t selected(const struct vb_mad *mad, const uint8_t *data)
{
	struct vb_port_counters_mad value = { 0 };
	uint16_t clear = 0;

	vb_layout_parse(&vb_port_counters_layout, data, &value);
	if (mad->attribute_id == PORT_COUNTERS)
		return value.select & CLEARABLE;
	if (value.select & EXT_XMIT_DATA)
		clear |= VB_PERF_XMIT_DATA;
	if (value.select & EXT_RCV_DATA)
		clear |= VB_PERF_RCV_DATA;
	if (value.select & EXT_XMIT_PACKETS)
		clear |= VB_PERF_XMIT_PACKETS;
	if (value.select & EXT_RCV_PACKETS)
		clear |= VB_PERF_RCV_PACKETS;
	return clear;
}

uint16_t vb_perf_set(const struct vb_mad_port *port, const struct vb_mad *mad, uint8_t *data,
		     uint16_t *clear)
{
	const uint16_t asked = selected(mad, data);
	uint16_t status;

	if (mad->attribute_id == CLASS_PORT_INFO)
		return VB_MAD_BAD_ATTRIBUTE;
	status = put_attribute(port, mad, data);
	if (status == VB_MAD_OK)
		*clear = asked;
	return status;
}

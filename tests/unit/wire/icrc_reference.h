/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ICRC as annex A17 of the IBA describes it and nothing clever: all headers written out, ones
 * in the fields that routers change, one bit at a time.
 */
#ifndef VB_TESTS_UNIT_WIRE_ICRC_REFERENCE_H
#define VB_TESTS_UNIT_WIRE_ICRC_REFERENCE_H

#include <string.h>

#include "wire/icrc.h"

static inline uint32_t reference_crc(uint32_t state, const uint8_t *at, size_t length)
{
	for (size_t i = 0; i < 8 * length; i++) {
		unsigned bit = (at[i / 8] >> i % 8 & 1u) ^ (state & 1);

		state = state >> 1 ^ (bit ? 0xedb88320u : 0);
	}
	return state;
}

static inline size_t reference_ipv4(const struct vb_icrc_flow *flow, uint16_t id, uint16_t flags,
				    size_t udp_length, uint8_t *out)
{
	size_t total = 20 + udp_length;
	uint8_t header[20] = { 0x45,
			       0xff,
			       (uint8_t)(total >> 8),
			       (uint8_t)total,
			       (uint8_t)(id >> 8),
			       (uint8_t)id,
			       (uint8_t)(flags >> 8),
			       (uint8_t)flags,
			       0xff,
			       17,
			       0xff,
			       0xff };

	memcpy(header + 12, flow->src, 4);
	memcpy(header + 16, flow->dst, 4);
	memcpy(out, header, sizeof(header));
	return sizeof(header);
}

static inline size_t reference_ipv6(const struct vb_icrc_flow *flow, size_t udp_length,
				    uint8_t *out)
{
	uint8_t header[40] = {
		0x6f, 0xff, 0xff, 0xff, (uint8_t)(udp_length >> 8), (uint8_t)udp_length, 17, 0xff
	};

	memcpy(header + 8, flow->src, 16);
	memcpy(header + 24, flow->dst, 16);
	memcpy(out, header, sizeof(header));
	return sizeof(header);
}

/* flags: of IPv4, fragment offset included; 0x4000 is DF. length counts BTH and what follows. */
static inline uint32_t reference_icrc(const struct vb_icrc_flow *flow, uint16_t id, uint16_t flags,
				      const uint8_t *packet, size_t length)
{
	size_t udp_length = 8 + length + 4, at = 8;
	uint8_t headers[8 + 40 + 8 + 12];
	uint32_t state;

	memset(headers, 0xff, 8);
	at += flow->ipv6 ? reference_ipv6(flow, udp_length, headers + at)
			 : reference_ipv4(flow, id, flags, udp_length, headers + at);
	headers[at++] = (uint8_t)(flow->src_port >> 8);
	headers[at++] = (uint8_t)flow->src_port;
	headers[at++] = (uint8_t)(flow->dst_port >> 8);
	headers[at++] = (uint8_t)flow->dst_port;
	headers[at++] = (uint8_t)(udp_length >> 8);
	headers[at++] = (uint8_t)udp_length;
	memset(headers + at, 0xff, 2);
	memcpy(headers + at + 2, packet, 12);
	headers[at + 2 + 4] = 0xff;
	state = reference_crc(0xffffffff, headers, at + 2 + 12);
	return ~reference_crc(state, packet + 12, length - 12);
}

#endif

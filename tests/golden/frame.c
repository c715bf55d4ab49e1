/* SPDX-License-Identifier: BSD-2-Clause */
#include "frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "wire/bytes.h"

enum {
	ETHERNET_LENGTH = 14,
	TYPE_IPV4 = 0x0800,
	TYPE_IPV6 = 0x86dd,
	IPV4_LENGTH = 20,
	IPV6_LENGTH = 40,
	UDP_LENGTH = 8,
	PROTOCOL_UDP = 17,
	DONT_FRAGMENT = 0x4000,
};

static int parse_udp(const uint8_t *at, size_t length, struct frame *frame)
{
	if (length < UDP_LENGTH || vb_get16(at + 4) != length)
		return -EPROTO;
	frame->flow.src_port = vb_get16(at);
	frame->flow.dst_port = vb_get16(at + 2);
	frame->packet = at + UDP_LENGTH;
	frame->length = length - UDP_LENGTH;
	vb_icrc_flow_init(&frame->flow);
	return 0;
}

static int parse_ipv4(const uint8_t *at, size_t length, struct frame *frame)
{
	if (length < IPV4_LENGTH || at[0] != 0x45 || at[9] != PROTOCOL_UDP)
		return -EPROTO;
	if (vb_get16(at + 2) != length || vb_get16(at + 6) != DONT_FRAGMENT)
		return -EPROTO;
	frame->id = vb_get16(at + 4);
	memcpy(frame->flow.src, at + 12, 4);
	memcpy(frame->flow.dst, at + 16, 4);
	return parse_udp(at + IPV4_LENGTH, length - IPV4_LENGTH, frame);
}

static int parse_ipv6(const uint8_t *at, size_t length, struct frame *frame)
{
	if (length < IPV6_LENGTH || at[0] >> 4 != 6 || at[6] != PROTOCOL_UDP)
		return -EPROTO;
	if (vb_get16(at + 4) != length - IPV6_LENGTH)
		return -EPROTO;
	frame->flow.ipv6 = true;
	memcpy(frame->flow.src, at + 8, 16);
	memcpy(frame->flow.dst, at + 24, 16);
	return parse_udp(at + IPV6_LENGTH, length - IPV6_LENGTH, frame);
}

int frame_parse(const uint8_t *bytes, size_t length, struct frame *frame)
{
	unsigned type;

	memset(frame, 0, sizeof(*frame));
	if (length < ETHERNET_LENGTH)
		return -EPROTO;
	type = vb_get16(bytes + 12);
	bytes += ETHERNET_LENGTH;
	length -= ETHERNET_LENGTH;
	if (type == TYPE_IPV4)
		return parse_ipv4(bytes, length, frame);
	if (type == TYPE_IPV6)
		return parse_ipv6(bytes, length, frame);
	return -EPROTO;
}

const char *frame_print(const struct frame *frame, char *out, size_t size)
{
	const struct vb_icrc_flow *flow = &frame->flow;
	char src[INET6_ADDRSTRLEN], dst[INET6_ADDRSTRLEN];
	int family = flow->ipv6 ? AF_INET6 : AF_INET;

	inet_ntop(family, flow->src, src, sizeof(src));
	inet_ntop(family, flow->dst, dst, sizeof(dst));
	if (flow->ipv6)
		snprintf(out, size, "[%s]:%u > [%s]:%u", src, flow->src_port, dst, flow->dst_port);
	else
		snprintf(out, size, "%s:%u > %s:%u id %u", src, flow->src_port, dst, flow->dst_port,
			 frame->id);
	return out;
}

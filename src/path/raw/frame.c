/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/raw/frame.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

enum {
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_IPV6 = 0x86dd,
	ETHERTYPE_VLAN = 0x8100,
	ETHERTYPE_QINQ = 0x88a8,
	IPV4_HEADER = 20,
	IPV6_HEADER = 40,
	TCP_HEADER = 20,
	UDP_HEADER = 8,
	EXTENSIONS_MAX = 8,
};

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static bool frame_has(const struct vb_frame *frame, uint32_t offset, uint32_t size)
{
	return offset <= frame->length && size <= frame->length - offset;
}

/* Reads the ports, if the transport header is complete. */
static void parse_l4(struct vb_frame *frame)
{
	struct vb_flow_key *key = &frame->headers.key;
	uint32_t size = key->protocol == IPPROTO_TCP   ? TCP_HEADER
			: key->protocol == IPPROTO_UDP ? UDP_HEADER
						       : 0;

	if (!size || !frame_has(frame, frame->l4, size) || frame->l4 + size > frame->l3_end)
		return;
	key->l4 = key->protocol;
	memcpy(&key->src_port, frame->at + frame->l4, 2);
	memcpy(&key->dst_port, frame->at + frame->l4 + 2, 2);
}

static void parse_ipv4(struct vb_frame *frame)
{
	struct vb_flow_key *key = &frame->headers.key;
	const uint8_t *ip = frame->at + frame->l3;
	uint32_t header;
	uint16_t fragment;

	if (!frame_has(frame, frame->l3, IPV4_HEADER) || ip[0] >> 4 != 4)
		return;
	header = (ip[0] & 15u) * 4;
	if (header < IPV4_HEADER || !frame_has(frame, frame->l3, header) || get16(ip + 2) < header)
		return;
	key->l3 = 4;
	key->tos = ip[1];
	key->ttl = ip[8];
	key->protocol = ip[9];
	memcpy(key->src_ip, ip + 12, 4);
	memcpy(key->dst_ip, ip + 16, 4);
	fragment = get16(ip + 6);
	key->ip_flags = (uint8_t)((fragment & 0x4000 ? VB_IP_DONT_FRAGMENT : 0) |
				  (fragment & 0x2000 ? VB_IP_MORE_FRAGMENTS : 0));
	frame->l4 = frame->l3 + header;
	frame->l3_end = frame->l3 + get16(ip + 2);
	if (!(fragment & 0x1fff))
		parse_l4(frame);
}

/* Skips extension headers; false: no transport header follows (a later fragment, or damage). */
static bool skip_extensions(struct vb_frame *frame)
{
	struct vb_flow_key *key = &frame->headers.key;

	for (unsigned i = 0; i < EXTENSIONS_MAX; i++) {
		const uint8_t *at = frame->at + frame->l4;
		bool fragment = key->protocol == IPPROTO_FRAGMENT;

		if (!fragment && key->protocol != IPPROTO_HOPOPTS &&
		    key->protocol != IPPROTO_ROUTING && key->protocol != IPPROTO_DSTOPTS)
			return true;
		if (!frame_has(frame, frame->l4, 8))
			return false;
		key->protocol = at[0];
		frame->l4 += fragment ? 8 : (at[1] + 1u) * 8;
		if (fragment && get16(at + 2) & 0xfff8)
			return false;
	}
	return false;
}

static void parse_ipv6(struct vb_frame *frame)
{
	struct vb_flow_key *key = &frame->headers.key;
	const uint8_t *ip = frame->at + frame->l3;
	uint32_t first;

	if (!frame_has(frame, frame->l3, IPV6_HEADER) || ip[0] >> 4 != 6)
		return;
	memcpy(&first, ip, 4);
	key->l3 = 6;
	key->flow_label = first & htonl(0xfffff);
	key->tos = (uint8_t)(ntohl(first) >> 20);
	key->protocol = ip[6];
	key->ttl = ip[7];
	memcpy(key->src_ip, ip + 8, 16);
	memcpy(key->dst_ip, ip + 24, 16);
	frame->l4 = frame->l3 + IPV6_HEADER;
	frame->l3_end = frame->l4 + get16(ip + 4);
	if (skip_extensions(frame))
		parse_l4(frame);
}

static bool is_tag(uint16_t type)
{
	return type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ;
}

bool vb_frame_parse(struct vb_frame *frame, uint8_t *at, uint32_t length)
{
	struct vb_flow_key *key = &frame->headers.key;
	uint32_t offset = VB_FRAME_MIN;

	*frame = (struct vb_frame){ .at = at, .length = length };
	if (length < VB_FRAME_MIN)
		return false;
	memcpy(key->dst_mac, at, 6);
	memcpy(key->src_mac, at + 6, 6);
	while (is_tag(get16(at + offset - 2)) && frame_has(frame, offset, VB_VLAN_TAG)) {
		if (!key->tagged)
			memcpy(&key->vlan_tag, at + offset, 2);
		key->tagged = 0xff;
		offset += VB_VLAN_TAG;
	}
	memcpy(&key->ether_type, at + offset - 2, 2);
	frame->l3 = offset;
	if (key->ether_type == htons(ETHERTYPE_IPV4))
		parse_ipv4(frame);
	else if (key->ether_type == htons(ETHERTYPE_IPV6))
		parse_ipv6(frame);
	return true;
}

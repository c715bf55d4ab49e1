/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet, IP and UDP in front of a packet, as a host would write them on its loopback. */
#include <string.h>

#include "capture/frame.h"

enum {
	ETHERNET = 14,
	IPV4 = 20,
	IPV6 = 40,
	UDP = 8,
	TYPE_IPV4 = 0x0800,
	TYPE_IPV6 = 0x86dd,
	PROTOCOL_UDP = 17,
	DONT_FRAGMENT = 0x4000,
	HOPS = 64, /* of a route that names none */
};

static bool is_ipv4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid, mapped, sizeof(mapped));
}

/* A multicast GID of an IPv4 group: ff0e::ffff:a.b.c.d, with any scope. */
static bool is_ipv4_group(const uint8_t gid[16])
{
	static const uint8_t middle[8] = { 0 };

	return gid[0] == 0xff && !memcmp(gid + 2, middle, sizeof(middle)) && gid[10] == 0xff &&
	       gid[11] == 0xff;
}

void vb_capture_route(struct vb_capture_route *route, const uint8_t src[16], const uint8_t dst[16])
{
	*route = (struct vb_capture_route){ 0 };
	route->flow.ipv6 = !is_ipv4(src) || !(is_ipv4(dst) || is_ipv4_group(dst));
	route->flow.dst_port = VB_UDP_PORT_ROCE;
	if (route->flow.ipv6) {
		memcpy(route->flow.src, src, 16);
		memcpy(route->flow.dst, dst, 16);
	} else {
		memcpy(route->flow.src, src + 12, 4);
		memcpy(route->flow.dst, dst + 12, 4);
	}
}

uint32_t vb_capture_headers(const struct vb_capture_route *route)
{
	return ETHERNET + (route->flow.ipv6 ? IPV6 : IPV4) + UDP;
}

/* The sum of 16-bit words, to which more may be added. */
static uint32_t words_sum(const uint8_t *bytes, uint32_t length)
{
	uint32_t sum = 0;

	for (; length > 1; bytes += 2, length -= 2)
		sum += vb_get16(bytes);
	return sum + (length ? (uint32_t)bytes[0] << 8 : 0);
}

static uint16_t checksum_of(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void ipv4_put(const struct vb_capture_route *route, uint8_t *at, uint32_t length)
{
	memset(at, 0, IPV4);
	at[0] = 0x45;
	at[1] = route->traffic_class;
	vb_put16(at + 2, IPV4 + UDP + length);
	vb_put16(at + 4, route->id);
	vb_put16(at + 6, DONT_FRAGMENT);
	at[8] = route->hop_limit ? route->hop_limit : HOPS;
	at[9] = PROTOCOL_UDP;
	memcpy(at + 12, route->flow.src, 4);
	memcpy(at + 16, route->flow.dst, 4);
	vb_put16(at + 10, checksum_of(words_sum(at, IPV4)));
}

static void ipv6_put(const struct vb_capture_route *route, uint8_t *at, uint32_t length)
{
	vb_put32(at, 6u << 28 | (uint32_t)route->traffic_class << 20);
	vb_put16(at + 4, UDP + length);
	at[6] = PROTOCOL_UDP;
	at[7] = route->hop_limit ? route->hop_limit : HOPS;
	memcpy(at + 8, route->flow.src, 16);
	memcpy(at + 24, route->flow.dst, 16);
}

/* IPv6 demands a checksum. The addresses stand right in front. */
static uint16_t udp_checksum(const uint8_t *udp, uint32_t length)
{
	uint16_t sum = checksum_of(words_sum(udp - 32, 32) + UDP + length + PROTOCOL_UDP +
				   words_sum(udp, UDP + length));
	return sum ? sum : 0xffff;
}

void vb_capture_headers_put(const struct vb_capture_route *route, uint8_t *frame, uint32_t length)
{
	const bool ipv6 = route->flow.ipv6;
	uint8_t *ip = frame + ETHERNET, *udp = ip + (ipv6 ? IPV6 : IPV4);

	memset(frame, 0, ETHERNET - 2);
	vb_put16(frame + ETHERNET - 2, ipv6 ? TYPE_IPV6 : TYPE_IPV4);
	(ipv6 ? ipv6_put : ipv4_put)(route, ip, length);
	vb_put16(udp, route->flow.src_port);
	vb_put16(udp + 2, route->flow.dst_port);
	vb_put16(udp + 4, UDP + length);
	vb_put16(udp + 6, 0);
	if (ipv6)
		vb_put16(udp + 6, udp_checksum(udp, length));
}

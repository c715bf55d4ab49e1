/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/grh.h"

#include <errno.h>
#include <string.h>

enum { NEXT_HEADER_UDP = 17, NEXT_HEADER_IBA = 0x1b, IPV4_SIZE = 20, IPV4_DONT_FRAGMENT = 0x40 };

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static void put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static unsigned internet_checksum(const uint8_t *at, unsigned size)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < size; i += 2)
		sum += (unsigned)at[i] << 8 | at[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

static void emit_ipv4(const struct vb_grh *grh, uint8_t *out)
{
	uint8_t *ip = out + VB_GRH_SIZE - IPV4_SIZE;

	ip[0] = 0x45;
	ip[1] = grh->traffic_class;
	put16(ip + 2, IPV4_SIZE + grh->payload_length);
	ip[6] = IPV4_DONT_FRAGMENT;
	ip[8] = grh->hop_limit;
	ip[9] = NEXT_HEADER_UDP;
	memcpy(ip + 12, grh->sgid.raw + 12, 4);
	memcpy(ip + 16, grh->dgid.raw + 12, 4);
	put16(ip + 10, internet_checksum(ip, IPV4_SIZE));
}

static void emit_ipv6(const struct vb_grh *grh, uint8_t *out)
{
	uint32_t first =
		6u << 28 | (uint32_t)grh->traffic_class << 20 | (grh->flow_label & 0xfffff);

	put16(out, first >> 16);
	put16(out + 2, first & 0xffff);
	put16(out + 4, grh->payload_length);
	out[6] = grh->infiniband ? NEXT_HEADER_IBA : NEXT_HEADER_UDP;
	out[7] = grh->hop_limit;
	memcpy(out + 8, grh->sgid.raw, 16);
	memcpy(out + 24, grh->dgid.raw, 16);
}

void vb_grh_emit(const struct vb_grh *grh, uint8_t out[VB_GRH_SIZE])
{
	memset(out, 0, VB_GRH_SIZE);
	if (is_ipv4(&grh->dgid))
		emit_ipv4(grh, out);
	else
		emit_ipv6(grh, out);
}

static void map_ipv4(const uint8_t *address, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, address, 4);
}

static unsigned get16(const uint8_t *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

static void parse_ipv4(const uint8_t *ip, struct vb_grh *grh)
{
	map_ipv4(ip + 12, &grh->sgid);
	map_ipv4(ip + 16, &grh->dgid);
	grh->traffic_class = ip[1];
	grh->hop_limit = ip[8];
	grh->payload_length = (uint16_t)(get16(ip + 2) - IPV4_SIZE);
}

static void parse_ipv6(const uint8_t *in, struct vb_grh *grh)
{
	uint32_t first = get16(in) << 16 | get16(in + 2);

	grh->traffic_class = (uint8_t)(first >> 20);
	grh->flow_label = first & 0xfffff;
	grh->payload_length = (uint16_t)get16(in + 4);
	grh->infiniband = in[6] == NEXT_HEADER_IBA;
	grh->hop_limit = in[7];
	memcpy(grh->sgid.raw, in + 8, 16);
	memcpy(grh->dgid.raw, in + 24, 16);
}

int vb_grh_parse(const uint8_t in[VB_GRH_SIZE], struct vb_grh *grh)
{
	const uint8_t *ip = in + VB_GRH_SIZE - IPV4_SIZE;

	memset(grh, 0, sizeof(*grh));
	if (in[0] >> 4 == 6)
		parse_ipv6(in, grh);
	else if (ip[0] == 0x45 && get16(ip + 2) >= IPV4_SIZE && !internet_checksum(ip, IPV4_SIZE))
		parse_ipv4(ip, grh);
	else
		return -EINVAL;
	return 0;
}

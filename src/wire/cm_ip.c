/* SPDX-License-Identifier: BSD-2-Clause */
/* The header in front of a REQ's private data with the IP addresses of both sides. */
#include <errno.h>
#include <string.h>

#include "wire/bytes.h"
#include "wire/cm.h"

/* Version of the header, version of IP, source port, two addresses of 16 bytes. */
enum { VERSION = 0, IP_VERSION = 1, SRC_PORT = 2, SRC = 4, DST = 20 };
/* An IPv4 address lies in the last 4 bytes of 16. */
enum { IPV4_OFFSET = 12 };

static const uint8_t mapped_prefix[IPV4_OFFSET] = { [10] = 0xff, [11] = 0xff };

static void address_parse(const uint8_t *bytes, bool ipv6, union ibv_gid *gid)
{
	memcpy(gid->raw, bytes, sizeof(gid->raw));
	if (!ipv6)
		memcpy(gid->raw, mapped_prefix, sizeof(mapped_prefix));
}

static void address_emit(const union ibv_gid *gid, bool ipv6, uint8_t *bytes)
{
	memcpy(bytes, gid->raw, sizeof(gid->raw));
	if (!ipv6)
		memset(bytes, 0, IPV4_OFFSET);
}

int vb_cm_ip_parse(const uint8_t bytes[VB_CM_IP_SIZE], struct vb_cm_ip *ip)
{
	unsigned version = bytes[IP_VERSION] >> 4;

	if (bytes[VERSION] || (version != 4 && version != 6))
		return -EPROTO;
	ip->ipv6 = version == 6;
	ip->src_port = vb_get16(bytes + SRC_PORT);
	address_parse(bytes + SRC, ip->ipv6, &ip->src);
	address_parse(bytes + DST, ip->ipv6, &ip->dst);
	return 0;
}

void vb_cm_ip_emit(const struct vb_cm_ip *ip, uint8_t bytes[VB_CM_IP_SIZE])
{
	bytes[VERSION] = 0;
	bytes[IP_VERSION] = ip->ipv6 ? 6 << 4 : 4 << 4;
	vb_put16(bytes + SRC_PORT, ip->src_port);
	address_emit(&ip->src, ip->ipv6, bytes + SRC);
	address_emit(&ip->dst, ip->ipv6, bytes + DST);
}

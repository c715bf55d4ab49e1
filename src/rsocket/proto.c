/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/proto.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { FLAG_BIG_ENDIAN = 1 << 0, FLAG_IOMAP = 1 << 1 };

/* The private data, in network order. */
struct conn_bytes {
	uint8_t version, flags;
	uint8_t credits[2];
	uint8_t reserved[3];
	uint8_t iomap_scaled;
	uint8_t sgl[VB_RS_SGE_SIZE];
	uint8_t data[VB_RS_SGE_SIZE];
};
_Static_assert(sizeof(struct conn_bytes) == VB_RS_CONN_SIZE, "private data");

bool vb_rs_host_big_endian(void)
{
	return __BYTE_ORDER == __BIG_ENDIAN;
}

static uint64_t load(const uint8_t *bytes, unsigned size, bool big_endian)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < size; i++)
		value = value << 8 | bytes[big_endian ? i : size - 1 - i];
	return value;
}

static void store(uint8_t *bytes, unsigned size, bool big_endian, uint64_t value)
{
	for (unsigned i = 0; i < size; i++)
		bytes[big_endian ? size - 1 - i : i] = (uint8_t)(value >> (8 * i));
}

void vb_rs_sge_parse(const uint8_t bytes[VB_RS_SGE_SIZE], bool big_endian, struct vb_rs_sge *sge)
{
	sge->addr = load(bytes, 8, big_endian);
	sge->key = (uint32_t)load(bytes + 8, 4, big_endian);
	sge->length = (uint32_t)load(bytes + 12, 4, big_endian);
}

void vb_rs_sge_emit(const struct vb_rs_sge *sge, bool big_endian, uint8_t bytes[VB_RS_SGE_SIZE])
{
	store(bytes, 8, big_endian, sge->addr);
	store(bytes + 8, 4, big_endian, sge->key);
	store(bytes + 12, 4, big_endian, sge->length);
}

void vb_rs_iomap_parse(const uint8_t bytes[VB_RS_IOMAP_SIZE], bool big_endian,
		       struct vb_rs_iomap *iomap)
{
	iomap->offset = load(bytes, 8, big_endian);
	vb_rs_sge_parse(bytes + 8, big_endian, &iomap->sge);
}

void vb_rs_iomap_emit(const struct vb_rs_iomap *iomap, bool big_endian,
		      uint8_t bytes[VB_RS_IOMAP_SIZE])
{
	store(bytes, 8, big_endian, iomap->offset);
	vb_rs_sge_emit(&iomap->sge, big_endian, bytes + 8);
}

int vb_rs_conn_parse(const void *bytes, size_t size, struct vb_rs_conn *conn)
{
	struct conn_bytes raw;

	if (!bytes || size < sizeof(raw))
		return -EPROTO;
	memcpy(&raw, bytes, sizeof(raw));
	if (raw.version != VB_RS_VERSION)
		return -EPROTO;
	conn->big_endian = raw.flags & FLAG_BIG_ENDIAN;
	conn->credits = (uint16_t)load(raw.credits, 2, true);
	conn->iomap_count = raw.flags & FLAG_IOMAP ? vb_rs_unscale(raw.iomap_scaled) : 0;
	vb_rs_sge_parse(raw.sgl, true, &conn->sgl);
	vb_rs_sge_parse(raw.data, true, &conn->data);
	/* A stream needs all three to send at all. */
	return conn->sgl.length && conn->credits && conn->data.length ? 0 : -EPROTO;
}

void vb_rs_conn_emit(const struct vb_rs_conn *conn, uint8_t bytes[VB_RS_CONN_SIZE])
{
	struct conn_bytes raw = { .version = VB_RS_VERSION, .flags = FLAG_IOMAP };

	if (conn->big_endian)
		raw.flags |= FLAG_BIG_ENDIAN;
	store(raw.credits, 2, true, conn->credits);
	raw.iomap_scaled = vb_rs_scale(conn->iomap_count);
	vb_rs_sge_emit(&conn->sgl, true, raw.sgl);
	vb_rs_sge_emit(&conn->data, true, raw.data);
	memcpy(bytes, &raw, sizeof(raw));
}

uint8_t vb_rs_scale(unsigned value)
{
	if (value <= 128)
		return (uint8_t)value;
	/* 128 + n means n * 256, but 128 itself means 128. */
	value = (value + 255) / 256;
	return (uint8_t)(128 + (value > 127 ? 127 : value));
}

unsigned vb_rs_unscale(uint8_t scaled)
{
	return scaled <= 128 ? scaled : (unsigned)(scaled & 127) << 8;
}

enum { UDP_TAG = 0x55555555, UDP_IPV4 = 16, UDP_IPV6 = 28, UD_IPV4 = 8, UD_IPV6 = 24 };

int vb_rs_udp_parse(const uint8_t *bytes, size_t size, struct vb_rs_udp *header)
{
	size_t length;

	if (size < UDP_IPV4 || load(bytes, 4, true) != UDP_TAG)
		return -EPROTO;
	header->ipv6 = bytes[4] == 6;
	header->op = bytes[5];
	length = header->ipv6 ? UDP_IPV6 : UDP_IPV4;
	if ((bytes[4] != 4 && bytes[4] != 6) || bytes[6] != length || size < length)
		return -EPROTO;
	if (header->op != VB_RS_DATA && header->op != VB_RS_CONTROL)
		return -EPROTO;
	header->qpn = (uint32_t)load(bytes + 8, 3, true);
	memset(header->addr, 0, sizeof(header->addr));
	memcpy(header->addr, bytes + 12, length - 12);
	return (int)length;
}

size_t vb_rs_udp_emit(const struct vb_rs_udp *header, uint8_t bytes[VB_RS_UDP_MAX])
{
	const size_t length = header->ipv6 ? UDP_IPV6 : UDP_IPV4;

	store(bytes, 4, true, UDP_TAG);
	bytes[4] = header->ipv6 ? 6 : 4;
	bytes[5] = header->op;
	bytes[6] = (uint8_t)length;
	bytes[7] = 0;
	store(bytes + 8, 4, true, (uint64_t)header->qpn << 8);
	memcpy(bytes + 12, header->addr, length - 12);
	return length;
}

int vb_rs_ud_parse(const uint8_t *bytes, size_t size, struct vb_rs_ud *header)
{
	size_t length;

	if (size < UD_IPV4)
		return -EPROTO;
	header->ipv6 = bytes[0] == 6;
	length = header->ipv6 ? UD_IPV6 : UD_IPV4;
	if ((bytes[0] != 4 && bytes[0] != 6) || bytes[1] != length || size < length)
		return -EPROTO;
	header->port = (uint16_t)load(bytes + 2, 2, true);
	memset(header->addr, 0, sizeof(header->addr));
	/* Four bytes of flow information precede an IPv6 address. */
	memcpy(header->addr, bytes + (header->ipv6 ? 8 : 4), header->ipv6 ? 16 : 4);
	return (int)length;
}

size_t vb_rs_ud_emit(const struct vb_rs_ud *header, uint8_t bytes[VB_RS_UD_MAX])
{
	const size_t length = header->ipv6 ? UD_IPV6 : UD_IPV4;

	memset(bytes, 0, length);
	bytes[0] = header->ipv6 ? 6 : 4;
	bytes[1] = (uint8_t)length;
	store(bytes + 2, 2, true, header->port);
	memcpy(bytes + (header->ipv6 ? 8 : 4), header->addr, header->ipv6 ? 16 : 4);
	return length;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/packet.h"

#include <string.h>

#include "wire/bytes.h"

/* Bits of the BTH: byte 1, byte 4 and byte 8. */
enum {
	SOLICITED = 0x80,
	MIGREQ = 0x40,
	PAD_SHIFT = 4,
	PAD_MASK = 3,
	VERSION_MASK = 0x0f,
	FECN = 0x80,
	BECN = 0x40,
	RESERVED_4 = 0x3f,
	ACK_REQUEST = 0x80,
	RESERVED_8 = 0x7f,
};

/* Flush: two bits of selectivity above four of placement type. */
enum { FLUSH_BITS = 0x3f };
enum { SYNDROME_RESERVED = 0x80, SYNDROME_KIND_RESERVED = 0x40 };

const char *vb_packet_flaw_name(enum vb_packet_flaw flaw)
{
	static const char *const names[VB_PACKET_FLAWS] = {
		[VB_PACKET_OK] = "ok",
		[VB_PACKET_TRUNCATED] = "truncated",
		[VB_PACKET_OVERSIZED] = "oversized",
		[VB_PACKET_UNKNOWN] = "unknown opcode",
		[VB_PACKET_VERSION] = "unknown version",
		[VB_PACKET_SYNDROME] = "reserved syndrome",
		[VB_PACKET_UNALIGNED] = "unaligned",
	};

	return (unsigned)flaw < VB_PACKET_FLAWS ? names[flaw] : "unknown flaw";
}

static void parse_bth(const uint8_t *at, struct vb_packet *packet)
{
	packet->opcode = at[0];
	packet->solicited = at[1] & SOLICITED;
	packet->migreq = at[1] & MIGREQ;
	packet->pad = at[1] >> PAD_SHIFT & PAD_MASK;
	packet->version = at[1] & VERSION_MASK;
	packet->pkey = vb_get16(at + 2);
	packet->fecn = at[4] & FECN;
	packet->becn = at[4] & BECN;
	packet->dest_qpn = vb_packet_dest_qpn(at);
	packet->ack_request = at[8] & ACK_REQUEST;
	packet->psn = vb_get24(at + 9);
}

static void emit_bth(const struct vb_packet *packet, uint8_t *at)
{
	unsigned pad = -packet->payload_length & PAD_MASK;

	at[0] = packet->opcode;
	at[1] = (uint8_t)((packet->solicited ? SOLICITED : 0) | (packet->migreq ? MIGREQ : 0) |
			  pad << PAD_SHIFT | (packet->version & VERSION_MASK));
	vb_put16(at + 2, packet->pkey);
	at[4] = (uint8_t)((packet->fecn ? FECN : 0) | (packet->becn ? BECN : 0));
	vb_put24(at + 5, packet->dest_qpn);
	at[8] = packet->ack_request ? ACK_REQUEST : 0;
	vb_put24(at + 9, packet->psn);
}

static const uint8_t *parse_reth(const uint8_t *at, struct vb_packet *packet)
{
	packet->va = vb_get64(at);
	packet->rkey = vb_get32(at + 8);
	packet->dma_length = vb_get32(at + 12);
	return at + VB_RETH_LENGTH;
}

static uint8_t *emit_reth(const struct vb_packet *packet, uint8_t *at)
{
	vb_put64(at, packet->va);
	vb_put32(at + 8, packet->rkey);
	vb_put32(at + 12, packet->dma_length);
	return at + VB_RETH_LENGTH;
}

static const uint8_t *parse_atomic_eth(const uint8_t *at, struct vb_packet *packet)
{
	packet->va = vb_get64(at);
	packet->rkey = vb_get32(at + 8);
	packet->swap_add = vb_get64(at + 12);
	packet->compare = vb_get64(at + 20);
	return at + VB_ATOMIC_ETH_LENGTH;
}

static uint8_t *emit_atomic_eth(const struct vb_packet *packet, uint8_t *at)
{
	vb_put64(at, packet->va);
	vb_put32(at + 8, packet->rkey);
	vb_put64(at + 12, packet->swap_add);
	vb_put64(at + 20, packet->compare);
	return at + VB_ATOMIC_ETH_LENGTH;
}

/* Returns the reserved bits of the byte in front of the QPN that are set and have no meaning. */
static uint8_t parse_deth(const uint8_t *at, struct vb_packet *packet)
{
	packet->qkey = vb_get32(at);
	packet->src_qpn = vb_get24(at + 5);
	packet->link = at[4] & (VB_LINK_SL | VB_LINK_GRH);
	return at[4] & (uint8_t)(~(VB_LINK_SL | VB_LINK_GRH));
}

static uint8_t *emit_deth(const struct vb_packet *packet, uint8_t *at)
{
	vb_put32(at, packet->qkey);
	at[4] = packet->link;
	vb_put24(at + 5, packet->src_qpn);
	return at + VB_DETH_LENGTH;
}

static uint8_t parse_xrceth(const uint8_t *at, struct vb_packet *packet)
{
	packet->srqn = vb_get24(at + 1);
	return at[0];
}

static uint8_t *emit_xrceth(const struct vb_packet *packet, uint8_t *at)
{
	vb_put32(at, packet->srqn & VB_QPN_MASK);
	return at + VB_XRCETH_LENGTH;
}

static bool syndrome_reserved(uint8_t syndrome)
{
	unsigned kind = syndrome & VB_SYNDROME_KIND;

	return syndrome & SYNDROME_RESERVED || kind == SYNDROME_KIND_RESERVED ||
	       (kind == VB_SYNDROME_NAK && syndrome > VB_NAK_INVALID_RD);
}

static const uint8_t *parse_aeth(const uint8_t *at, struct vb_packet *packet)
{
	packet->syndrome = at[0];
	packet->msn = vb_get24(at + 1);
	return at + VB_AETH_LENGTH;
}

static uint8_t *emit_aeth(const struct vb_packet *packet, uint8_t *at)
{
	at[0] = packet->syndrome;
	vb_put24(at + 1, packet->msn);
	return at + VB_AETH_LENGTH;
}

static uint32_t any_byte_set(const uint8_t *at, size_t length)
{
	uint8_t any = 0;

	for (size_t i = 0; i < length; i++)
		any |= at[i];
	return any;
}

/* The first extended headers, which have reserved bits: returns those that are set. */
static uint32_t parse_leading(const uint8_t **at, unsigned headers, struct vb_packet *packet)
{
	uint32_t reserved = 0;

	if (headers & VB_HEADER_XRCETH) {
		reserved |= parse_xrceth(*at, packet);
		*at += VB_XRCETH_LENGTH;
	}
	if (headers & VB_HEADER_DETH) {
		reserved |= parse_deth(*at, packet);
		*at += VB_DETH_LENGTH;
	}
	if (headers & VB_HEADER_FETH) {
		packet->flush = vb_get32(*at) & FLUSH_BITS;
		reserved |= vb_get32(*at) & ~(uint32_t)FLUSH_BITS;
		*at += VB_FETH_LENGTH;
	}
	if (headers & VB_HEADER_CNP) {
		reserved |= any_byte_set(*at, VB_CNP_LENGTH);
		*at += VB_CNP_LENGTH;
	}
	return reserved;
}

static const uint8_t *parse_trailing(const uint8_t *at, unsigned headers, struct vb_packet *packet)
{
	if (headers & VB_HEADER_RETH)
		at = parse_reth(at, packet);
	if (headers & VB_HEADER_ATOMIC_ETH)
		at = parse_atomic_eth(at, packet);
	if (headers & VB_HEADER_AETH)
		at = parse_aeth(at, packet);
	if (headers & VB_HEADER_ATOMIC_ACK_ETH) {
		packet->original = vb_get64(at);
		at += VB_ATOMIC_ACK_ETH_LENGTH;
	}
	if (headers & VB_HEADER_IMM) {
		memcpy(&packet->imm, at, VB_IMM_LENGTH);
		at += VB_IMM_LENGTH;
	}
	if (headers & VB_HEADER_IETH) {
		packet->invalidate_rkey = vb_get32(at);
		at += VB_IETH_LENGTH;
	}
	return at;
}

/* room: bytes for payload and pad. */
static enum vb_packet_flaw check_payload(const struct vb_opcode_row *row, size_t room, unsigned pad)
{
	size_t most = row->payload_exact ? row->payload_exact : row->has_payload ? VB_MTU_MAX : 0;

	if (room % 4)
		return VB_PACKET_UNALIGNED;
	if (room < pad || room - pad < row->payload_exact)
		return VB_PACKET_TRUNCATED;
	if (room - pad > most)
		return VB_PACKET_OVERSIZED;
	return VB_PACKET_OK;
}

static enum vb_packet_flaw check_lengths(const struct vb_opcode_row *row, size_t length,
					 unsigned pad)
{
	size_t least = (size_t)row->headers_length + VB_ICRC_LENGTH;

	if (length < least)
		return VB_PACKET_TRUNCATED;
	return check_payload(row, length - least, pad);
}

static bool bth_reserved(const uint8_t *bytes)
{
	return bytes[4] & RESERVED_4 || bytes[8] & RESERVED_8;
}

/* The extended headers only: the rest is always written, and so few bytes need no call or loop. */
static void clear_extended(struct vb_packet *packet)
{
	const size_t begin = offsetof(struct vb_packet, va);

	memset((uint8_t *)packet + begin, 0, offsetof(struct vb_packet, payload) - begin);
}

enum vb_packet_flaw vb_packet_parse(const uint8_t *bytes, size_t length, struct vb_packet *packet)
{
	const struct vb_opcode_row *row;
	enum vb_packet_flaw flaw;
	const uint8_t *at;

	if (length < VB_BTH_LENGTH + VB_ICRC_LENGTH)
		return VB_PACKET_TRUNCATED;
	clear_extended(packet);
	parse_bth(bytes, packet);
	if (packet->version)
		return VB_PACKET_VERSION;
	row = vb_opcode_row(packet->opcode);
	if (!row->name)
		return VB_PACKET_UNKNOWN;
	flaw = check_lengths(row, length, packet->pad);
	if (flaw)
		return flaw;
	at = bytes + VB_BTH_LENGTH;
	packet->reserved = bth_reserved(bytes);
	packet->reserved |= parse_leading(&at, row->headers, packet) != 0;
	packet->payload = parse_trailing(at, row->headers, packet);
	packet->payload_length =
		(uint32_t)(length - row->headers_length - VB_ICRC_LENGTH - packet->pad);
	return syndrome_reserved(packet->syndrome) ? VB_PACKET_SYNDROME : VB_PACKET_OK;
}

void vb_packet_parse_next(const uint8_t *bytes, struct vb_packet *packet)
{
	packet->ack_request = bytes[8] & ACK_REQUEST;
	packet->psn = vb_get24(bytes + 9);
	packet->payload = bytes + VB_BTH_LENGTH;
	packet->reserved = bth_reserved(bytes);
}

enum vb_packet_flaw vb_packet_parse_again(const uint8_t *bytes, struct vb_packet *packet)
{
	const unsigned headers = vb_opcode_row(packet->opcode)->headers;
	const uint8_t *at = bytes + VB_BTH_LENGTH;

	packet->ack_request = bytes[8] & ACK_REQUEST;
	packet->psn = vb_get24(bytes + 9);
	packet->reserved = bth_reserved(bytes);
	if (headers) {
		packet->reserved |= parse_leading(&at, headers, packet) != 0;
		at = parse_trailing(at, headers, packet);
	}
	packet->payload = at;
	return syndrome_reserved(packet->syndrome) ? VB_PACKET_SYNDROME : VB_PACKET_OK;
}

static uint8_t *emit_leading(const struct vb_packet *packet, unsigned headers, uint8_t *at)
{
	if (headers & VB_HEADER_XRCETH)
		at = emit_xrceth(packet, at);
	if (headers & VB_HEADER_DETH)
		at = emit_deth(packet, at);
	if (headers & VB_HEADER_FETH) {
		vb_put32(at, packet->flush);
		at += VB_FETH_LENGTH;
	}
	if (headers & VB_HEADER_CNP) {
		memset(at, 0, VB_CNP_LENGTH);
		at += VB_CNP_LENGTH;
	}
	return at;
}

static uint8_t *emit_trailing(const struct vb_packet *packet, unsigned headers, uint8_t *at)
{
	if (headers & VB_HEADER_RETH)
		at = emit_reth(packet, at);
	if (headers & VB_HEADER_ATOMIC_ETH)
		at = emit_atomic_eth(packet, at);
	if (headers & VB_HEADER_AETH)
		at = emit_aeth(packet, at);
	if (headers & VB_HEADER_ATOMIC_ACK_ETH) {
		vb_put64(at, packet->original);
		at += VB_ATOMIC_ACK_ETH_LENGTH;
	}
	if (headers & VB_HEADER_IMM) {
		memcpy(at, &packet->imm, VB_IMM_LENGTH);
		at += VB_IMM_LENGTH;
	}
	if (headers & VB_HEADER_IETH) {
		vb_put32(at, packet->invalidate_rkey);
		at += VB_IETH_LENGTH;
	}
	return at;
}

size_t vb_packet_emit(const struct vb_packet *packet, uint8_t *out)
{
	unsigned headers = vb_opcode_row(packet->opcode)->headers;
	uint8_t *end;

	emit_bth(packet, out);
	if (!headers)
		return VB_BTH_LENGTH;
	end = emit_leading(packet, headers, out + VB_BTH_LENGTH);
	end = emit_trailing(packet, headers, end);
	return (size_t)(end - out);
}

void vb_packet_emit_next(const uint8_t *before, uint32_t psn, uint8_t *out)
{
	memcpy(out, before, VB_BTH_LENGTH);
	out[8] = 0;
	vb_put24(out + 9, psn);
}

size_t vb_packet_length(const struct vb_packet *packet)
{
	size_t padded = (packet->payload_length + 3u) & ~(size_t)3;

	return vb_opcode_row(packet->opcode)->headers_length + padded + VB_ICRC_LENGTH;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One packet of the InfiniBand transport, as RoCEv2 carries it in a UDP datagram: BTH, extended
 * headers, payload, pad, ICRC. Parsing and emitting are inverses for everything that parses.
 */
#ifndef VB_WIRE_PACKET_H
#define VB_WIRE_PACKET_H

#include <stddef.h>

#include "wire/bytes.h"
#include "wire/opcode.h"

enum {
	VB_UDP_PORT_ROCE = 4791,
	VB_ICRC_LENGTH = 4,
	VB_HEADERS_MAX = 12 + 4 + 4 + 16 + 28, /* the longest sum is smaller */
	VB_MTU_MAX = 4096,
	VB_PACKET_MAX = VB_HEADERS_MAX + VB_MTU_MAX + 4 + VB_ICRC_LENGTH,
	VB_PSN_MASK = 0xffffff,
	VB_QPN_MASK = 0xffffff,
};

/* AETH syndromes: two bits for the kind, five more for credits, a timer or the reason of a NAK. */
enum vb_syndrome {
	VB_SYNDROME_KIND = 0x60,
	VB_SYNDROME_ACK = 0x00,
	VB_SYNDROME_RNR = 0x20,
	VB_SYNDROME_NAK = 0x60,
	VB_SYNDROME_VALUE = 0x1f,
	VB_CREDITS_NONE = 0x1f, /* an ACK that carries no credits */
	VB_NAK_SEQUENCE = 0x60,
	VB_NAK_INVALID_REQUEST = 0x61,
	VB_NAK_ACCESS = 0x62,
	VB_NAK_OPERATIONAL = 0x63,
	VB_NAK_INVALID_RD = 0x64,
};

/*
 * Fields of InfiniBand's link header, which RoCEv2 does not carry. A datagram's completion at an
 * InfiniBand port shows them. Only between ports of ours: on Ethernet the byte is 0 and has no
 * meaning.
 */
enum vb_packet_link {
	VB_LINK_SL = 0x0f,
	VB_LINK_GRH = 0x10, /* the datagram was sent with a GRH */
};

struct vb_packet {
	/* BTH */
	uint8_t opcode;
	bool solicited, migreq, ack_request, fecn, becn;
	uint8_t pad;     /* 0 to 3 bytes behind the payload */
	uint8_t version; /* transport header version, always 0 */
	uint16_t pkey;
	uint32_t dest_qpn, psn;
	/* extended headers; fields of headers that the opcode does not have are zero */
	uint64_t va;                /* RETH, AtomicETH */
	uint32_t rkey;              /* RETH, AtomicETH */
	uint32_t dma_length;        /* RETH */
	uint64_t swap_add, compare; /* AtomicETH */
	uint8_t syndrome;           /* AETH */
	uint32_t msn;               /* AETH, 24 bits */
	uint64_t original;          /* AtomicAckETH */
	uint32_t qkey, src_qpn;     /* DETH */
	uint8_t link;               /* in DETH's reserved byte: enum vb_packet_link */
	uint32_t srqn;              /* XRCETH */
	uint32_t imm;               /* immediate data, in network order as in verbs */
	uint32_t invalidate_rkey;   /* IETH, host order */
	uint32_t flush;             /* FETH: selectivity and placement type, host order */
	bool reserved;              /* bits are set that the IBA reserves: they mean nothing */
	/* without pad and ICRC */
	const uint8_t *payload;
	uint32_t payload_length;
};

/* The reason why bytes are no packet. The receiver counts each. */
enum vb_packet_flaw {
	VB_PACKET_OK,
	VB_PACKET_TRUNCATED, /* shorter than its headers, pad and ICRC */
	VB_PACKET_OVERSIZED, /* payload longer than any MTU, or longer than the opcode allows */
	VB_PACKET_UNKNOWN,   /* no such opcode */
	VB_PACKET_VERSION,   /* another transport header version */
	VB_PACKET_SYNDROME,  /* a reserved value of the AETH's syndrome */
	VB_PACKET_UNALIGNED, /* payload and pad are not a multiple of 4 */
	VB_PACKET_FLAWS,
};

const char *vb_packet_flaw_name(enum vb_packet_flaw flaw);

/*
 * bytes is the UDP payload with the ICRC, which is not checked here (wire/icrc.h). The parser
 * checks all that the packet alone tells (IBA section 9.2 and table 35), so no later code looks at
 * lengths again. The path MTU is not known here: the responder checks the lengths of a message's
 * first, middle and last packets. Pad bytes may hold anything, and so may reserved bits: a later
 * version of the IBA may give them a meaning that this one can do without. *packet is valid only
 * after VB_PACKET_OK. Its payload points into bytes.
 */
enum vb_packet_flaw vb_packet_parse(const uint8_t *bytes, size_t length, struct vb_packet *packet);

/*
 * Parses a packet of the same length and the same first 8 bytes as the one that *packet is from,
 * whose opcode has no extended headers.
 */
void vb_packet_parse_next(const uint8_t *bytes, struct vb_packet *packet);

/* The same for any opcode: extended headers are parsed as well. */
enum vb_packet_flaw vb_packet_parse_again(const uint8_t *bytes, struct vb_packet *packet);

/*
 * Writes BTH and extended headers to out (room for VB_HEADERS_MAX) and returns their length. The
 * caller adds payload, pad zeros and ICRC. The pad count comes from payload_length; packet->pad is
 * ignored.
 */
size_t vb_packet_emit(const struct vb_packet *packet, uint8_t *out);

/* The same for a packet whose headers are those of the packet at `before`, a BTH alone, but for the
 * PSN. It asks for no ACK. */
void vb_packet_emit_next(const uint8_t *before, uint32_t psn, uint8_t *out);

/* Whole length on the wire: headers, payload, pad, ICRC. */
size_t vb_packet_length(const struct vb_packet *packet);

/* "RC SEND_ONLY qp 0x000011 psn 5 ackreq 13 B ..." in at most size bytes; returns out. */
const char *vb_packet_print(const struct vb_packet *packet, char *out, size_t size);

/* For bytes that are not parsed yet: at least VB_BTH_LENGTH of them. */
static inline uint32_t vb_packet_dest_qpn(const uint8_t *bytes)
{
	return vb_get24(bytes + 5);
}

/* An ACK or NAK. For bytes that are not parsed yet. */
static inline bool vb_packet_is_ack(const uint8_t *bytes)
{
	return (bytes[0] & ~VB_TRANSPORT_MASK) == VB_OP_ACKNOWLEDGE;
}

/* PSNs and MSNs compare modulo 2^24: negative, zero or positive, from -2^23 to 2^23 - 1. */
static inline int32_t vb_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t vb_psn_add(uint32_t psn, uint32_t by)
{
	return (psn + by) & VB_PSN_MASK;
}

#endif

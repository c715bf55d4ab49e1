/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * BTH opcodes: a transport in the upper three bits, an operation in the lower five. One row per
 * opcode says which headers follow, and how long the payload may be.
 */
#ifndef VB_WIRE_OPCODE_H
#define VB_WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

enum vb_transport {
	VB_TRANSPORT_RC = 0x00,
	VB_TRANSPORT_UC = 0x20,
	VB_TRANSPORT_RD = 0x40, /* no device implements it: all its opcodes are unknown */
	VB_TRANSPORT_UD = 0x60,
	VB_TRANSPORT_CNP = 0x80,
	VB_TRANSPORT_XRC = 0xa0,
	VB_TRANSPORT_VENDOR = 0xc0, /* IBA leaves these opcodes to the vendors of devices */
	VB_TRANSPORT_MASK = 0xe0,
};

/* The operation: the same number in every transport that has it. */
enum vb_operation {
	VB_OP_SEND_FIRST = 0x00,
	VB_OP_SEND_MIDDLE = 0x01,
	VB_OP_SEND_LAST = 0x02,
	VB_OP_SEND_LAST_IMM = 0x03,
	VB_OP_SEND_ONLY = 0x04,
	VB_OP_SEND_ONLY_IMM = 0x05,
	VB_OP_WRITE_FIRST = 0x06,
	VB_OP_WRITE_MIDDLE = 0x07,
	VB_OP_WRITE_LAST = 0x08,
	VB_OP_WRITE_LAST_IMM = 0x09,
	VB_OP_WRITE_ONLY = 0x0a,
	VB_OP_WRITE_ONLY_IMM = 0x0b,
	VB_OP_READ_REQUEST = 0x0c,
	VB_OP_READ_RESPONSE_FIRST = 0x0d,
	VB_OP_READ_RESPONSE_MIDDLE = 0x0e,
	VB_OP_READ_RESPONSE_LAST = 0x0f,
	VB_OP_READ_RESPONSE_ONLY = 0x10,
	VB_OP_ACKNOWLEDGE = 0x11,
	VB_OP_ATOMIC_ACKNOWLEDGE = 0x12,
	VB_OP_COMPARE_SWAP = 0x13,
	VB_OP_FETCH_ADD = 0x14,
	VB_OP_SEND_LAST_INVALIDATE = 0x16,
	VB_OP_SEND_ONLY_INVALIDATE = 0x17,
	VB_OP_FLUSH = 0x1c,
	VB_OP_ATOMIC_WRITE = 0x1d,
	VB_OP_CNP = 0x01, /* of VB_TRANSPORT_CNP */
	/* of VB_TRANSPORT_VENDOR, between two of our own kind: wire/gaps.h */
	VB_OP_GAPS_ASK = 0x16,
	VB_OP_GAPS = 0x17,
	/* likewise: nic/masked.h */
	VB_OP_MASKED_COMPARE_SWAP = 0x18,
	VB_OP_MASKED_FETCH_ADD = 0x19,
};

/* Headers behind the BTH, in the order in which they appear. */
enum vb_header {
	VB_HEADER_XRCETH = 1 << 0,
	VB_HEADER_DETH = 1 << 1,
	VB_HEADER_FETH = 1 << 2,
	VB_HEADER_RETH = 1 << 3,
	VB_HEADER_ATOMIC_ETH = 1 << 4,
	VB_HEADER_AETH = 1 << 5,
	VB_HEADER_ATOMIC_ACK_ETH = 1 << 6,
	VB_HEADER_IMM = 1 << 7,
	VB_HEADER_IETH = 1 << 8,
	VB_HEADER_CNP = 1 << 9, /* 16 reserved bytes */
};

/* Lengths of headers. The place of each follows from the lengths and the order above. */
enum {
	VB_BTH_LENGTH = 12,
	VB_XRCETH_LENGTH = 4,
	VB_DETH_LENGTH = 8,
	VB_FETH_LENGTH = 4,
	VB_RETH_LENGTH = 16,
	VB_ATOMIC_ETH_LENGTH = 28,
	VB_AETH_LENGTH = 4,
	VB_ATOMIC_ACK_ETH_LENGTH = 8,
	VB_IMM_LENGTH = 4,
	VB_IETH_LENGTH = 4,
	VB_CNP_LENGTH = 16,
	VB_ATOMIC_WRITE_LENGTH = 8, /* its payload */
};

/* The place of a packet in its message. */
enum vb_place { VB_PLACE_NONE, VB_PLACE_FIRST, VB_PLACE_MIDDLE, VB_PLACE_LAST, VB_PLACE_ONLY };

/* The family of an operation. */
enum vb_family {
	VB_FAMILY_UNKNOWN,
	VB_FAMILY_SEND,
	VB_FAMILY_WRITE,
	VB_FAMILY_READ_REQUEST,
	VB_FAMILY_READ_RESPONSE,
	VB_FAMILY_ACK,
	VB_FAMILY_ATOMIC,
	VB_FAMILY_ATOMIC_ACK,
	VB_FAMILY_FLUSH,
	VB_FAMILY_ATOMIC_WRITE,
	VB_FAMILY_CNP,
	VB_FAMILY_GAPS_ASK,
	VB_FAMILY_GAPS,
	VB_FAMILY_MASKED,
};

struct vb_opcode_row {
	const char *name;       /* "RC SEND_ONLY"; NULL: no such opcode */
	uint16_t headers;       /* enum vb_header */
	uint8_t headers_length; /* BTH included */
	uint8_t family;         /* enum vb_family */
	uint8_t place;          /* enum vb_place */
	bool has_payload;
	uint8_t payload_exact; /* the only length that the payload may have; 0: up to the MTU */
};

/* Never NULL: an opcode that does not exist has a row without a name. */
extern const struct vb_opcode_row vb_opcode_rows[256];
static inline const struct vb_opcode_row *vb_opcode_row(uint8_t opcode)
{
	return &vb_opcode_rows[opcode];
}

#endif

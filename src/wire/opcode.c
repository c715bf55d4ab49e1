/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/opcode.h"

/* clang-format off */
#define LENGTH_IF(headers, name) ((headers) & VB_HEADER_##name ? VB_##name##_LENGTH : 0)
#define HEADERS_LENGTH(headers)                                                                    \
	(VB_BTH_LENGTH + LENGTH_IF(headers, XRCETH) + LENGTH_IF(headers, DETH) +                   \
	 LENGTH_IF(headers, FETH) + LENGTH_IF(headers, RETH) + LENGTH_IF(headers, ATOMIC_ETH) +    \
	 LENGTH_IF(headers, AETH) + LENGTH_IF(headers, ATOMIC_ACK_ETH) + LENGTH_IF(headers, IMM) + \
	 LENGTH_IF(headers, IETH) + LENGTH_IF(headers, CNP))

#define ROW(TRANSPORT, OPERATION, FAMILY, PLACE, HEADERS, ...) \
	[VB_TRANSPORT_##TRANSPORT | VB_OP_##OPERATION] = {     \
		.name = #TRANSPORT " " #OPERATION,             \
		.headers = (HEADERS),                          \
		.headers_length = HEADERS_LENGTH(HEADERS),     \
		.family = VB_FAMILY_##FAMILY,                  \
		.place = VB_PLACE_##PLACE,                     \
		__VA_ARGS__                                    \
	}

/* An XRC request names the shared receive queue; XRC responses look like those of RC. */
#define REQUEST(OPERATION, FAMILY, PLACE, HEADERS, ...)          \
	ROW(RC, OPERATION, FAMILY, PLACE, HEADERS, __VA_ARGS__), \
	ROW(XRC, OPERATION, FAMILY, PLACE, (HEADERS) | XRCETH, __VA_ARGS__)
#define RESPONSE(OPERATION, FAMILY, PLACE, HEADERS, ...)         \
	ROW(RC, OPERATION, FAMILY, PLACE, HEADERS, __VA_ARGS__), \
	ROW(XRC, OPERATION, FAMILY, PLACE, HEADERS, __VA_ARGS__)
/* clang-format on */

/* The payload behind the headers. */
#define PAYLOAD .has_payload = true
#define NOTHING .has_payload = false
#define EIGHT   .has_payload = true, .payload_exact = VB_ATOMIC_WRITE_LENGTH

enum {
	BARE = 0, /* nothing behind the BTH */
	XRCETH = VB_HEADER_XRCETH,
	DETH = VB_HEADER_DETH,
	FETH = VB_HEADER_FETH,
	RETH = VB_HEADER_RETH,
	ATOMIC_ETH = VB_HEADER_ATOMIC_ETH,
	AETH = VB_HEADER_AETH,
	ATOMIC_ACK_ETH = VB_HEADER_ATOMIC_ACK_ETH,
	IMM = VB_HEADER_IMM,
	IETH = VB_HEADER_IETH,
};

/* clang-format off */
const struct vb_opcode_row vb_opcode_rows[256] = {
	REQUEST(SEND_FIRST,             SEND,          FIRST,  BARE,                  PAYLOAD),
	REQUEST(SEND_MIDDLE,            SEND,          MIDDLE, BARE,                  PAYLOAD),
	REQUEST(SEND_LAST,              SEND,          LAST,   BARE,                  PAYLOAD),
	REQUEST(SEND_LAST_IMM,          SEND,          LAST,   IMM,                   PAYLOAD),
	REQUEST(SEND_LAST_INVALIDATE,   SEND,          LAST,   IETH,                  PAYLOAD),
	REQUEST(SEND_ONLY,              SEND,          ONLY,   BARE,                  PAYLOAD),
	REQUEST(SEND_ONLY_IMM,          SEND,          ONLY,   IMM,                   PAYLOAD),
	REQUEST(SEND_ONLY_INVALIDATE,   SEND,          ONLY,   IETH,                  PAYLOAD),
	REQUEST(WRITE_FIRST,            WRITE,         FIRST,  RETH,                  PAYLOAD),
	REQUEST(WRITE_MIDDLE,           WRITE,         MIDDLE, BARE,                  PAYLOAD),
	REQUEST(WRITE_LAST,             WRITE,         LAST,   BARE,                  PAYLOAD),
	REQUEST(WRITE_LAST_IMM,         WRITE,         LAST,   IMM,                   PAYLOAD),
	REQUEST(WRITE_ONLY,             WRITE,         ONLY,   RETH,                  PAYLOAD),
	REQUEST(WRITE_ONLY_IMM,         WRITE,         ONLY,   RETH | IMM,            PAYLOAD),
	REQUEST(READ_REQUEST,           READ_REQUEST,  ONLY,   RETH,                  NOTHING),
	REQUEST(COMPARE_SWAP,           ATOMIC,        ONLY,   ATOMIC_ETH,            NOTHING),
	REQUEST(FETCH_ADD,              ATOMIC,        ONLY,   ATOMIC_ETH,            NOTHING),
	REQUEST(FLUSH,                  FLUSH,         ONLY,   FETH | RETH,           NOTHING),
	REQUEST(ATOMIC_WRITE,           ATOMIC_WRITE,  ONLY,   RETH,                  EIGHT),

	RESPONSE(READ_RESPONSE_FIRST,   READ_RESPONSE, FIRST,  AETH,                  PAYLOAD),
	RESPONSE(READ_RESPONSE_MIDDLE,  READ_RESPONSE, MIDDLE, BARE,                  PAYLOAD),
	RESPONSE(READ_RESPONSE_LAST,    READ_RESPONSE, LAST,   AETH,                  PAYLOAD),
	RESPONSE(READ_RESPONSE_ONLY,    READ_RESPONSE, ONLY,   AETH,                  PAYLOAD),
	RESPONSE(ACKNOWLEDGE,           ACK,           NONE,   AETH,                  NOTHING),
	RESPONSE(ATOMIC_ACKNOWLEDGE,    ATOMIC_ACK,    NONE,   AETH | ATOMIC_ACK_ETH, NOTHING),

	ROW(UC, SEND_FIRST,             SEND,          FIRST,  BARE,                  PAYLOAD),
	ROW(UC, SEND_MIDDLE,            SEND,          MIDDLE, BARE,                  PAYLOAD),
	ROW(UC, SEND_LAST,              SEND,          LAST,   BARE,                  PAYLOAD),
	ROW(UC, SEND_LAST_IMM,          SEND,          LAST,   IMM,                   PAYLOAD),
	ROW(UC, SEND_ONLY,              SEND,          ONLY,   BARE,                  PAYLOAD),
	ROW(UC, SEND_ONLY_IMM,          SEND,          ONLY,   IMM,                   PAYLOAD),
	ROW(UC, WRITE_FIRST,            WRITE,         FIRST,  RETH,                  PAYLOAD),
	ROW(UC, WRITE_MIDDLE,           WRITE,         MIDDLE, BARE,                  PAYLOAD),
	ROW(UC, WRITE_LAST,             WRITE,         LAST,   BARE,                  PAYLOAD),
	ROW(UC, WRITE_LAST_IMM,         WRITE,         LAST,   IMM,                   PAYLOAD),
	ROW(UC, WRITE_ONLY,             WRITE,         ONLY,   RETH,                  PAYLOAD),
	ROW(UC, WRITE_ONLY_IMM,         WRITE,         ONLY,   RETH | IMM,            PAYLOAD),

	ROW(UD, SEND_ONLY,              SEND,          ONLY,   DETH,                  PAYLOAD),
	ROW(UD, SEND_ONLY_IMM,          SEND,          ONLY,   DETH | IMM,            PAYLOAD),

	ROW(CNP, CNP,                   CNP,           NONE,   VB_HEADER_CNP,         NOTHING),

	ROW(VENDOR, GAPS_ASK,           GAPS_ASK,      NONE,   BARE,                  NOTHING),
	ROW(VENDOR, GAPS,               GAPS,          NONE,   AETH,                  PAYLOAD),
	ROW(VENDOR, MASKED_COMPARE_SWAP, MASKED,       ONLY,   RETH,                  PAYLOAD),
	ROW(VENDOR, MASKED_FETCH_ADD,   MASKED,        ONLY,   RETH,                  PAYLOAD),
};
/* clang-format on */

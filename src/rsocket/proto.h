/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rsocket protocol, version 1, as bytes and values.
 *
 * WRITEs with immediate data carry a stream into buffers that the receiver has published. The
 * immediate data are a message: three bits of operation, 29 bits of operand. The receiver publishes
 * a buffer by writing it into a table of two entries (the SGL) in the memory of the sender, in the
 * sender's byte order. The private data of REQ and REP name that table and the first buffer.
 */
#ifndef VB_RSOCKET_PROTO_H
#define VB_RSOCKET_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VB_RS_VERSION = 1,
	VB_RS_CONN_SIZE = 40,  /* private data of REQ and REP */
	VB_RS_SGE_SIZE = 16,   /* an entry of the SGL */
	VB_RS_IOMAP_SIZE = 24, /* an entry of the table of mappings, which follows the SGL */
	VB_RS_SGL_COUNT = 2,
	VB_RS_CONTROL_COUNT = 4, /* messages without a credit that may be under way */
	VB_RS_MESSAGE_MAX = 0x1fffffff,
};

enum vb_rs_op {
	VB_RS_DATA = 0,    /* operand: number of bytes that the WRITE has placed */
	VB_RS_SGL = 4,     /* operand: limit of messages in total, modulo 2^16 */
	VB_RS_IOMAP = 6,   /* operand: index of the mapping that the WRITE has placed */
	VB_RS_CONTROL = 7, /* operand: enum vb_rs_control */
};

enum vb_rs_control {
	VB_RS_DISCONNECT = 0, /* the peer sends and reads nothing any more */
	VB_RS_KEEPALIVE = 1,
	VB_RS_SHUTDOWN = 2, /* the peer sends nothing any more */
};

struct vb_rs_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

struct vb_rs_iomap {
	uint64_t offset;
	struct vb_rs_sge sge;
};

/* The description of its sender in a REQ or REP. */
struct vb_rs_conn {
	bool big_endian;      /* byte order of its memory */
	uint16_t credits;     /* the number of its receives */
	uint16_t iomap_count; /* entries of its table of mappings */
	struct vb_rs_sge sgl; /* length: number of entries */
	struct vb_rs_sge data;
};

static inline uint32_t vb_rs_message(enum vb_rs_op op, uint32_t operand)
{
	return (uint32_t)op << 29 | operand;
}

static inline enum vb_rs_op vb_rs_message_op(uint32_t message)
{
	return (enum vb_rs_op)(message >> 29);
}

static inline uint32_t vb_rs_message_operand(uint32_t message)
{
	return message & VB_RS_MESSAGE_MAX;
}

bool vb_rs_host_big_endian(void);

/* -EPROTO: another protocol, or another version. */
int vb_rs_conn_parse(const void *bytes, size_t size, struct vb_rs_conn *conn);
void vb_rs_conn_emit(const struct vb_rs_conn *conn, uint8_t bytes[VB_RS_CONN_SIZE]);

/* Entries of tables in memory of a host with this byte order. */
void vb_rs_sge_emit(const struct vb_rs_sge *sge, bool big_endian, uint8_t bytes[VB_RS_SGE_SIZE]);
void vb_rs_sge_parse(const uint8_t bytes[VB_RS_SGE_SIZE], bool big_endian, struct vb_rs_sge *sge);
void vb_rs_iomap_emit(const struct vb_rs_iomap *iomap, bool big_endian,
		      uint8_t bytes[VB_RS_IOMAP_SIZE]);
void vb_rs_iomap_parse(const uint8_t bytes[VB_RS_IOMAP_SIZE], bool big_endian,
		       struct vb_rs_iomap *iomap);

/* The number of mappings has eight bits: exact up to 128, above that in steps of 256. */
uint8_t vb_rs_scale(unsigned value);
unsigned vb_rs_unscale(uint8_t scaled);

/*
 * Datagrams. Until the QP of a peer is known, a UDP socket carries datagrams, behind a header that
 * names the sender's QP. The answer (op VB_RS_CONTROL, no data) names the peer's QP. Later
 * datagrams go to that UD QP, behind a header with the sender's address.
 */
enum {
	VB_RS_UDP_MAX = 28, /* header in front of UDP data: 16 with IPv4 */
	VB_RS_UD_MAX = 24,  /* header in front of UD data: 8 with IPv4 */
};

struct vb_rs_udp {
	bool ipv6;
	uint8_t op;       /* VB_RS_DATA or VB_RS_CONTROL */
	uint32_t qpn;     /* of the sender */
	uint8_t addr[16]; /* the destination; 4 bytes with IPv4 */
};

struct vb_rs_ud {
	bool ipv6;
	uint16_t port;    /* of the sender */
	uint8_t addr[16]; /* of the sender; 4 bytes with IPv4 */
};

/* The size of the header, or -EPROTO. */
int vb_rs_udp_parse(const uint8_t *bytes, size_t size, struct vb_rs_udp *header);
size_t vb_rs_udp_emit(const struct vb_rs_udp *header, uint8_t bytes[VB_RS_UDP_MAX]);
int vb_rs_ud_parse(const uint8_t *bytes, size_t size, struct vb_rs_ud *header);
size_t vb_rs_ud_emit(const struct vb_rs_ud *header, uint8_t bytes[VB_RS_UD_MAX]);

#endif

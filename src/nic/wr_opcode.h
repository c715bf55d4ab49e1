/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opcodes of work requests. One row per opcode has all facts that the code needs about it. The
 * tables of the paths have the functions that execute an opcode; its packets are in wire/opcode.h.
 */
#ifndef VB_NIC_WR_OPCODE_H
#define VB_NIC_WR_OPCODE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/flush.h"

enum { VB_WR_OPCODE_COUNT = IBV_WR_ATOMIC_WRITE + 1 };

/* Extended opcodes (nic/qp_ext.h). ibv_post_send does not know them. */
enum vb_wr_extended {
	VB_WR_MASKED_CMP_AND_SWP = VB_WR_OPCODE_COUNT,
	VB_WR_MASKED_FETCH_AND_ADD,
	VB_WR_UMR, /* fills or empties an indirect key (nic/umr.h) */
	VB_WR_NOP,
	VB_WR_SEND_ENABLE, /* cross.h */
	VB_WR_RECV_ENABLE,
	VB_WR_CQE_WAIT,
	VB_WR_ROWS,
};

enum vb_wr_flag {
	VB_WR_READS = 1 << 0,   /* takes a READ resource of the target; its answer is not an ACK */
	VB_WR_RETURNS = 1 << 1, /* its answer brings bytes into the local elements */
	VB_WR_INLINE = 1 << 2,  /* its payload may be inline */
	VB_WR_WORD = 1 << 3,    /* 8 bytes, at a multiple of 8 */
	VB_WR_STAYS = 1 << 4,   /* concerns this process only: no address, no packets */
	VB_WR_APART = 1 << 5,   /* posting it has rules of its own */
};

struct vb_wr_row {
	const char *name;     /* as in the enumeration, without IBV_WR_; NULL: no such opcode */
	const char *words;    /* the name of ibv_wr_opcode_str */
	uint16_t transports;  /* a bit per enum ibv_qp_type; 0: not an opcode of this device */
	uint16_t posted;      /* the same, or 0: a post asks the profile (nic/profile.h) */
	uint16_t create_flag; /* enum ibv_qp_create_send_ops_flags */
	uint8_t wc_opcode;    /* enum ibv_wc_opcode of its completion */
	uint8_t recv_opcode;  /* enum ibv_wc_opcode of the consumed receive; 0: consumes none */
	uint8_t recv_flags; /* enum ibv_wc_flags of that receive: immediate, or rkey invalidated */
	uint8_t access;     /* enum ibv_access_flags: right needed at the target; 0: none, or the
			     * operands tell (exec/flush.h) */
	uint8_t family;     /* enum vb_family of its packets */
	uint8_t flags;      /* enum vb_wr_flag */
	uint16_t extended;  /* bits in vendor_err of its completion: VB_WR_EXTENDED_* */
};

/* A good completion of an extended request has the opcode's number here, in vendor_err. */
enum { VB_WR_EXTENDED_SHIFT = 8 };

/* The last row is for values that are no opcodes: all zero. Hidden, so that the table's address
 * costs no load. Constant but for vb_wr_guard_posts. */
extern struct vb_wr_row vb_wr_rows[VB_WR_ROWS + 1] __attribute__((visibility("hidden")));

/* The row of a WQE in a send queue: the post has checked the opcode. */
static inline const struct vb_wr_row *vb_wr_row(uint8_t opcode)
{
	return &vb_wr_rows[opcode];
}

/* The row of any value that an application may pass to ibv_post_send. Never NULL. */
static inline const struct vb_wr_row *vb_wr_row_any(unsigned opcode)
{
	return &vb_wr_rows[opcode < VB_WR_OPCODE_COUNT ? opcode : VB_WR_ROWS];
}

/* The same for any number that may be an opcode, extended ones included. */
static inline const struct vb_wr_row *vb_wr_row_named(unsigned opcode)
{
	return &vb_wr_rows[opcode < VB_WR_ROWS ? opcode : VB_WR_ROWS];
}

/* Does the transport have the opcode? type must be a value of the enumeration up to XRC_RECV. */
static inline bool vb_wr_on(const struct vb_wr_row *row, enum ibv_qp_type type)
{
	return row->transports >> type & 1;
}

/* Posts of every opcode ask the profile from now on. Called before a device is opened. */
void vb_wr_guard_posts(void);

static inline bool vb_wr_reads(uint8_t opcode)
{
	return vb_wr_row(opcode)->flags & VB_WR_READS;
}

static inline bool vb_wr_returns(uint8_t opcode)
{
	return vb_wr_row(opcode)->flags & VB_WR_RETURNS;
}

static inline bool vb_wr_is_word(uint8_t opcode)
{
	return vb_wr_row(opcode)->flags & VB_WR_WORD;
}

static inline bool vb_wr_stays(uint8_t opcode)
{
	return vb_wr_row(opcode)->flags & VB_WR_STAYS;
}

static inline bool vb_wr_consumes(uint8_t opcode)
{
	return vb_wr_row(opcode)->recv_opcode;
}

static inline bool vb_wr_has_imm(uint8_t opcode)
{
	return vb_wr_row(opcode)->recv_flags & IBV_WC_WITH_IMM;
}

#endif

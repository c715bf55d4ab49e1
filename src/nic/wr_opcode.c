/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/wr_opcode.h"

#include "wire/opcode.h"

enum transports {
	RC = 1 << IBV_QPT_RC,
	XRC = 1 << IBV_QPT_XRC_SEND,
	UC = 1 << IBV_QPT_UC,
	UD = 1 << IBV_QPT_UD,
	RAW = 1 << IBV_QPT_RAW_PACKET,
};

enum flags {
	READS = VB_WR_READS,
	RETURNS = VB_WR_RETURNS,
	INLINE = VB_WR_INLINE,
	WORD = VB_WR_WORD,
	STAYS = VB_WR_STAYS,
	APART = VB_WR_APART,
};

/* clang-format off */
#define ROW(NAME, WORDS, TRANSPORTS, ...)                     \
	[IBV_WR_##NAME] = {                                   \
		.name = #NAME,                                \
		.words = WORDS,                               \
		.transports = TRANSPORTS,                     \
		.posted = TRANSPORTS,                         \
		.create_flag = IBV_QP_EX_WITH_##NAME,         \
		__VA_ARGS__                                   \
	}
#define COMPLETES(OPCODE) .wc_opcode = IBV_WC_##OPCODE
#define PACKETS(FAMILY)   .family = VB_FAMILY_##FAMILY
#define NEEDS(RIGHT)      .access = IBV_ACCESS_REMOTE_##RIGHT
#define FLAGS(FLAGS)      .flags = FLAGS

/* Posted by the calls of verbs/extended.h alone: `posted` is 0. */
#define EXTENDED(NAME, WORDS, TRANSPORTS, ...)                \
	[VB_WR_##NAME] = {                                    \
		.name = #NAME,                                \
		.words = WORDS,                               \
		.transports = TRANSPORTS,                     \
		.extended = VB_WR_##NAME << VB_WR_EXTENDED_SHIFT, \
		__VA_ARGS__                                   \
	}

/* The receive at the target, and the flags of its completion. */
#define RECEIVE(OPCODE)             .recv_opcode = IBV_WC_##OPCODE
#define RECEIVE_WITH(OPCODE, FLAGS) RECEIVE(OPCODE), .recv_flags = IBV_WC_##FLAGS

struct vb_wr_row vb_wr_rows[VB_WR_ROWS + 1] = {
	ROW(SEND, "send", RC | XRC | UC | UD | RAW,
	    COMPLETES(SEND), PACKETS(SEND), RECEIVE(RECV), FLAGS(INLINE)),
	ROW(SEND_WITH_IMM, "send-with-imm", RC | XRC | UC | UD,
	    COMPLETES(SEND), PACKETS(SEND), RECEIVE_WITH(RECV, WITH_IMM), FLAGS(INLINE)),
	ROW(SEND_WITH_INV, "send-with-inv", RC | XRC,
	    COMPLETES(SEND), PACKETS(SEND), RECEIVE_WITH(RECV, WITH_INV), FLAGS(INLINE)),
	ROW(RDMA_WRITE, "rdma-write", RC | XRC | UC,
	    COMPLETES(RDMA_WRITE), PACKETS(WRITE), NEEDS(WRITE), FLAGS(INLINE)),
	ROW(RDMA_WRITE_WITH_IMM, "rdma-write-with-imm", RC | XRC | UC,
	    COMPLETES(RDMA_WRITE), PACKETS(WRITE), NEEDS(WRITE),
	    RECEIVE_WITH(RECV_RDMA_WITH_IMM, WITH_IMM), FLAGS(INLINE)),
	ROW(RDMA_READ, "rdma-read", RC | XRC,
	    COMPLETES(RDMA_READ), PACKETS(READ_REQUEST), NEEDS(READ), FLAGS(READS | RETURNS)),
	ROW(ATOMIC_CMP_AND_SWP, "atomic-cmp-and-swp", RC | XRC,
	    COMPLETES(COMP_SWAP), PACKETS(ATOMIC), NEEDS(ATOMIC), FLAGS(READS | RETURNS | WORD)),
	ROW(ATOMIC_FETCH_AND_ADD, "atomic-fetch-and-add", RC | XRC,
	    COMPLETES(FETCH_ADD), PACKETS(ATOMIC), NEEDS(ATOMIC), FLAGS(READS | RETURNS | WORD)),
	ROW(ATOMIC_WRITE, "atomic-write", RC | XRC,
	    COMPLETES(ATOMIC_WRITE), PACKETS(ATOMIC_WRITE), NEEDS(WRITE),
	    FLAGS(READS | INLINE | WORD)),
	ROW(FLUSH, "flush", RC | XRC, COMPLETES(FLUSH), PACKETS(FLUSH), FLAGS(READS | APART)),
	ROW(BIND_MW, "bind-mw", RC | XRC | UC, COMPLETES(BIND_MW), FLAGS(STAYS | APART)),
	ROW(LOCAL_INV, "local-inv", RC | XRC | UC, COMPLETES(LOCAL_INV), FLAGS(STAYS)),
	ROW(TSO, "tso", RAW, COMPLETES(TSO), FLAGS(APART)),

	EXTENDED(MASKED_CMP_AND_SWP, "masked-cmp-and-swp", RC,
		 COMPLETES(COMP_SWAP), PACKETS(MASKED), NEEDS(ATOMIC), FLAGS(READS | RETURNS)),
	EXTENDED(MASKED_FETCH_AND_ADD, "masked-fetch-and-add", RC,
		 COMPLETES(FETCH_ADD), PACKETS(MASKED), NEEDS(ATOMIC), FLAGS(READS | RETURNS)),

	EXTENDED(UMR, "umr", RC | XRC | UC | UD, COMPLETES(BIND_MW), FLAGS(STAYS)),
	EXTENDED(NOP, "nop", RC | XRC | UC | UD, COMPLETES(SEND), FLAGS(STAYS)),
	EXTENDED(SEND_ENABLE, "send-enable", RC | XRC | UC | UD, COMPLETES(SEND), FLAGS(STAYS)),
	EXTENDED(RECV_ENABLE, "recv-enable", RC | XRC | UC | UD, COMPLETES(SEND), FLAGS(STAYS)),
	EXTENDED(CQE_WAIT, "cqe-wait", RC | XRC | UC | UD, COMPLETES(SEND), FLAGS(STAYS)),

	/* A name only: the device does not have this opcode. */
	[IBV_WR_DRIVER1] = { .name = "DRIVER1", .words = "driver1" },
};
/* clang-format on */

void vb_wr_guard_posts(void)
{
	for (int i = 0; i < VB_WR_OPCODE_COUNT; i++)
		vb_wr_rows[i].posted = 0;
}

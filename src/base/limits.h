/* SPDX-License-Identifier: BSD-2-Clause */
/* The limits of the device: queries report them, and the libraries enforce them. */
#ifndef VB_BASE_LIMITS_H
#define VB_BASE_LIMITS_H

enum {
	VB_SLOT_MIN = 1,    /* a slot is the high half of a QP number: QPN = slot << 12 | index */
	VB_SLOT_MAX = 4094, /* never 4095: no QPN may collide with 0xffffff */
	VB_SLOT_OWN_MIN = 2048, /* from here on each user has slots of its own (slot.h) */
	VB_QP_INDEX_BITS = 12,
	VB_QP_PER_SLOT = 1 << VB_QP_INDEX_BITS,
	VB_QP_ROW_BITS =
		8, /* a row is the numbers of a slot that one lane gives out (nic/lane.h) */
	VB_QP_PER_ROW = 1 << VB_QP_ROW_BITS,
	VB_QP_ROWS = VB_QP_PER_SLOT / VB_QP_PER_ROW,
	VB_QP_MAX = 65536,
	VB_LANES_MAX = 16, /* of the wire, per process (engine/wire/wire.h) */
	VB_WR_MAX = 16384, /* per send or receive queue */
	VB_SRQ_WR_MAX = 32768,
	VB_SGE_MAX = 32,
	VB_INLINE_MAX = 1024,
	VB_CQ_MAX = 65536,
	VB_CQE_MAX = 4194304,
	VB_SRQ_MAX = 16384,
	VB_XRC_SRQ_MAX = 4096, /* SRQs of XRC among them: their numbers are slot << 12 | index */
	VB_XRCD_MAX = 4096,    /* XRC domains that one process has open */
	VB_PD_MAX = 65536,
	VB_KEY_MAX = 1 << 20, /* regions and windows share one table */
	VB_MW_MAX = 65536,
	VB_PATTERN_PARTS_MAX = 4096, /* of an indirect key (nic/umr.h) */
	VB_MR_MAX = VB_KEY_MAX - VB_MW_MAX,
	VB_AH_MAX = 65536,
	VB_TM_TAGS_MAX = 1024, /* tag matching: tags of one SRQ */
	VB_TM_OPS_MAX = 1024,
	VB_TM_SGE_MAX = 8,
	VB_TM_RNDV_HEADER_MAX = 64,
	VB_RD_ATOMIC_MAX = 128, /* max_qp_rd_atom and max_qp_init_rd_atom */
	VB_MCAST_GRP_MAX = 1024,
	VB_MCAST_QP_MAX = 256,        /* QPs per group */
	VB_PKEYS_MAX = 32,            /* length of the longest P_Key table (nic/pkey.h) */
	VB_GIDS = 64,                 /* length of the GID table; at least one entry stays empty */
	VB_DM_MAX = 256,              /* device memory buffers of an opened device */
	VB_DM_BYTES_MAX = 4 << 20,    /* and their bytes: max_dm_size */
	VB_COMP_CNTR_MAX = 65536,     /* completion counters of a process */
	VB_RATE_MAX_KBPS = 100000000, /* of a QP, as ibv_modify_qp_rate_limit sets it */
};

#define VB_MSG_MAX     (1ull << 31) /* max_msg_sz */
#define VB_MR_SIZE_MAX (1ull << 46)

#endif

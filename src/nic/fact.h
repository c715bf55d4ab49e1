/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Facts of the device: limits, capabilities and attributes, each with a name. Queries report them,
 * and control calls enforce them. A profile (nic/profile.h) may replace them by those of another
 * device, as far as this device reaches. Facts are constant from vb_profile_load on.
 */
#ifndef VB_NIC_FACT_H
#define VB_NIC_FACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vb_fact {
	/* Objects and their sizes. */
	VB_FACT_MAX_MR_SIZE,
	VB_FACT_PAGE_SIZE_CAP,
	VB_FACT_MAX_QP,
	VB_FACT_MAX_QP_WR,
	VB_FACT_MAX_SGE,
	VB_FACT_MAX_SGE_RD,
	VB_FACT_MAX_INLINE_DATA,
	VB_FACT_INLINE_EXCESS,
	VB_FACT_MAX_CQ,
	VB_FACT_MAX_CQE,
	VB_FACT_MAX_MR,
	VB_FACT_MAX_MW,
	VB_FACT_MAX_PD,
	VB_FACT_MAX_AH,
	VB_FACT_MAX_SRQ,
	VB_FACT_MAX_SRQ_WR,
	VB_FACT_MAX_SRQ_SGE,
	VB_FACT_MAX_QP_RD_ATOM,
	VB_FACT_MAX_QP_INIT_RD_ATOM,
	VB_FACT_MAX_RES_RD_ATOM,
	VB_FACT_MAX_MCAST_GRP,
	VB_FACT_MAX_MCAST_QP_ATTACH,
	VB_FACT_MAX_TOTAL_MCAST_QP_ATTACH,
	VB_FACT_MAX_DM_SIZE,
	VB_FACT_MAX_CQ_COUNT,
	VB_FACT_MAX_CQ_PERIOD,
	/* The memory of send queues (nic/qp_cap.h). */
	VB_FACT_SQ_BYTES_MAX,
	VB_FACT_SQ_WQE_BYTES_MAX,
	VB_FACT_SQ_WQE_BYTES_ALIGN,
	VB_FACT_SQ_WQE_BYTES_SEND,
	VB_FACT_SQ_WQE_BYTES_RDMA,
	VB_FACT_SQ_WQE_BYTES_ATOMIC,
	VB_FACT_SQ_WQE_BYTES_BIND,
	VB_FACT_SQ_WQE_BYTES_UD,
	VB_FACT_SQ_WQE_BYTES_XRC,
	/* Capabilities. */
	VB_FACT_VERBS,
	VB_FACT_QP_TYPES,
	VB_FACT_SEND_OPS,
	VB_FACT_WC_FLAGS,
	VB_FACT_ATOMIC_CAP,
	VB_FACT_DEVICE_CAP_FLAGS,
	VB_FACT_ODP_GENERAL,
	VB_FACT_ODP_RC,
	VB_FACT_ODP_UC,
	VB_FACT_ODP_UD,
	VB_FACT_ODP_XRC,
	/* Tag matching. */
	VB_FACT_TM_MAX_NUM_TAGS,
	VB_FACT_TM_MAX_OPS,
	VB_FACT_TM_MAX_SGE,
	VB_FACT_TM_MAX_RNDV_HDR_SIZE,
	/* Frames, and rates. */
	VB_FACT_RAW_PACKET_CAPS,
	VB_FACT_MAX_TSO,
	VB_FACT_MAX_WQ_TYPE_RQ,
	VB_FACT_MAX_RWQ_INDIRECTION_TABLES,
	VB_FACT_MAX_RWQ_INDIRECTION_TABLE_SIZE,
	VB_FACT_RX_HASH_FIELDS,
	VB_FACT_QP_RATE_LIMIT_MAX,
	VB_FACT_RATE_LIMIT_QP_TYPES,
	/* The port. */
	VB_FACT_MAX_MTU,
	VB_FACT_MAX_MSG_SZ,
	VB_FACT_GID_TBL_LEN,
	VB_FACT_PKEY_TBL_LEN,
	VB_FACT_COUNT
};

enum vb_fact_kind {
	VB_FACT_AT_MOST, /* a number, up to that of this device */
	VB_FACT_PLAIN,   /* a number that this device has no counterpart of */
	VB_FACT_CHOICE,  /* one word, of a value up to that of this device */
	VB_FACT_SET,     /* words, of which those of this device count */
};

struct vb_fact_word {
	const char *word;
	uint64_t value; /* SET: bits */
};

struct vb_fact_row {
	const char *name;
	enum vb_fact_kind kind;
	uint64_t own;                     /* of this device; SET: all bits that it has */
	const struct vb_fact_word *words; /* of CHOICE and SET; the last has no word */
};

extern const struct vb_fact_row vb_fact_rows[VB_FACT_COUNT];

/* How a larger max_inline_data ends: ibv_create_qp fails, or grants less than was asked for. */
enum vb_inline_excess { VB_INLINE_EXCESS_LOWERS, VB_INLINE_EXCESS_FAILS };

/* Calls of verbs that not every device has: the bits of VB_FACT_VERBS. */
enum vb_verb {
	VB_VERB_ADVISE_MR = 1 << 0,
	VB_VERB_ALLOC_DM = 1 << 1,
	VB_VERB_ALLOC_MW = 1 << 2,
	VB_VERB_ALLOC_NULL_MR = 1 << 3,
	VB_VERB_ALLOC_PARENT_DOMAIN = 1 << 4,
	VB_VERB_ALLOC_TD = 1 << 5,
	VB_VERB_ATTACH_MCAST = 1 << 6,
	VB_VERB_CREATE_COUNTERS = 1 << 7,
	VB_VERB_CREATE_CQ_EX = 1 << 8,
	VB_VERB_CREATE_FLOW = 1 << 9,
	VB_VERB_CREATE_QP_EX = 1 << 10,
	VB_VERB_CREATE_SRQ = 1 << 11,
	VB_VERB_CREATE_SRQ_EX = 1 << 12,
	VB_VERB_CREATE_WQ = 1 << 13,
	VB_VERB_MODIFY_CQ = 1 << 14,
	VB_VERB_MODIFY_QP_RATE_LIMIT = 1 << 15,
	VB_VERB_OPEN_XRCD = 1 << 16,
	VB_VERB_QUERY_RT_VALUES = 1 << 17,
	VB_VERB_REG_DMABUF_MR = 1 << 18,
	VB_VERB_REREG_MR = 1 << 19,
	VB_VERB_RESIZE_CQ = 1 << 20,
	VB_VERBS_ALL = (1 << 21) - 1,
};

/* Those of XRC are one word in VB_FACT_QP_TYPES. */
enum { VB_QP_TYPES_XRC = 1 << 9 | 1 << 10 }; /* IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV */

/* The fact that is in force. */
uint64_t vb_fact(enum vb_fact fact);
/* The same for a fact that fits into an int. */
static inline uint32_t vb_fact_u32(enum vb_fact fact)
{
	return (uint32_t)vb_fact(fact);
}
static inline bool vb_fact_has(enum vb_fact fact, uint64_t bits)
{
	return (vb_fact(fact) & bits) == bits;
}

/* The part of another device's value that this device has: often the value itself. */
uint64_t vb_fact_within(enum vb_fact fact, uint64_t value);
/* Replaces all facts, once. */
void vb_facts_set(const uint64_t values[VB_FACT_COUNT]);

#endif

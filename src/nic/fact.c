/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/fact.h"

#include <infiniband/verbs.h>
#include <string.h>

#include "abi/flush.h"
#include "base/limits.h"
#include "nic/wq.h"

/* Bits of device_cap_flags_ex without names in older headers. */
#define CAP_FLUSH_GLOBAL     (1ull << 38)
#define CAP_FLUSH_PERSISTENT (1ull << 39)
#define CAP_ATOMIC_WRITE     (1ull << 40)

/* IBV_ODP_SUPPORT_FLUSH and IBV_ODP_SUPPORT_ATOMIC_WRITE, in headers from rdma-core 58 on. */
enum { ODP_FLUSH = 1 << 6, ODP_ATOMIC_WRITE = 1 << 7 };

/* --- words --- */

/* clang-format off */
#define QP_TYPE(NAME) { #NAME, 1 << IBV_QPT_##NAME }
#define OP(NAME)      { #NAME, IBV_QP_EX_WITH_##NAME }
#define WC(NAME)      { #NAME, IBV_WC_EX_WITH_##NAME }
#define CAP(NAME)     { #NAME, IBV_DEVICE_##NAME }
#define ODP(NAME)     { #NAME, IBV_ODP_SUPPORT_##NAME }
#define RAW(NAME)     { #NAME, IBV_RAW_PACKET_CAP_##NAME }
#define HASH(NAME)    { #NAME, IBV_RX_HASH_##NAME }
/* clang-format on */

static const struct vb_fact_word inline_excess[] = {
	{ "lowers", VB_INLINE_EXCESS_LOWERS },
	{ "fails", VB_INLINE_EXCESS_FAILS },
	{ NULL },
};

static const struct vb_fact_word verbs[] = {
	{ "advise_mr", VB_VERB_ADVISE_MR },
	{ "alloc_dm", VB_VERB_ALLOC_DM },
	{ "alloc_mw", VB_VERB_ALLOC_MW },
	{ "alloc_null_mr", VB_VERB_ALLOC_NULL_MR },
	{ "alloc_parent_domain", VB_VERB_ALLOC_PARENT_DOMAIN },
	{ "alloc_td", VB_VERB_ALLOC_TD },
	{ "attach_mcast", VB_VERB_ATTACH_MCAST },
	{ "create_counters", VB_VERB_CREATE_COUNTERS },
	{ "create_cq_ex", VB_VERB_CREATE_CQ_EX },
	{ "create_flow", VB_VERB_CREATE_FLOW },
	{ "create_qp_ex", VB_VERB_CREATE_QP_EX },
	{ "create_srq", VB_VERB_CREATE_SRQ },
	{ "create_srq_ex", VB_VERB_CREATE_SRQ_EX },
	{ "create_wq", VB_VERB_CREATE_WQ },
	{ "modify_cq", VB_VERB_MODIFY_CQ },
	{ "modify_qp_rate_limit", VB_VERB_MODIFY_QP_RATE_LIMIT },
	{ "open_xrcd", VB_VERB_OPEN_XRCD },
	{ "query_rt_values", VB_VERB_QUERY_RT_VALUES },
	{ "reg_dmabuf_mr", VB_VERB_REG_DMABUF_MR },
	{ "rereg_mr", VB_VERB_REREG_MR },
	{ "resize_cq", VB_VERB_RESIZE_CQ },
	{ NULL },
};

static const struct vb_fact_word qp_types[] = {
	QP_TYPE(RC), QP_TYPE(UC), QP_TYPE(UD), QP_TYPE(RAW_PACKET), { "XRC", VB_QP_TYPES_XRC },
	{ NULL },
};

static const struct vb_fact_word send_ops[] = {
	OP(SEND),
	OP(SEND_WITH_IMM),
	OP(SEND_WITH_INV),
	OP(RDMA_WRITE),
	OP(RDMA_WRITE_WITH_IMM),
	OP(RDMA_READ),
	OP(ATOMIC_CMP_AND_SWP),
	OP(ATOMIC_FETCH_AND_ADD),
	OP(ATOMIC_WRITE),
	OP(FLUSH),
	OP(BIND_MW),
	OP(LOCAL_INV),
	OP(TSO),
	{ NULL },
};

static const struct vb_fact_word wc_flags[] = {
	WC(BYTE_LEN), WC(IMM),      WC(QP_NUM),         WC(SRC_QP),
	WC(SLID),     WC(SL),       WC(DLID_PATH_BITS), WC(COMPLETION_TIMESTAMP),
	WC(CVLAN),    WC(FLOW_TAG), WC(TM_INFO),        WC(COMPLETION_TIMESTAMP_WALLCLOCK),
	{ NULL },
};

static const struct vb_fact_word atomic_caps[] = {
	{ "NONE", IBV_ATOMIC_NONE },
	{ "HCA", IBV_ATOMIC_HCA },
	{ "GLOB", IBV_ATOMIC_GLOB },
	{ NULL },
};

static const struct vb_fact_word device_caps[] = {
	CAP(RESIZE_MAX_WR),
	CAP(BAD_PKEY_CNTR),
	CAP(BAD_QKEY_CNTR),
	CAP(RAW_MULTI),
	CAP(AUTO_PATH_MIG),
	CAP(CHANGE_PHY_PORT),
	CAP(UD_AV_PORT_ENFORCE),
	CAP(CURR_QP_STATE_MOD),
	CAP(SHUTDOWN_PORT),
	CAP(INIT_TYPE),
	CAP(PORT_ACTIVE_EVENT),
	CAP(SYS_IMAGE_GUID),
	CAP(RC_RNR_NAK_GEN),
	CAP(SRQ_RESIZE),
	CAP(N_NOTIFY_CQ),
	CAP(MEM_WINDOW),
	CAP(UD_IP_CSUM),
	CAP(XRC),
	CAP(MEM_MGT_EXTENSIONS),
	CAP(MEM_WINDOW_TYPE_2A),
	CAP(MEM_WINDOW_TYPE_2B),
	CAP(RC_IP_CSUM),
	CAP(RAW_IP_CSUM),
	CAP(MANAGED_FLOW_STEERING),
	CAP(RAW_SCATTER_FCS),
	CAP(PCI_WRITE_END_PADDING),
	{ "FLUSH_GLOBAL", CAP_FLUSH_GLOBAL },
	{ "FLUSH_PERSISTENT", CAP_FLUSH_PERSISTENT },
	{ "ATOMIC_WRITE", CAP_ATOMIC_WRITE },
	{ NULL },
};

static const struct vb_fact_word odp_general[] = {
	{ "SUPPORT", IBV_ODP_SUPPORT },
	{ "IMPLICIT", IBV_ODP_SUPPORT_IMPLICIT },
	{ NULL },
};

static const struct vb_fact_word odp_operations[] = {
	ODP(SEND),
	ODP(RECV),
	ODP(WRITE),
	ODP(READ),
	ODP(ATOMIC),
	ODP(SRQ_RECV),
	{ "FLUSH", ODP_FLUSH },
	{ "ATOMIC_WRITE", ODP_ATOMIC_WRITE },
	{ NULL },
};

static const struct vb_fact_word raw_caps[] = {
	RAW(CVLAN_STRIPPING), RAW(SCATTER_FCS), RAW(IP_CSUM), RAW(DELAY_DROP), { NULL },
};

static const struct vb_fact_word hash_fields[] = {
	HASH(SRC_IPV4),          HASH(DST_IPV4),          HASH(SRC_IPV6),     HASH(DST_IPV6),
	HASH(SRC_PORT_TCP),      HASH(DST_PORT_TCP),      HASH(SRC_PORT_UDP), HASH(DST_PORT_UDP),
	{ "IPSEC_SPI", 1 << 8 }, { "INNER", 1ull << 31 }, { NULL },
};

static const struct vb_fact_word mtus[] = {
	{ "256", IBV_MTU_256 },   { "512", IBV_MTU_512 },   { "1024", IBV_MTU_1024 },
	{ "2048", IBV_MTU_2048 }, { "4096", IBV_MTU_4096 }, { NULL },
};

/* --- this device --- */

/*
 * Missing here: RESIZE_MAX_WR, CHANGE_PHY_PORT, SHUTDOWN_PORT, INIT_TYPE (verbs have no call for
 * such changes), N_NOTIFY_CQ, RAW_MULTI, checksums of UD and RC, MEM_MGT_EXTENSIONS (fast
 * registration). Which of them a device shows depends on its link layer, too (device_attr.c).
 */
#define OWN_CAPS                                                                                \
	(IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_AUTO_PATH_MIG |       \
	 IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_CURR_QP_STATE_MOD |                         \
	 IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | \
	 IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |                       \
	 IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_RAW_IP_CSUM |                               \
	 IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_RAW_SCATTER_FCS | CAP_FLUSH_GLOBAL |     \
	 CAP_ATOMIC_WRITE)

enum {
	CONNECTED = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC,
	OWN_QP_TYPES = CONNECTED | 1 << IBV_QPT_UD | 1 << IBV_QPT_RAW_PACKET | VB_QP_TYPES_XRC,
	OWN_RATE_QP_TYPES = CONNECTED | 1 << IBV_QPT_UD | 1 << IBV_QPT_RAW_PACKET,
	OWN_SEND_OPS = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
		       IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
		       IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
		       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
		       IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_BIND_MW |
		       IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_TSO,
	OWN_WC_FLAGS = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_FLOW_TAG |
		       IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_TM_INFO,
	/* Every operation that names memory may name memory on demand. */
	ODP_TWO_SIDED = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
	ODP_RELIABLE = ODP_TWO_SIDED | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
		       IBV_ODP_SUPPORT_ATOMIC | ODP_FLUSH | ODP_ATOMIC_WRITE,
	OWN_RAW_CAPS = IBV_RAW_PACKET_CAP_IP_CSUM | IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
		       IBV_RAW_PACKET_CAP_SCATTER_FCS,
};

/* clang-format off */
#define AT_MOST(NAME, OWN)       { NAME, VB_FACT_AT_MOST, OWN, NULL }
#define PLAIN(NAME)              { NAME, VB_FACT_PLAIN, 0, NULL }
#define CHOICE(NAME, OWN, WORDS) { NAME, VB_FACT_CHOICE, OWN, WORDS }
#define SET(NAME, OWN, WORDS)    { NAME, VB_FACT_SET, OWN, WORDS }

const struct vb_fact_row vb_fact_rows[VB_FACT_COUNT] = {
	[VB_FACT_MAX_MR_SIZE] = AT_MOST("max_mr_size", VB_MR_SIZE_MAX),
	[VB_FACT_PAGE_SIZE_CAP] = { "page_size_cap", VB_FACT_SET, ~UINT64_C(4095), NULL },
	[VB_FACT_MAX_QP] = AT_MOST("max_qp", VB_QP_MAX),
	[VB_FACT_MAX_QP_WR] = AT_MOST("max_qp_wr", VB_WR_MAX),
	[VB_FACT_MAX_SGE] = AT_MOST("max_sge", VB_SGE_MAX),
	[VB_FACT_MAX_SGE_RD] = AT_MOST("max_sge_rd", VB_SGE_MAX),
	[VB_FACT_MAX_INLINE_DATA] = AT_MOST("max_inline_data", VB_INLINE_MAX),
	[VB_FACT_INLINE_EXCESS] = CHOICE("inline_excess", VB_INLINE_EXCESS_FAILS, inline_excess),
	[VB_FACT_MAX_CQ] = AT_MOST("max_cq", VB_CQ_MAX),
	[VB_FACT_MAX_CQE] = AT_MOST("max_cqe", VB_CQE_MAX),
	[VB_FACT_MAX_MR] = AT_MOST("max_mr", VB_MR_MAX),
	[VB_FACT_MAX_MW] = AT_MOST("max_mw", VB_MW_MAX),
	[VB_FACT_MAX_PD] = AT_MOST("max_pd", VB_PD_MAX),
	[VB_FACT_MAX_AH] = AT_MOST("max_ah", VB_AH_MAX),
	[VB_FACT_MAX_SRQ] = AT_MOST("max_srq", VB_SRQ_MAX),
	[VB_FACT_MAX_SRQ_WR] = AT_MOST("max_srq_wr", VB_SRQ_WR_MAX),
	[VB_FACT_MAX_SRQ_SGE] = AT_MOST("max_srq_sge", VB_SGE_MAX),
	[VB_FACT_MAX_QP_RD_ATOM] = AT_MOST("max_qp_rd_atom", VB_RD_ATOMIC_MAX),
	[VB_FACT_MAX_QP_INIT_RD_ATOM] = AT_MOST("max_qp_init_rd_atom", VB_RD_ATOMIC_MAX),
	[VB_FACT_MAX_RES_RD_ATOM] = AT_MOST("max_res_rd_atom", VB_RD_ATOMIC_MAX * VB_QP_MAX),
	[VB_FACT_MAX_MCAST_GRP] = AT_MOST("max_mcast_grp", VB_MCAST_GRP_MAX),
	[VB_FACT_MAX_MCAST_QP_ATTACH] = AT_MOST("max_mcast_qp_attach", VB_MCAST_QP_MAX),
	[VB_FACT_MAX_TOTAL_MCAST_QP_ATTACH] =
		AT_MOST("max_total_mcast_qp_attach", VB_MCAST_GRP_MAX),
	[VB_FACT_MAX_DM_SIZE] = AT_MOST("max_dm_size", VB_DM_BYTES_MAX),
	[VB_FACT_MAX_CQ_COUNT] = AT_MOST("max_cq_count", UINT16_MAX),
	[VB_FACT_MAX_CQ_PERIOD] = AT_MOST("max_cq_period", UINT16_MAX),

	[VB_FACT_SQ_BYTES_MAX] = PLAIN("sq_bytes_max"),
	[VB_FACT_SQ_WQE_BYTES_MAX] = PLAIN("sq_wqe_bytes_max"),
	[VB_FACT_SQ_WQE_BYTES_ALIGN] = PLAIN("sq_wqe_bytes_align"),
	[VB_FACT_SQ_WQE_BYTES_SEND] = PLAIN("sq_wqe_bytes_send"),
	[VB_FACT_SQ_WQE_BYTES_RDMA] = PLAIN("sq_wqe_bytes_rdma"),
	[VB_FACT_SQ_WQE_BYTES_ATOMIC] = PLAIN("sq_wqe_bytes_atomic"),
	[VB_FACT_SQ_WQE_BYTES_BIND] = PLAIN("sq_wqe_bytes_bind"),
	[VB_FACT_SQ_WQE_BYTES_UD] = PLAIN("sq_wqe_bytes_ud"),
	[VB_FACT_SQ_WQE_BYTES_XRC] = PLAIN("sq_wqe_bytes_xrc"),

	[VB_FACT_VERBS] = SET("verbs", VB_VERBS_ALL, verbs),
	[VB_FACT_QP_TYPES] = SET("qp_types", OWN_QP_TYPES, qp_types),
	[VB_FACT_SEND_OPS] = SET("send_ops", OWN_SEND_OPS, send_ops),
	[VB_FACT_WC_FLAGS] = SET("wc_flags", OWN_WC_FLAGS, wc_flags),
	[VB_FACT_ATOMIC_CAP] = CHOICE("atomic_cap", IBV_ATOMIC_HCA, atomic_caps),
	[VB_FACT_DEVICE_CAP_FLAGS] = SET("device_cap_flags", OWN_CAPS, device_caps),
	[VB_FACT_ODP_GENERAL] = SET("odp_general", IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
				    odp_general),
	[VB_FACT_ODP_RC] = SET("odp_rc", ODP_RELIABLE, odp_operations),
	[VB_FACT_ODP_UC] = SET("odp_uc", ODP_TWO_SIDED | IBV_ODP_SUPPORT_WRITE, odp_operations),
	[VB_FACT_ODP_UD] = SET("odp_ud", ODP_TWO_SIDED, odp_operations),
	[VB_FACT_ODP_XRC] = SET("odp_xrc", ODP_RELIABLE & ~IBV_ODP_SUPPORT_RECV, odp_operations),

	[VB_FACT_TM_MAX_NUM_TAGS] = AT_MOST("tm_max_num_tags", VB_TM_TAGS_MAX),
	[VB_FACT_TM_MAX_OPS] = AT_MOST("tm_max_ops", VB_TM_OPS_MAX),
	[VB_FACT_TM_MAX_SGE] = AT_MOST("tm_max_sge", VB_TM_SGE_MAX),
	[VB_FACT_TM_MAX_RNDV_HDR_SIZE] = AT_MOST("tm_max_rndv_hdr_size", VB_TM_RNDV_HEADER_MAX),

	[VB_FACT_RAW_PACKET_CAPS] = SET("raw_packet_caps", OWN_RAW_CAPS, raw_caps),
	[VB_FACT_MAX_TSO] = AT_MOST("max_tso", VB_TSO_MAX),
	[VB_FACT_MAX_WQ_TYPE_RQ] = AT_MOST("max_wq_type_rq", VB_WQ_MAX),
	[VB_FACT_MAX_RWQ_INDIRECTION_TABLES] =
		AT_MOST("max_rwq_indirection_tables", VB_IND_TABLE_MAX),
	[VB_FACT_MAX_RWQ_INDIRECTION_TABLE_SIZE] =
		AT_MOST("max_rwq_indirection_table_size", 1 << VB_IND_TABLE_LOG_SIZE_MAX),
	[VB_FACT_RX_HASH_FIELDS] = SET("rx_hash_fields", VB_RX_HASH_FIELDS, hash_fields),
	[VB_FACT_QP_RATE_LIMIT_MAX] = AT_MOST("qp_rate_limit_max", VB_RATE_MAX_KBPS),
	[VB_FACT_RATE_LIMIT_QP_TYPES] = SET("rate_limit_qp_types", OWN_RATE_QP_TYPES, qp_types),

	[VB_FACT_MAX_MTU] = CHOICE("max_mtu", IBV_MTU_4096, mtus),
	[VB_FACT_MAX_MSG_SZ] = AT_MOST("max_msg_sz", VB_MSG_MAX),
	[VB_FACT_GID_TBL_LEN] = AT_MOST("gid_tbl_len", VB_GIDS),
	[VB_FACT_PKEY_TBL_LEN] = AT_MOST("pkey_tbl_len", VB_PKEYS_MAX),
};
/* clang-format on */

/* --- in force --- */

static uint64_t in_force[VB_FACT_COUNT]; /* written by vb_facts_set, before set */
static bool set;

uint64_t vb_fact(enum vb_fact fact)
{
	return set ? in_force[fact] : vb_fact_rows[fact].own;
}

uint64_t vb_fact_within(enum vb_fact fact, uint64_t value)
{
	const struct vb_fact_row *row = &vb_fact_rows[fact];

	if (row->kind == VB_FACT_SET)
		return value & row->own;
	return row->kind == VB_FACT_PLAIN || value < row->own ? value : row->own;
}

void vb_facts_set(const uint64_t values[VB_FACT_COUNT])
{
	memcpy(in_force, values, sizeof(in_force));
	set = true;
}

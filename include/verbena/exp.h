/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The experimental verbs (ibv_exp_*) of the RDMA-aware programming manual, as far as they have a
 * meaning here. Names and values are those of the manual's time, so that its sources compile;
 * binaries of that time do not run. Link with -lverbena-legacy. verbena-exp(7) has the details.
 *
 * Calls that return int return 0 or an error number, which is in errno as well. Calls that return
 * a pointer return NULL and errno. A comp_mask with an unknown bit is EINVAL. What the device does
 * not have is EOPNOTSUPP.
 */
#ifndef VERBENA_EXP_H
#define VERBENA_EXP_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IBV_EXP_START_ENUM     0x40
#define IBV_EXP_START_FLAG_LOC 0x20
#define IBV_EXP_START_FLAG     (1ull << IBV_EXP_START_FLAG_LOC)

/* --- device --- */

enum ibv_exp_atomic_cap {
	IBV_EXP_ATOMIC_NONE = IBV_ATOMIC_NONE,
	IBV_EXP_ATOMIC_HCA = IBV_ATOMIC_HCA,
	IBV_EXP_ATOMIC_GLOB = IBV_ATOMIC_GLOB,
	IBV_EXP_ATOMIC_HCA_REPLY_BE = IBV_EXP_START_ENUM,
};

/* exp_device_cap_flags: the bits of device_cap_flags, and these. */
enum ibv_exp_device_cap_flags {
	IBV_EXP_DEVICE_RESIZE_MAX_WR = IBV_DEVICE_RESIZE_MAX_WR,
	IBV_EXP_DEVICE_BAD_PKEY_CNTR = IBV_DEVICE_BAD_PKEY_CNTR,
	IBV_EXP_DEVICE_BAD_QKEY_CNTR = IBV_DEVICE_BAD_QKEY_CNTR,
	IBV_EXP_DEVICE_AUTO_PATH_MIG = IBV_DEVICE_AUTO_PATH_MIG,
	IBV_EXP_DEVICE_RC_RNR_NAK_GEN = IBV_DEVICE_RC_RNR_NAK_GEN,
	IBV_EXP_DEVICE_SRQ_RESIZE = IBV_DEVICE_SRQ_RESIZE,
	IBV_EXP_DEVICE_XRC = IBV_DEVICE_XRC,
	IBV_EXP_DEVICE_DC_TRANSPORT = IBV_EXP_START_FLAG << 0,
	IBV_EXP_DEVICE_QPG = IBV_EXP_START_FLAG << 1,
	IBV_EXP_DEVICE_EXT_ATOMICS = IBV_EXP_START_FLAG << 4,
	IBV_EXP_DEVICE_NOP = IBV_EXP_START_FLAG << 5,
	IBV_EXP_DEVICE_UMR = IBV_EXP_START_FLAG << 6,
	IBV_EXP_DEVICE_ODP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_DEVICE_EC_OFFLOAD = IBV_EXP_START_FLAG << 13,
	IBV_EXP_DEVICE_EXT_MASKED_ATOMICS = IBV_EXP_START_FLAG << 14,
	IBV_EXP_DEVICE_MEM_WINDOW = IBV_EXP_START_FLAG << 17,
	IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS = IBV_EXP_START_FLAG << 21,
	IBV_EXP_DEVICE_MW_TYPE_2A = IBV_EXP_START_FLAG << 23,
	IBV_EXP_DEVICE_MW_TYPE_2B = IBV_EXP_START_FLAG << 24,
	IBV_EXP_DEVICE_CROSS_CHANNEL = IBV_EXP_START_FLAG << 28,
	IBV_EXP_DEVICE_MR_ALLOCATE = IBV_EXP_START_FLAG << 30,
	IBV_EXP_DEVICE_SHARED_MR = IBV_EXP_START_FLAG << 31,
};

/* comp_mask: what is wanted of what follows it; afterwards: what there is. */
enum ibv_exp_device_attr_comp_mask {
	IBV_EXP_DEVICE_ATTR_CALC_CAP = 1 << 0,
	IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK = 1 << 1,
	IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK = 1 << 2,
	IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = 1 << 3,
	IBV_EXP_DEVICE_DC_RD_REQ = 1 << 4,
	IBV_EXP_DEVICE_DC_RD_RES = 1 << 5,
	IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ = 1 << 6,
	IBV_EXP_DEVICE_ATTR_RSS_TBL_SZ = 1 << 7,
	IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS = 1 << 8,
	IBV_EXP_DEVICE_ATTR_UMR = 1 << 9,
	IBV_EXP_DEVICE_ATTR_ODP = 1 << 10,
	IBV_EXP_DEVICE_ATTR_MAX_DCT = 1 << 11,
	IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN = 1 << 12,
	IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS = 1 << 19,
	IBV_EXP_DEVICE_ATTR_RESERVED = 1 << 20,
};

struct ibv_exp_device_calc_cap {
	uint64_t data_types, data_sizes, int_ops, uint_ops, fp_ops;
};

struct ibv_exp_ext_atomics_params {
	uint64_t log_atomic_arg_sizes; /* sizes of operands in bytes, each a bit of that value */
	uint32_t max_fa_bit_boundary;  /* bits of the widest fetch and add */
	uint32_t log_max_atomic_inline;
};

struct ibv_exp_masked_atomic_params {
	uint32_t max_fa_bit_boundary;
	uint32_t log_max_atomic_inline;
	uint64_t masked_log_atomic_arg_sizes;
	uint64_t masked_log_atomic_arg_sizes_network_endianness;
};

struct ibv_exp_umr_caps {
	uint32_t max_klm_list_size;        /* entries of a key */
	uint32_t max_send_wqe_inline_klms; /* entries that a work request itself can carry */
	uint32_t max_umr_recursion_depth;  /* 1: an entry names ordinary regions only */
	uint32_t max_umr_stride_dimension;
};

struct ibv_exp_odp_caps {
	uint64_t general_odp_caps;
	struct {
		uint32_t rc_odp_caps, uc_odp_caps, ud_odp_caps, dc_odp_caps, xrc_odp_caps,
			raw_eth_odp_caps;
	} per_transport_caps;
};

struct ibv_exp_device_attr {
	char fw_ver[64];
	uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int max_qp, max_qp_wr, reserved, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
	int max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom;
	int max_ee_init_rd_atom;
	enum ibv_exp_atomic_cap exp_atomic_cap;
	int max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp;
	int max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr;
	int max_srq, max_srq_wr, max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
	uint32_t comp_mask;
	struct ibv_exp_device_calc_cap calc_cap;
	uint64_t timestamp_mask, hca_core_clock, exp_device_cap_flags;
	int max_dc_req_rd_atom, max_dc_res_rd_atom;
	int inline_recv_sz;
	uint32_t max_rss_tbl_sz;
	struct ibv_exp_ext_atomics_params ext_atom;
	struct ibv_exp_umr_caps umr_caps;
	struct ibv_exp_odp_caps odp_caps;
	int max_dct, max_ctx_res_domain;
	struct ibv_exp_masked_atomic_params masked_atomic;
};

int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr);

enum ibv_exp_query_port_attr_comp_mask {
	IBV_EXP_QUERY_PORT_ATTR_MASK1 = 1 << 0,
	IBV_EXP_QUERY_PORT_ATTR_RESERVED = 1 << 1,
};

enum { IBV_EXP_QUERY_PORT_STD_MASK = (1 << 20) - 1 }; /* a bit of mask1 for each member */

struct ibv_exp_port_attr {
	struct ibv_port_attr port_attr;
	uint32_t comp_mask, mask1;
};

/* All members are filled, whatever mask1 asks for. */
int ibv_exp_query_port(struct ibv_context *context, uint8_t port_num,
		       struct ibv_exp_port_attr *attr);

enum ibv_exp_roce_gid_type {
	IBV_EXP_IB_ROCE_V1_GID_TYPE,
	IBV_EXP_ROCE_V2_GID_TYPE,
	IBV_EXP_ROCE_V1_5_GID_TYPE,
};

enum ibv_exp_query_gid_attr {
	IBV_EXP_QUERY_GID_ATTR_TYPE = 1 << 0,
	IBV_EXP_QUERY_GID_ATTR_GID = 1 << 1,
	IBV_EXP_QUERY_GID_ATTR_RESERVED = 1 << 2,
};

struct ibv_exp_gid_attr {
	uint32_t comp_mask;
	enum ibv_exp_roce_gid_type type;
	union ibv_gid gid;
};

int ibv_exp_query_gid_attr(struct ibv_context *context, uint8_t port_num, unsigned int index,
			   struct ibv_exp_gid_attr *attr);

enum ibv_exp_values_comp_mask {
	IBV_EXP_VALUES_HW_CLOCK_NS = 1 << 0,
	IBV_EXP_VALUES_HW_CLOCK = 1 << 1,
	IBV_EXP_VALUES_RESERVED = 1 << 2,
};

struct ibv_exp_values {
	uint32_t comp_mask;
	uint64_t hwclock_ns, hwclock;
};

/* The clock of completion timestamps, which counts nanoseconds. */
int ibv_exp_query_values(struct ibv_context *context, int q_values, struct ibv_exp_values *values);

/* --- resource domains: hints about threads, which this device does not need --- */

enum ibv_exp_thread_model {
	IBV_EXP_THREAD_SAFE,
	IBV_EXP_THREAD_UNSAFE,
	IBV_EXP_THREAD_SINGLE,
};

enum ibv_exp_msg_model {
	IBV_EXP_MSG_DEFAULT,
	IBV_EXP_MSG_LOW_LATENCY,
	IBV_EXP_MSG_HIGH_BW,
	IBV_EXP_MSG_FORCE_LOW_LATENCY,
};

enum ibv_exp_res_domain_init_attr_comp_mask {
	IBV_EXP_RES_DOMAIN_THREAD_MODEL = 1 << 0,
	IBV_EXP_RES_DOMAIN_MSG_MODEL = 1 << 1,
	IBV_EXP_RES_DOMAIN_RESERVED = 1 << 2,
};

struct ibv_exp_res_domain_init_attr {
	uint32_t comp_mask;
	enum ibv_exp_thread_model thread_model;
	enum ibv_exp_msg_model msg_model;
};

struct ibv_exp_destroy_res_domain_attr {
	uint32_t comp_mask;
};

struct ibv_exp_res_domain {
	struct ibv_context *context;
};

struct ibv_exp_res_domain *ibv_exp_create_res_domain(struct ibv_context *context,
						     struct ibv_exp_res_domain_init_attr *attr);
int ibv_exp_destroy_res_domain(struct ibv_context *context, struct ibv_exp_res_domain *domain,
			       struct ibv_exp_destroy_res_domain_attr *attr);

/* --- regions, windows, indirect keys --- */

enum ibv_exp_access_flags {
	IBV_EXP_ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
	IBV_EXP_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
	IBV_EXP_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
	IBV_EXP_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
	IBV_EXP_ACCESS_MW_BIND = IBV_ACCESS_MW_BIND,
	IBV_EXP_ACCESS_ALLOCATE_MR = IBV_EXP_START_FLAG << 5,
	IBV_EXP_ACCESS_SHARED_MR_USER_READ = IBV_EXP_START_FLAG << 6,
	IBV_EXP_ACCESS_SHARED_MR_USER_WRITE = IBV_EXP_START_FLAG << 7,
	IBV_EXP_ACCESS_MW_ZERO_BASED = IBV_EXP_START_FLAG << 13,
	IBV_EXP_ACCESS_ON_DEMAND = IBV_EXP_START_FLAG << 14,
	IBV_EXP_ACCESS_RELAXED = IBV_EXP_START_FLAG << 15,
	IBV_EXP_ACCESS_PHYSICAL_ADDR = IBV_EXP_START_FLAG << 16,
};

#define IBV_EXP_IMPLICIT_MR_SIZE (~(size_t)0)

enum ibv_exp_reg_mr_in_comp_mask {
	IBV_EXP_REG_MR_CREATE_FLAGS = 1 << 0,
	IBV_EXP_REG_MR_RESERVED = 1 << 1,
};

enum ibv_exp_reg_mr_create_flags { IBV_EXP_REG_MR_CREATE_CONTIG = 1 << 0 };

struct ibv_exp_reg_mr_in {
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint64_t exp_access;
	uint32_t comp_mask, create_flags;
};

/* ibv_dereg_mr ends the region. ALLOCATE_MR, sharing and physical addresses: EOPNOTSUPP. */
struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in);

enum ibv_exp_prefetch_attr_flags { IBV_EXP_PREFETCH_WRITE_ACCESS = 1 << 0 };

struct ibv_exp_prefetch_attr {
	uint32_t flags;
	void *addr;
	size_t length;
	uint32_t comp_mask;
};

int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr);

struct ibv_exp_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr, length, exp_mw_access_flags;
};

struct ibv_exp_mw_bind {
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	uint64_t wr_id, exp_send_flags;
	struct ibv_exp_mw_bind_info bind_info;
	uint32_t comp_mask; /* 0 */
};

/* Type 1. */
int ibv_exp_bind_mw(struct ibv_exp_mw_bind *bind);

enum ibv_exp_mr_create_flags {
	IBV_EXP_MR_SIGNATURE_EN = 1 << 0,
	IBV_EXP_MR_INDIRECT_KLMS = 1 << 1,
};

struct ibv_exp_mr_init_attr {
	uint32_t max_klm_list_size, create_flags;
	uint64_t exp_access_flags; /* checked; the UMR work request gives the rights */
};

struct ibv_exp_create_mr_in {
	struct ibv_pd *pd;
	struct ibv_exp_mr_init_attr attr;
	uint32_t comp_mask; /* 0 */
};

/* An indirect key. It opens no memory until IBV_EXP_WR_UMR_FILL has filled it. */
struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in);

struct ibv_exp_mkey_attr {
	uint32_t max_klm_list_size, comp_mask;
};

int ibv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr);

struct ibv_exp_mkey_list_container {
	uint32_t max_klm_list_size;
	struct ibv_context *context;
};

enum ibv_exp_mkey_list_type { IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR };

struct ibv_exp_mkey_list_container_attr {
	struct ibv_pd *pd;
	uint32_t mkey_list_type, max_klm_list_size, comp_mask;
};

/* Room for the entries of a UMR work request that is not inline, until it completes. */
struct ibv_exp_mkey_list_container *
ibv_exp_alloc_mkey_list_memory(struct ibv_exp_mkey_list_container_attr *attr);
int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *memory);

/* --- completion queues --- */

enum ibv_exp_cq_create_flags {
	IBV_EXP_CQ_CREATE_CROSS_CHANNEL = 1 << 0, /* work requests wait for its completions */
	IBV_EXP_CQ_TIMESTAMP = 1 << 1,
	IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME = 1 << 2,
	IBV_EXP_CQ_COMPRESSED_CQE = 1 << 3,
};

enum ibv_exp_cq_init_attr_mask {
	IBV_EXP_CQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN = 1 << 1,
	IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT = 1 << 2,
	IBV_EXP_CQ_INIT_ATTR_RESERVED1 = 1 << 3,
};

struct ibv_exp_cq_init_attr {
	uint32_t comp_mask, flags;
	struct ibv_exp_res_domain *res_domain;
};

struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				 struct ibv_comp_channel *channel, int comp_vector,
				 struct ibv_exp_cq_init_attr *attr);

enum ibv_exp_cq_attr_mask {
	IBV_EXP_CQ_MODERATION = 1 << 0,
	IBV_EXP_CQ_CAP_FLAGS = 1 << 1,
};

enum ibv_exp_cq_cap_flags { IBV_EXP_CQ_IGNORE_OVERRUN = 1 << 0 };

enum ibv_exp_cq_attr_comp_mask {
	IBV_EXP_CQ_ATTR_MODERATION = 1 << 0,
	IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS = 1 << 1,
	IBV_EXP_CQ_ATTR_RESERVED = 1 << 2,
};

struct ibv_exp_cq_attr {
	uint32_t comp_mask;
	struct {
		uint16_t cq_count, cq_period;
	} moderation;
	uint32_t cq_cap_flags;
};

int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask);

enum ibv_exp_wc_opcode {
	IBV_EXP_WC_SEND,
	IBV_EXP_WC_RDMA_WRITE,
	IBV_EXP_WC_RDMA_READ,
	IBV_EXP_WC_COMP_SWAP,
	IBV_EXP_WC_FETCH_ADD,
	IBV_EXP_WC_BIND_MW,
	IBV_EXP_WC_LOCAL_INV,
	IBV_EXP_WC_MASKED_COMP_SWAP = 9,
	IBV_EXP_WC_MASKED_FETCH_ADD = 10,
	IBV_EXP_WC_TSO,
	IBV_EXP_WC_RECV = 1 << 7,
	IBV_EXP_WC_RECV_RDMA_WITH_IMM,
	IBV_EXP_WC_UMR = 0x100,
	IBV_EXP_WC_NOP,
};

enum ibv_exp_wc_flags {
	IBV_EXP_WC_GRH = IBV_WC_GRH,
	IBV_EXP_WC_WITH_IMM = IBV_WC_WITH_IMM,
	IBV_EXP_WC_WITH_INV = IBV_WC_WITH_INV,
	IBV_EXP_WC_WITH_SL = IBV_EXP_START_FLAG << 4,
	IBV_EXP_WC_WITH_SLID = IBV_EXP_START_FLAG << 5,
	IBV_EXP_WC_WITH_TIMESTAMP = IBV_EXP_START_FLAG << 6,
	IBV_EXP_WC_QP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_WC_SRQ = IBV_EXP_START_FLAG << 8,
};

struct ibv_exp_dct;

struct ibv_exp_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_exp_wc_opcode exp_opcode;
	uint32_t vendor_err, byte_len;
	uint32_t imm_data; /* in network byte order */
	uint32_t qp_num, src_qp;
	int reserved;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
	uint64_t timestamp;  /* with IBV_EXP_WC_WITH_TIMESTAMP */
	struct ibv_qp *qp;   /* NULL: qp_num tells the QP */
	struct ibv_srq *srq; /* NULL */
	struct ibv_exp_dct *dct;
	uint64_t exp_wc_flags;
};

/* The count of completions, or -1. wc_size: that of struct ibv_exp_wc as the caller knows it. */
int ibv_exp_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_exp_wc *wc, uint32_t wc_size);

/* --- queue pairs --- */

enum ibv_exp_qp_init_attr_comp_mask {
	IBV_EXP_QP_INIT_ATTR_PD = 1 << 0,
	IBV_EXP_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_EXP_QP_INIT_ATTR_INL_RECV = 1 << 3,
	IBV_EXP_QP_INIT_ATTR_QPG = 1 << 4,
	IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG = 1 << 5,
	IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS = 1 << 6,
	IBV_EXP_QP_INIT_ATTR_RES_DOMAIN = 1 << 7,
};

enum ibv_exp_qp_create_flags {
	IBV_EXP_QP_CREATE_CROSS_CHANNEL = 1 << 2, /* WAIT and ENABLE may be posted */
	IBV_EXP_QP_CREATE_MANAGED_SEND = 1 << 3,  /* sends wait for IBV_EXP_WR_SEND_ENABLE */
	IBV_EXP_QP_CREATE_MANAGED_RECV = 1 << 4,  /* receives wait for IBV_EXP_WR_RECV_ENABLE */
	IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW = 1 << 6,
	IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW = 1 << 7,
	IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY = 1 << 8,
	IBV_EXP_QP_CREATE_UMR = 1 << 9,
};

struct ibv_exp_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t exp_create_flags;
	uint32_t max_inl_recv;      /* a hint; 0 afterwards: receives are not inlined */
	uint32_t max_atomic_arg;    /* bytes of an operand of extended atomics */
	uint32_t max_inl_send_klms; /* entries of an inline UMR work request */
	struct ibv_exp_res_domain *res_domain;
};

/* EINVAL: a limit of the device is exceeded. EOPNOTSUPP: a flag or member it does not have. */
struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr);

#define IBV_EXP_QP_STATE              ((uint64_t)IBV_QP_STATE)
#define IBV_EXP_QP_CUR_STATE          ((uint64_t)IBV_QP_CUR_STATE)
#define IBV_EXP_QP_ACCESS_FLAGS       ((uint64_t)IBV_QP_ACCESS_FLAGS)
#define IBV_EXP_QP_PKEY_INDEX         ((uint64_t)IBV_QP_PKEY_INDEX)
#define IBV_EXP_QP_PORT               ((uint64_t)IBV_QP_PORT)
#define IBV_EXP_QP_QKEY               ((uint64_t)IBV_QP_QKEY)
#define IBV_EXP_QP_AV                 ((uint64_t)IBV_QP_AV)
#define IBV_EXP_QP_PATH_MTU           ((uint64_t)IBV_QP_PATH_MTU)
#define IBV_EXP_QP_TIMEOUT            ((uint64_t)IBV_QP_TIMEOUT)
#define IBV_EXP_QP_RETRY_CNT          ((uint64_t)IBV_QP_RETRY_CNT)
#define IBV_EXP_QP_RNR_RETRY          ((uint64_t)IBV_QP_RNR_RETRY)
#define IBV_EXP_QP_RQ_PSN             ((uint64_t)IBV_QP_RQ_PSN)
#define IBV_EXP_QP_MAX_QP_RD_ATOMIC   ((uint64_t)IBV_QP_MAX_QP_RD_ATOMIC)
#define IBV_EXP_QP_MIN_RNR_TIMER      ((uint64_t)IBV_QP_MIN_RNR_TIMER)
#define IBV_EXP_QP_SQ_PSN             ((uint64_t)IBV_QP_SQ_PSN)
#define IBV_EXP_QP_MAX_DEST_RD_ATOMIC ((uint64_t)IBV_QP_MAX_DEST_RD_ATOMIC)
#define IBV_EXP_QP_CAP                ((uint64_t)IBV_QP_CAP)
#define IBV_EXP_QP_DEST_QPN           ((uint64_t)IBV_QP_DEST_QPN)

/* It begins like struct ibv_qp_attr. */
struct ibv_exp_qp_attr {
	enum ibv_qp_state qp_state, cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
	int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr, alt_ah_attr;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout;
	uint64_t dct_key;
	uint32_t comp_mask; /* 0 */
};

int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t exp_attr_mask);

#ifdef __cplusplus
}
#endif

#include <verbena/exp_wr.h>

#endif

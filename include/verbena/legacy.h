/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names that RDMA programs used before today's verbs had them: the first XRC calls, and the
 * experimental verbs (ibv_exp_*). They work on top of today's calls; link with -lverbena-legacy.
 *
 * Include it behind <infiniband/verbs.h>, or give the compiler `-include verbena/legacy.h`. Then
 *
 *   struct ibv_qp_init_attr has the member xrc_domain, struct ibv_send_wr the member
 *   xrc_remote_srq_num, struct ibv_srq the member xrc_srq_num, and there is IBV_QPT_XRC,
 *
 * which is done with macros, and in C only. Sources are compatible, binaries are not.
 */
#ifndef VERBENA_LEGACY_H
#define VERBENA_LEGACY_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- XRC --- */

struct ibv_xrc_domain {
	struct ibv_context *context;
	uint32_t handle;
};

/* struct ibv_qp_init_attr as it was. It begins like today's. */
struct ibv_legacy_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	struct ibv_xrc_domain *xrc_domain;
};

#define IBV_QPT_XRC IBV_QPT_XRC_SEND

/* NULL and errno. fd -1: a domain of this process alone; else those who name the same file. */
struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd, int oflag);
/* These and all below: 0, or an error number, which is in errno as well. EBUSY: in use. */
int ibv_close_xrc_domain(struct ibv_xrc_domain *domain);

/* NULL and errno. */
struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *domain,
				   struct ibv_cq *cq, struct ibv_srq_init_attr *attr);

/*
 * A QP that receives for all processes of attr->xrc_domain; its number is its name. It lives until
 * the last process that created or registered it has unregistered it.
 */
int ibv_create_xrc_rcv_qp(struct ibv_legacy_qp_init_attr *attr, uint32_t *qp_num);
int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num, struct ibv_qp_attr *attr,
			  int attr_mask);
int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num, struct ibv_qp_attr *attr,
			 int attr_mask, struct ibv_legacy_qp_init_attr *init_attr);
int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num);
int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num);

/* --- experimental: device --- */

#define IBV_EXP_START_ENUM 0x40
#define IBV_EXP_START_FLAG (1ull << 32)

enum ibv_exp_atomic_cap {
	IBV_EXP_ATOMIC_NONE = IBV_ATOMIC_NONE,
	IBV_EXP_ATOMIC_HCA = IBV_ATOMIC_HCA,
	IBV_EXP_ATOMIC_GLOB = IBV_ATOMIC_GLOB,
	IBV_EXP_ATOMIC_HCA_REPLY_BE = IBV_EXP_START_ENUM,
};

/* exp_device_cap_flags: the bits of device_cap_flags, and these. */
#define IBV_EXP_DEVICE_DC_TRANSPORT (IBV_EXP_START_FLAG << 0)
#define IBV_EXP_DEVICE_EXT_ATOMICS  (IBV_EXP_START_FLAG << 4)
#define IBV_EXP_DEVICE_ODP          (IBV_EXP_START_FLAG << 7)
#define IBV_EXP_DEVICE_XRC          ((uint64_t)IBV_DEVICE_XRC)

/* comp_mask: what is wanted of what follows it; afterwards: what there is. */
enum ibv_exp_device_attr_comp_mask {
	IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK = 1 << 1,
	IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK = 1 << 2,
	IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = 1 << 3,
	IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ = 1 << 6,
	IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS = 1 << 8,
	IBV_EXP_DEVICE_ATTR_ODP = 1 << 10,
	IBV_EXP_DEVICE_ATTR_RESERVED = 1 << 12,
};

struct ibv_exp_ext_atomics_params {
	uint64_t log_atomic_arg_sizes; /* sizes of operands in bytes, each a bit of that value */
	uint32_t max_fa_bit_boundary;
	uint32_t log_max_atomic_inline;
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
	uint64_t timestamp_mask, hca_core_clock, exp_device_cap_flags;
	int inline_recv_sz;
	struct ibv_exp_ext_atomics_params ext_atom;
	struct ibv_exp_odp_caps odp_caps;
};

/* 0, or an error number. */
int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr);

/* --- experimental: queue pairs --- */

enum ibv_exp_qp_init_attr_comp_mask {
	IBV_EXP_QP_INIT_ATTR_PD = 1 << 0,
	IBV_EXP_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_EXP_QP_INIT_ATTR_INL_RECV = 1 << 3,
	IBV_EXP_QP_INIT_ATTR_QPG = 1 << 4,
	IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG = 1 << 5,
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
	uint32_t exp_create_flags; /* none is supported */
	uint32_t max_inl_recv;     /* a hint; 0 afterwards: receives are not inlined */
	uint32_t max_atomic_arg;   /* bytes; up to 8 */
};

/* NULL and errno. For masked atomics ATOMICS_ARG is needed; the send queue is deeper then. */
struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr);

enum ibv_exp_wr_opcode {
	IBV_EXP_WR_RDMA_WRITE = IBV_WR_RDMA_WRITE,
	IBV_EXP_WR_RDMA_WRITE_WITH_IMM = IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_EXP_WR_SEND = IBV_WR_SEND,
	IBV_EXP_WR_SEND_WITH_IMM = IBV_WR_SEND_WITH_IMM,
	IBV_EXP_WR_RDMA_READ = IBV_WR_RDMA_READ,
	IBV_EXP_WR_ATOMIC_CMP_AND_SWP = IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_ATOMIC_FETCH_AND_ADD = IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_SEND_WITH_INV = 8 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_LOCAL_INV = 10 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_BIND_MW = 14 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP = 0x23 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
};

#define IBV_EXP_SEND_FENCE             ((uint64_t)IBV_SEND_FENCE)
#define IBV_EXP_SEND_SIGNALED          ((uint64_t)IBV_SEND_SIGNALED)
#define IBV_EXP_SEND_SOLICITED         ((uint64_t)IBV_SEND_SOLICITED)
#define IBV_EXP_SEND_INLINE            ((uint64_t)IBV_SEND_INLINE)
#define IBV_EXP_SEND_IP_CSUM           (IBV_EXP_START_FLAG << 0)
#define IBV_EXP_SEND_EXT_ATOMIC_INLINE (IBV_EXP_START_FLAG << 3)

/* Swaps the bits of swap_mask if those of compare_mask are as in compare_val. */
struct ibv_exp_cmp_swap {
	uint64_t compare_mask, compare_val, swap_val, swap_mask;
};

/* Adds; no carry leaves a bit that is set in field_boundary. */
struct ibv_exp_fetch_add {
	uint64_t add_val, field_boundary;
};

struct ibv_exp_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr, length, exp_mw_access_flags;
};

struct ibv_exp_send_wr {
	uint64_t wr_id;
	struct ibv_exp_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_exp_wr_opcode exp_opcode;
	int reserved;
	union {
		uint32_t imm_data; /* in network byte order */
		uint32_t invalidate_rkey;
	} ex;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn, remote_qkey;
		} ud;
	} wr;
	union {
		struct {
			uint32_t remote_srqn;
		} xrc;
	} qp_type;
	struct {
		struct ibv_mw *mw;
		uint32_t rkey;
		struct ibv_exp_mw_bind_info bind_info;
	} bind_mw;
	uint64_t exp_send_flags;
	uint32_t comp_mask; /* 0 */
	union {
		struct {
			uint32_t log_arg_sz; /* 3: operands of 8 bytes */
			uint64_t remote_addr;
			uint32_t rkey;
			union {
				struct {
					union {
						struct ibv_exp_cmp_swap cmp_swap;
						struct ibv_exp_fetch_add fetch_add;
					} op;
				} inline_data; /* with IBV_EXP_SEND_EXT_ATOMIC_INLINE */
			} wr_data;
		} masked_atomics;
	} ext_op;
};

/*
 * 0, or an error number and in *bad_wr the request it is about.
 *
 * Today's verbs know no masked atomics: one that is not the same as a plain one is made of several
 * plain ones, so it is atomic, too, but this call returns when it is executed. The element must be
 * ordinary memory of 8 bytes. ENOMEM: others changed the value all the time, or the send queue is
 * full; nothing was done. EOPNOTSUPP: the QP was created without ATOMICS_ARG, or reports every
 * request (sq_sig_all).
 */
int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
		      struct ibv_exp_send_wr **bad_wr);

/* --- today's calls, as the macros below have them --- */

struct ibv_qp *ibv_legacy_create_qp(struct ibv_pd *pd, struct ibv_legacy_qp_init_attr *attr);
int ibv_legacy_destroy_qp(struct ibv_qp *qp);

#ifdef __cplusplus
}
#endif

#ifndef VERBENA_LEGACY_NO_MACROS
#define ibv_destroy_qp(qp) ibv_legacy_destroy_qp(qp)
#ifndef __cplusplus
#define ibv_qp_init_attr                        ibv_legacy_qp_init_attr
#define ibv_create_qp(pd, attr)                 ibv_legacy_create_qp(pd, attr)
#define ibv_query_qp(qp, attr, mask, init_attr) ibv_query_qp(qp, attr, mask, (void *)(init_attr))
#define rdma_create_qp(id, pd, attr)            rdma_create_qp(id, pd, (void *)(attr))
#define xrc_remote_srq_num                      qp_type.xrc.remote_srqn
#define xrc_srq_num                             handle
#endif
#endif

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The experimental verbs: work requests, and the calls that post them. Part of <verbena/exp.h>. */
#ifndef VERBENA_EXP_WR_H
#define VERBENA_EXP_WR_H

#include <verbena/exp.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_exp_wr_opcode {
	IBV_EXP_WR_RDMA_WRITE = IBV_WR_RDMA_WRITE,
	IBV_EXP_WR_RDMA_WRITE_WITH_IMM = IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_EXP_WR_SEND = IBV_WR_SEND,
	IBV_EXP_WR_SEND_WITH_IMM = IBV_WR_SEND_WITH_IMM,
	IBV_EXP_WR_RDMA_READ = IBV_WR_RDMA_READ,
	IBV_EXP_WR_ATOMIC_CMP_AND_SWP = IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_ATOMIC_FETCH_AND_ADD = IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_LOCAL_INV = IBV_WR_LOCAL_INV,
	IBV_EXP_WR_BIND_MW = IBV_WR_BIND_MW,
	IBV_EXP_WR_SEND_WITH_INV = IBV_WR_SEND_WITH_INV,
	IBV_EXP_WR_TSO = 15 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_SEND_ENABLE = 0x20 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_RECV_ENABLE,
	IBV_EXP_WR_CQE_WAIT,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_NOP,
	IBV_EXP_WR_UMR_FILL,
	IBV_EXP_WR_UMR_INVALIDATE,
};

enum ibv_exp_send_flags {
	IBV_EXP_SEND_FENCE = IBV_SEND_FENCE,
	IBV_EXP_SEND_SIGNALED = IBV_SEND_SIGNALED,
	IBV_EXP_SEND_SOLICITED = IBV_SEND_SOLICITED,
	IBV_EXP_SEND_INLINE = IBV_SEND_INLINE,
	IBV_EXP_SEND_IP_CSUM = IBV_EXP_START_FLAG << 0,
	IBV_EXP_SEND_WITH_CALC = IBV_EXP_START_FLAG << 1,
	IBV_EXP_SEND_WAIT_EN_LAST = IBV_EXP_START_FLAG << 2, /* later counts begin behind it */
	IBV_EXP_SEND_EXT_ATOMIC_INLINE = IBV_EXP_START_FLAG << 3,
};

/*
 * Swaps the bits of swap_mask if those of compare_mask are as in compare_val. The members are the
 * numbers themselves, or, for operands of more than 8 bytes, addresses of such numbers.
 */
struct ibv_exp_cmp_swap {
	uint64_t compare_mask, compare_val, swap_val, swap_mask;
};

/* Adds; no carry leaves a bit that is set in field_boundary. Members as above. */
struct ibv_exp_fetch_add {
	uint64_t add_val, field_boundary;
};

/* An entry of an indirect key: bytes of a region. */
struct ibv_exp_mem_region {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t length;
};

/* An entry that is repeated: byte_count bytes, again and again at a distance of stride. */
struct ibv_exp_mem_repeat_block {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t *byte_count; /* one per dimension */
	size_t *stride;     /* likewise */
};

enum ibv_exp_umr_wr_type { IBV_EXP_UMR_MR_LIST, IBV_EXP_UMR_REPEAT };

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
	union {
		struct {
			struct ibv_cq *cq;
			int32_t cq_count; /* completions, since those of earlier waits */
		} cqe_wait;
		struct {
			struct ibv_qp *qp;
			int32_t wqe_count; /* work requests, behind those before; 0: all posted */
		} wqe_enable;
	} task;
	struct {
		struct ibv_mw *mw;
		uint32_t rkey;
		struct ibv_exp_mw_bind_info bind_info;
	} bind_mw;
	uint64_t exp_send_flags;
	uint32_t comp_mask; /* 0 */
	union {
		struct {
			uint32_t umr_type; /* enum ibv_exp_umr_wr_type */
			struct ibv_exp_mkey_list_container *memory_objects; /* without INLINE */
			uint64_t exp_access;
			struct ibv_mr *modified_mr;
			uint64_t base_addr; /* of the first byte, to those who use the key */
			uint32_t num_mrs;
			union {
				struct ibv_exp_mem_region *mem_reg_list;
				struct {
					struct ibv_exp_mem_repeat_block *mem_repeat_block_list;
					size_t *repeat_count;
					uint32_t stride_dim; /* 1 */
				} rb;
			} mem_list;
		} umr;
		struct {
			uint32_t log_arg_sz; /* operands have 1 << log_arg_sz bytes */
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

/* An error, and in *bad_wr, unless it is NULL, the request it is about; those before it are
 * posted. */
int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
		      struct ibv_exp_send_wr **bad_wr);

enum ibv_exp_task_type { IBV_EXP_TASK_SEND = 0, IBV_EXP_TASK_RECV = 1 };

struct ibv_exp_task {
	enum ibv_exp_task_type task_type;
	struct {
		struct ibv_qp *qp;
		union {
			struct ibv_exp_send_wr *send_wr;
			struct ibv_recv_wr *recv_wr;
		};
	} item;
	struct ibv_exp_task *next;
	uint32_t comp_mask; /* 0 */
};

/* Posts to several QPs. An error, and in *bad_task, unless it is NULL, the task it is about. */
int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task,
		      struct ibv_exp_task **bad_task);

#ifdef __cplusplus
}
#endif

#endif

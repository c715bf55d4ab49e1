/* SPDX-License-Identifier: BSD-2-Clause */
/* FLUSH in struct ibv_qp_ex and its enumerations: headers before rdma-core 45 lack it. */
#ifndef VB_ABI_FLUSH_H
#define VB_ABI_FLUSH_H

#include <infiniband/verbs.h>

#include "abi/config.h"

typedef void vb_wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length,
			 uint8_t type, uint8_t level);

#if VB_HEADER_HAS_FLUSH

static inline vb_wr_flush **vb_qp_ex_wr_flush(struct ibv_qp_ex *ex)
{
	return &ex->wr_flush;
}

#else

enum { IBV_ACCESS_FLUSH_GLOBAL = 1 << 8, IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9 };
enum { IBV_QP_EX_WITH_FLUSH = 1 << 11 };
#define IBV_WC_FLUSH ((enum ibv_wc_opcode)8)
#define IBV_WR_FLUSH ((enum ibv_wr_opcode)14)
enum ibv_placement_type { IBV_FLUSH_GLOBAL = 1 << 0, IBV_FLUSH_PERSISTENT = 1 << 1 };
enum ibv_selectivity_level { IBV_FLUSH_RANGE, IBV_FLUSH_MR };

/* The member follows the last one of this header. A QP has room for it (nic/qp.h). */
static inline vb_wr_flush **vb_qp_ex_wr_flush(struct ibv_qp_ex *ex)
{
	return (vb_wr_flush **)(ex + 1);
}

static inline void ibv_wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				size_t length, uint8_t type, uint8_t level)
{
	(*vb_qp_ex_wr_flush(ex))(ex, rkey, remote_addr, length, type, level);
}

#endif
#endif

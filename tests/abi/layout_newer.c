/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts and values of the verbs that are younger than rdma-core 44 (LP64 machines). A build with
 * an older header compares the declarations of abi/verbs.h with these numbers, a build with a newer
 * one the header's own: where both compile, the two agree.
 */
#include <assert.h>
#include <pthread.h>
#include <stddef.h>

#include "abi/flush.h"
#include "abi/rdmacm.h"
#include "abi/verbs.h"

#define SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), #type)
#define AT(type, member, offset) \
	static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define VALUE(name, value) static_assert((name) == (value), #name)
/* The size of a mutex depends on the machine. */
#define WITH_MUTEX(bytes) ((bytes) + sizeof(pthread_mutex_t) - 40)

/* FLUSH, version 45. With an older header the member stands right behind the struct. */
#if VB_HEADER_HAS_FLUSH
AT(ibv_qp_ex, wr_flush, WITH_MUTEX(352));
#else
SIZE(ibv_qp_ex, WITH_MUTEX(352));
#endif
VALUE(IBV_ACCESS_FLUSH_GLOBAL, 1 << 8);
VALUE(IBV_ACCESS_FLUSH_PERSISTENT, 1 << 9);
VALUE(IBV_QP_EX_WITH_FLUSH, 1 << 11);
VALUE(IBV_WC_FLUSH, 8);
VALUE(IBV_WR_FLUSH, 14);
VALUE(IBV_FLUSH_GLOBAL, 1);
VALUE(IBV_FLUSH_PERSISTENT, 2);
VALUE(IBV_FLUSH_RANGE, 0);
VALUE(IBV_FLUSH_MR, 1);

/* DMA handles, version 59 */
SIZE(ibv_dmah, 8);
SIZE(ibv_dmah_init_attr, 12);
AT(ibv_dmah_init_attr, comp_mask, 0);
AT(ibv_dmah_init_attr, cpu_id, 4);
AT(ibv_dmah_init_attr, ph, 8);
AT(ibv_dmah_init_attr, tph_mem_type, 9);
VALUE(IBV_DMAH_INIT_ATTR_MASK_CPU_ID, 1);
VALUE(IBV_DMAH_INIT_ATTR_MASK_PH, 2);
VALUE(IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE, 4);
VALUE(IBV_TPH_MEM_TYPE_VM, 0);
VALUE(IBV_TPH_MEM_TYPE_PM, 1);

/* Registration with a struct, version 59; `buf` since 64 */
AT(ibv_mr_init_attr, length, 0);
AT(ibv_mr_init_attr, access, 8);
AT(ibv_mr_init_attr, comp_mask, 16);
AT(ibv_mr_init_attr, iova, 24);
AT(ibv_mr_init_attr, addr, 32);
AT(ibv_mr_init_attr, fd, 40);
AT(ibv_mr_init_attr, fd_offset, 48);
AT(ibv_mr_init_attr, dmah, 56);
SIZE(vb_abi_mr_init_attr, 72);
AT(vb_abi_mr_init_attr, length, 0);
AT(vb_abi_mr_init_attr, access, 8);
AT(vb_abi_mr_init_attr, comp_mask, 16);
AT(vb_abi_mr_init_attr, iova, 24);
AT(vb_abi_mr_init_attr, addr, 32);
AT(vb_abi_mr_init_attr, fd, 40);
AT(vb_abi_mr_init_attr, fd_offset, 48);
AT(vb_abi_mr_init_attr, dmah, 56);
AT(vb_abi_mr_init_attr, buf, 64);
VALUE(IBV_REG_MR_MASK_IOVA, 1);
VALUE(IBV_REG_MR_MASK_ADDR, 2);
VALUE(IBV_REG_MR_MASK_FD, 4);
VALUE(IBV_REG_MR_MASK_FD_OFFSET, 8);
VALUE(IBV_REG_MR_MASK_DMAH, 16);
VALUE(IBV_REG_MR_MASK_BUF, 32);
VALUE(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC, 4);
#if VB_HEADER_HAS_BUF
SIZE(ibv_mr_init_attr, 72);
AT(ibv_mr_init_attr, buf, 64);
#else
SIZE(ibv_mr_init_attr, 64);
#endif

VALUE(IBV_EVENT_DEVICE_SPEED_CHANGE, 20);

/* Completion counters, version 65 */
SIZE(ibv_comp_cntr_caps, 16);
AT(ibv_comp_cntr_caps, max_value, 0);
AT(ibv_comp_cntr_caps, max_counters, 8);
AT(ibv_comp_cntr_caps, supported_qp_attach_ops, 12);
SIZE(ibv_comp_cntr, 16);
AT(ibv_comp_cntr, context, 0);
AT(ibv_comp_cntr, handle, 8);
SIZE(ibv_comp_cntr_init_attr, 12);
AT(ibv_comp_cntr_init_attr, comp_mask, 0);
AT(ibv_comp_cntr_init_attr, type, 4);
AT(ibv_comp_cntr_init_attr, flags, 8);
SIZE(ibv_qp_attach_comp_cntr_attr, 8);
AT(ibv_qp_attach_comp_cntr_attr, comp_mask, 0);
AT(ibv_qp_attach_comp_cntr_attr, op_mask, 4);
VALUE(IBV_COMP_CNTR_TYPE_WRS, 0);
VALUE(IBV_COMP_CNTR_TYPE_BYTES, 1);
VALUE(IBV_QP_ATTACH_COMP_CNTR_OP_SEND, 1);
VALUE(IBV_QP_ATTACH_COMP_CNTR_OP_RECV, 2);
VALUE(IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ, 4);
VALUE(IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, 8);
VALUE(IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE, 16);
VALUE(IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, 32);

/* Events and hints of librdmacm, version 60 */
VALUE(RDMA_CM_EVENT_ADDRINFO_RESOLVED, 16);
VALUE(RDMA_CM_EVENT_ADDRINFO_ERROR, 17);
VALUE(RDMA_CM_EVENT_USER, 18);
VALUE(RDMA_CM_EVENT_INTERNAL, 19);
VALUE(RAI_SA, 0x10);
VALUE(RAI_DNS, 0x20);
SIZE(rdma_cm_event, 80);
AT(rdma_cm_event, param, 24);
#if VB_HEADER_HAS_CM_ARG
AT(rdma_cm_event, param.arg, 24);
#endif

/* The newer part of struct verbs_context, and the place where abi/verbs.h looks for it */
#define BEFORE_QUERY_PORT(member, bytes)                                           \
	static_assert(sizeof(struct vb_abi_newer_ops) -                            \
				      offsetof(struct vb_abi_newer_ops, member) == \
			      (bytes),                                             \
		      "vb_abi_newer_ops." #member)
#define HEADER_BEFORE_QUERY_PORT(member, bytes)                                 \
	static_assert(offsetof(struct verbs_context, query_port) -              \
				      offsetof(struct verbs_context, member) == \
			      (bytes),                                          \
		      "verbs_context." #member)

BEFORE_QUERY_PORT(alloc_dmah, 8);
BEFORE_QUERY_PORT(dealloc_dmah, 16);
BEFORE_QUERY_PORT(reg_mr_ex, 24);
BEFORE_QUERY_PORT(dm_export_dmabuf_fd, 32);
BEFORE_QUERY_PORT(alloc_buf, 40);
BEFORE_QUERY_PORT(free_buf, 48);
#if VB_HEADER_HAS_DMAH
HEADER_BEFORE_QUERY_PORT(alloc_dmah, 8);
HEADER_BEFORE_QUERY_PORT(dealloc_dmah, 16);
HEADER_BEFORE_QUERY_PORT(reg_mr_ex, 24);
#endif
#if VB_HEADER_HAS_DM_EXPORT
HEADER_BEFORE_QUERY_PORT(dm_export_dmabuf_fd, 32);
#endif
#if VB_HEADER_HAS_BUF
HEADER_BEFORE_QUERY_PORT(alloc_buf, 40);
HEADER_BEFORE_QUERY_PORT(free_buf, 48);
#endif
static_assert(offsetof(struct verbs_context, query_port) + VB_ABI_MISSING_OPS * sizeof(void *) >=
		      sizeof(struct vb_abi_newer_ops),
	      "the missing members are counted");

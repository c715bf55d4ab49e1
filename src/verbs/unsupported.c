/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls for features that this device does not have. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "verbs/symver.h"

static void *unsupported(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/* Programs probe with a bad fd, and take any error but EOPNOTSUPP for support. */
VB_PUBLIC struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					   uint64_t iova, int fd, int access)
{
	return unsupported();
}

VB_PUBLIC struct ibv_context *ibv_import_device(int cmd_fd)
{
	return unsupported();
}

VB_PUBLIC struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	return unsupported();
}

VB_PUBLIC struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	return unsupported();
}

VB_PUBLIC struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	return unsupported();
}

/* Nothing is ever imported, so there is nothing to give back. */
VB_PUBLIC void ibv_unimport_pd(struct ibv_pd *pd)
{
}

VB_PUBLIC void ibv_unimport_mr(struct ibv_mr *mr)
{
}

VB_PUBLIC void ibv_unimport_dm(struct ibv_dm *dm)
{
}

VB_PUBLIC int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

VB_PUBLIC int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

/* 0: only the last bytes are promised to become visible last, not each byte in address order. */
VB_PUBLIC int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls for features that this device does not have. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "base/symver.h"

/* The two ends of a connection have nothing to agree upon here. */
VB_PUBLIC int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

VB_PUBLIC int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){ 0 };
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

/* 0: only the last bytes are promised to become visible last, not each byte in address order. */
VB_PUBLIC int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

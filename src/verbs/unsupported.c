/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls for features that this device does not have. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "base/log.h"
#include "base/symver.h"
#include "system/forward.h"

/*
 * The two ends of a connection have nothing to agree upon here. Programs that know of vendor
 * options (ECE) ask every QP, and librdmacm does: for them EOPNOTSUPP is an answer, no failure.
 */
static int no_options(void)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

VB_PUBLIC int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	VB_SYSTEM_PASS(qp, ibv_set_ece, (qp, ece));
	if (ece->vendor_id)
		vb_explain("ibv_set_ece: QP 0x%06x: the device has no options of vendor 0x%x",
			   qp->qp_num, ece->vendor_id);
	return no_options();
}

VB_PUBLIC int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	VB_SYSTEM_PASS(qp, ibv_query_ece, (qp, ece));
	*ece = (struct ibv_ece){ 0 };
	return no_options();
}

/* 0: only the last bytes are promised to become visible last, not each byte in address order. */
VB_PUBLIC int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	VB_SYSTEM_PASS(qp, ibv_query_qp_data_in_order, (qp, op, flags));
	return 0;
}

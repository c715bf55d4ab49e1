/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Enhanced connection establishment: vendor options that both sides agree upon, in REQ and REP.
 * For QPs that the application made itself; those of rdma_create_qp are negotiated in qp.c.
 */
#include <errno.h>

#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/cma.h"

VB_PUBLIC int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask) {
		vb_explain("rdma_set_local_ece: needs an identifier without QP, a vendor id and "
			   "comp_mask 0");
		return vb_return_minus_one(-EINVAL);
	}
	vb_cma_id(id)->local_ece.vendor_id = ece->vendor_id;
	vb_cma_id(id)->local_ece.options = ece->options;
	return 0;
}

VB_PUBLIC int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece) {
		vb_explain("rdma_get_remote_ece: needs an identifier without QP");
		return vb_return_minus_one(-EINVAL);
	}
	ece->vendor_id = vb_cma_id(id)->remote_ece.vendor_id;
	ece->options = vb_cma_id(id)->remote_ece.options;
	ece->comp_mask = 0;
	return 0;
}

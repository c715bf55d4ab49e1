/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/odp.h"

#include "base/cancel.h"
#include "base/result.h"
#include "verbs/given.h"
#include "verbs/ops.h"

int vb_ops_advise_mr(struct ibv_pd *ibv, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sg_list, uint32_t num_sge)
{
	VB_NO_CANCEL;
	int err = vb_verbs_check_pd(ibv, "ibv_advise_mr");

	if (!err)
		err = vb_odp_advise(vb_pd(ibv), advice, flags, sg_list, num_sge);
	return vb_return_errno(err);
}

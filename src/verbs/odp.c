/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/odp.h"
#include "verbs/ops.h"
#include "verbs/result.h"

int vb_ops_advise_mr(struct ibv_pd *ibv, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct vb_pd *pd = vb_pd(ibv);
	int err = vb_pd_adopt(pd);

	return vb_return_errno(err ? err : vb_odp_advise(pd, advice, flags, sg_list, num_sge));
}

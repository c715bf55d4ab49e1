/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/pd.h"
#include "verbs/result.h"
#include "verbs/symver.h"

VB_PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct vb_pd *pd;
	int err = vb_pd_alloc(context, &pd);

	return err ? vb_return_null(err) : &pd->ibv;
}

VB_PUBLIC int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return vb_return_errno(vb_pd_dealloc(vb_pd(pd)));
}

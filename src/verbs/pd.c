/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/pd.h"

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/given.h"
#include "system/forward.h"

VB_PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_alloc_pd, (context));
	VB_NO_CANCEL;
	struct vb_pd *pd;
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_alloc_pd");

	if (!err)
		err = vb_pd_alloc(context, &pd);
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_PD, pd);
	if (err)
		vb_pd_dealloc(pd);
	return err ? vb_return_null(err) : &pd->ibv;
}

VB_PUBLIC int ibv_dealloc_pd(struct ibv_pd *pd)
{
	VB_SYSTEM_PASS(pd, ibv_dealloc_pd, (pd));
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_PD, pd, "ibv_dealloc_pd");

	if (!err)
		err = vb_given_ended(VB_GIVEN_PD, pd, vb_pd_dealloc(vb_pd(pd)));
	return vb_return_errno(err);
}

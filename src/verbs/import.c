/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that another context has made, in this process or another. */
#include "nic/import.h"

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/mr.h"
#include "system/forward.h"
#include "verbs/given.h"

VB_PUBLIC struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_import_pd, (context, pd_handle));
	VB_NO_CANCEL;
	struct vb_pd *pd;
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_import_pd");

	if (!err)
		err = vb_pd_import(context, pd_handle, &pd);
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_PD, pd);
	if (err)
		vb_pd_unimport(pd);
	return err ? vb_return_null(err) : &pd->ibv;
}

VB_PUBLIC void ibv_unimport_pd(struct ibv_pd *pd)
{
	VB_SYSTEM_PASS_VOID(pd, ibv_unimport_pd, (pd));
	VB_NO_CANCEL;

	if (vb_given_end(VB_GIVEN_PD, pd, "ibv_unimport_pd"))
		return;
	vb_pd_unimport(vb_pd(pd));
	vb_given_ended(VB_GIVEN_PD, pd, 0);
}

VB_PUBLIC struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	VB_SYSTEM_PASS(pd, ibv_import_mr, (pd, mr_handle));
	VB_NO_CANCEL;
	struct vb_mr *mr = NULL;
	int err = vb_verbs_check_pd(pd, "ibv_import_mr");

	if (!err)
		err = vb_mr_import(vb_pd(pd), mr_handle, &mr);
	return vb_verbs_give_mr(mr, err);
}

VB_PUBLIC void ibv_unimport_mr(struct ibv_mr *mr)
{
	VB_SYSTEM_PASS_VOID(mr, ibv_unimport_mr, (mr));
	VB_NO_CANCEL;

	/* A region that was registered here stays as it is. */
	const bool goes =
		!vb_given_check(VB_GIVEN_MR, mr, "ibv_unimport_mr") && vb_mr_is_imported(vb_mr(mr));

	if (!goes || vb_given_end(VB_GIVEN_MR, mr, "ibv_unimport_mr"))
		return;
	vb_mr_unimport(vb_mr(mr));
	vb_given_ended(VB_GIVEN_MR, mr, 0);
}

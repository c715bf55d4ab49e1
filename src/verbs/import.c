/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that another context, here or in another process, has made. */
#include "nic/import.h"
#include "nic/mr.h"
#include "verbs/result.h"
#include "verbs/symver.h"

VB_PUBLIC struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	struct vb_pd *pd;
	int err = vb_pd_import(context, pd_handle, &pd);

	return err ? vb_return_null(err) : &pd->ibv;
}

VB_PUBLIC void ibv_unimport_pd(struct ibv_pd *pd)
{
	vb_pd_unimport(vb_pd(pd));
}

VB_PUBLIC struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	struct vb_mr *mr;
	int err = vb_pd_adopt(vb_pd(pd));

	if (!err)
		err = vb_mr_import(vb_pd(pd), mr_handle, &mr);
	return err ? vb_return_null(err) : &mr->ibv;
}

VB_PUBLIC void ibv_unimport_mr(struct ibv_mr *mr)
{
	vb_mr_unimport(vb_mr(mr));
}

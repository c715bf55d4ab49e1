/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/mr.h"

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/mw.h"
#include "system/forward.h"
#include "verbs/given.h"
#include "verbs/ops.h"
#include "verbs/stale.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

int vb_verbs_check_pd(struct ibv_pd *pd, const char *call)
{
	int err = vb_given_check(VB_GIVEN_PD, pd, call);

	return err ? err : vb_pd_adopt(vb_pd(pd));
}

struct ibv_mr *vb_verbs_give_mr(struct vb_mr *mr, int err)
{
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_MR, mr);
	if (err)
		vb_mr_deregister(mr);
	return err ? vb_return_null(err) : &mr->ibv;
}

static struct ibv_mr *register_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				  unsigned access)
{
	const struct vb_mr_spec spec = { (uintptr_t)addr, length, iova, access };
	struct vb_mr *mr = NULL;
	int err = vb_verbs_check_pd(pd, "ibv_reg_mr");

	if (!err)
		err = vb_mr_register(vb_pd(pd), &spec, &mr);
	return vb_verbs_give_mr(mr, err);
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	VB_SYSTEM_PASS(pd, ibv_reg_mr, (pd, addr, length, access));
	VB_NO_CANCEL;

	return register_mr(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					 uint64_t iova, int access)
{
	VB_SYSTEM_PASS(pd, ibv_reg_mr_iova, (pd, addr, length, iova, access));
	VB_NO_CANCEL;

	return register_mr(pd, addr, length, iova, (unsigned)access);
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					  uint64_t iova, unsigned int access)
{
	VB_SYSTEM_PASS(pd, ibv_reg_mr_iova2, (pd, addr, length, iova, access));
	VB_NO_CANCEL;

	return register_mr(pd, addr, length, iova, access);
}

struct ibv_mr *vb_ops_alloc_null_mr(struct ibv_pd *pd)
{
	VB_NO_CANCEL;
	struct vb_mr *mr = NULL;
	int err = vb_verbs_check_pd(pd, "ibv_alloc_null_mr");

	if (!err)
		err = vb_mr_alloc_null(vb_pd(pd), &mr);
	return vb_verbs_give_mr(mr, err);
}

VB_PUBLIC int ibv_dereg_mr(struct ibv_mr *mr)
{
	VB_SYSTEM_PASS(mr, ibv_dereg_mr, (mr));
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_MR, mr, "ibv_dereg_mr");

	if (!err)
		err = vb_given_ended(VB_GIVEN_MR, mr, vb_mr_deregister(vb_mr(mr)));
	return vb_return_errno(err);
}

struct ibv_mw *vb_ops_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	VB_NO_CANCEL;
	struct vb_mw *mw;
	int err = vb_verbs_check_pd(pd, "ibv_alloc_mw");

	if (!err)
		err = vb_mw_alloc(vb_pd(pd), type, &mw);
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_MW, mw);
	if (err)
		vb_mw_dealloc(mw);
	return err ? vb_return_null(err) : &mw->ibv;
}

int vb_ops_dealloc_mw(struct ibv_mw *mw)
{
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_MW, mw, "ibv_dealloc_mw");

	if (!err)
		err = vb_given_ended(VB_GIVEN_MW, mw, vb_mw_dealloc(vb_mw(mw)));
	return vb_return_errno(err);
}

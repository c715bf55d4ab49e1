/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/mr.h"
#include "nic/mw.h"
#include "base/log.h"
#include "verbs/ops.h"
#include "verbs/result.h"
#include "verbs/stale.h"
#include "verbs/symver.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	const struct vb_mr_spec spec = { (uintptr_t)addr, length, iova, access };
	struct vb_mr *mr;
	int err = vb_pd_adopt(vb_pd(pd));

	if (!err)
		err = vb_mr_register(vb_pd(pd), &spec, &mr);
	return err ? vb_return_null(err) : &mr->ibv;
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
					 int access)
{
	return reg(pd, addr, length, iova, (unsigned)access);
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					  uint64_t iova, unsigned int access)
{
	return reg(pd, addr, length, iova, access);
}

struct ibv_mr *vb_ops_alloc_null_mr(struct ibv_pd *pd)
{
	struct vb_mr *mr;
	int err = vb_pd_adopt(vb_pd(pd));

	if (!err)
		err = vb_mr_alloc_null(vb_pd(pd), &mr);
	return err ? vb_return_null(err) : &mr->ibv;
}

VB_PUBLIC int ibv_dereg_mr(struct ibv_mr *mr)
{
	return vb_return_errno(vb_mr_deregister(vb_mr(mr)));
}

struct ibv_mw *vb_ops_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct vb_mw *mw;
	int err = vb_pd_adopt(vb_pd(pd));

	if (!err)
		err = vb_mw_alloc(vb_pd(pd), type, &mw);
	return err ? vb_return_null(err) : &mw->ibv;
}

int vb_ops_dealloc_mw(struct ibv_mw *mw)
{
	return vb_return_errno(vb_mw_dealloc(vb_mw(mw)));
}

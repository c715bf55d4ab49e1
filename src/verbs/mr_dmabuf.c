/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/dmabuf.h"
#include "nic/profile.h"
#include "system/forward.h"
#include "verbs/given.h"

VB_PUBLIC struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					   uint64_t iova, int fd, int access)
{
	VB_SYSTEM_PASS(pd, ibv_reg_dmabuf_mr, (pd, offset, length, iova, fd, access));
	VB_NO_CANCEL;
	const struct vb_mr_spec spec = { .length = length,
					 .iova = iova,
					 .access = (unsigned)access };
	struct vb_mr *mr = NULL;
	int err;

	/*
	 * This check comes before all others: programs probe with a bad descriptor, and take every
	 * other error for support.
	 */
	err = vb_profile_check_verb(VB_VERB_REG_DMABUF_MR, "ibv_reg_dmabuf_mr");
	if (err)
		return vb_return_null(err);
	if (!vb_dmabuf_any()) {
		vb_explain("ibv_reg_dmabuf_mr: this machine has no /dev/udmabuf");
		return vb_return_null(-EOPNOTSUPP);
	}
	err = vb_verbs_check_pd(pd, "ibv_reg_dmabuf_mr");
	if (!err)
		err = vb_dmabuf_register(vb_pd(pd), fd, offset, &spec, &mr);
	return vb_verbs_give_mr(mr, err);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Changing a memory region in place. Keys stay, so that peers need not learn of it. */
#include "nic/mr.h"
#include "base/log.h"
#include "verbs/given.h"
#include "verbs/result.h"
#include "verbs/stale.h"
#include "verbs/symver.h"

/* What the man page calls input errors: nothing has happened, the old region is good. */
static int check(const struct vb_mr *mr, int flags, const void *addr, size_t length, int access)
{
	const char *why = NULL;

	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		why = "the flags are empty, or unknown";
	else if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!length || !addr))
		why = "a change of translation needs an address and a length";
	else if (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))
		why = "access flags without IBV_REREG_MR_CHANGE_ACCESS";
	if (!why)
		return vb_stale(mr->nic, "ibv_rereg_mr");
	vb_explain("ibv_rereg_mr: %s", why);
	return -EINVAL;
}

static void merge(struct vb_mr_spec *spec, int flags, void *addr, size_t length, int access)
{
	bool was_zero_based = spec->access & IBV_ACCESS_ZERO_BASED;

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		spec->addr = spec->iova = (uintptr_t)addr;
		spec->length = length;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
		spec->access = (unsigned)access;
		if (was_zero_based)
			spec->iova = spec->addr;
	}
}

VB_PUBLIC int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr,
			   size_t length, int access)
{
	struct vb_mr *mr = vb_mr(ibv);
	struct vb_mr_spec spec;
	struct vb_pd *new_pd = flags & IBV_REREG_MR_CHANGE_PD && pd ? vb_pd(pd) : NULL;
	bool valid = true;
	int err = vb_given_check(VB_GIVEN_MR, ibv, "ibv_rereg_mr");

	if (!err)
		err = check(mr, flags, addr, length, access);
	if (!err && flags & IBV_REREG_MR_CHANGE_PD)
		err = vb_given_check_in(ibv->context, VB_GIVEN_PD, pd, "ibv_rereg_mr");
	if (!err && new_pd)
		err = vb_pd_adopt(new_pd);
	if (!err) {
		spec = (struct vb_mr_spec){ mr->addr, mr->length, mr->iova, mr->access };
		merge(&spec, flags, addr, length, access);
		err = vb_mr_reregister(mr, &spec, new_pd, &valid);
	}
	if (!err)
		return 0;
	errno = -err;
	return valid ? IBV_REREG_MR_ERR_INPUT : IBV_REREG_MR_ERR_CMD;
}

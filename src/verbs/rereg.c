/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes a memory region in place. Keys stay, so that peers need not learn of the change. */
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/mr.h"
#include "nic/profile.h"
#include "system/forward.h"
#include "verbs/given.h"
#include "verbs/stale.h"

/* Regions and arguments that a library refuses by itself. A kernel would refuse the rest. */
static bool is_input_error(const struct vb_mr *mr, int flags, const void *addr, size_t length,
			   int access)
{
	const char *why = NULL;

	if (mr->null || mr->imported || mr->foreign || mr->mapping)
		why = "a null or imported region, or one of a dma-buf, cannot be changed";
	else if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		why = "a flag is unknown";
	else if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!length || !addr))
		why = "a change of translation needs an address and a length";
	else if (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))
		why = "access flags without IBV_REREG_MR_CHANGE_ACCESS";
	if (why)
		vb_explain("ibv_rereg_mr: %s", why);
	return why;
}

static void merge_spec(struct vb_mr_spec *spec, int flags, void *addr, size_t length, int access)
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

static int change_region(struct vb_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			 int access)
{
	struct vb_mr_spec spec = { mr->addr, mr->length, mr->iova, mr->access };
	bool moves = flags & IBV_REREG_MR_CHANGE_PD;
	int err = vb_stale(mr->nic, "ibv_rereg_mr");

	if (!err && !flags) {
		vb_explain("ibv_rereg_mr: no flag says what to change");
		err = -EINVAL;
	}
	if (!err && moves)
		err = vb_given_check_in(mr->ibv.context, VB_GIVEN_PD, pd, "ibv_rereg_mr");
	if (!err && moves)
		err = vb_pd_adopt(vb_pd(pd));
	merge_spec(&spec, flags, addr, length, access);
	return err ? err : vb_mr_reregister(mr, &spec, moves ? vb_pd(pd) : NULL);
}

VB_PUBLIC int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr,
			   size_t length, int access)
{
	VB_SYSTEM_PASS(ibv, ibv_rereg_mr, (ibv, flags, pd, addr, length, access));
	VB_NO_CANCEL;
	struct vb_mr *mr = vb_mr(ibv);
	int err = vb_given_check(VB_GIVEN_MR, ibv, "ibv_rereg_mr");

	if (!err && vb_profile_check_verb(VB_VERB_REREG_MR, "ibv_rereg_mr"))
		return vb_return_value(IBV_REREG_MR_ERR_INPUT, -EOPNOTSUPP);
	if (!err && is_input_error(mr, flags, addr, length, access))
		return vb_return_value(IBV_REREG_MR_ERR_INPUT, -EINVAL);
	if (!err)
		err = change_region(mr, flags, pd, addr, length, access);
	if (!err)
		return 0;
	return vb_return_value(IBV_REREG_MR_ERR_CMD, err);
}

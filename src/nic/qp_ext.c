/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/qp_ext.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"

static int spec_check(const struct vb_qp *qp, const struct vb_qp_ext_spec *spec)
{
	if (spec->atomic_max > VB_MASKED_BYTES_MAX) {
		vb_explain("ibv_exp_create_qp: max_atomic_arg of %u exceeds the %u bytes of the "
			   "device",
			   spec->atomic_max, VB_MASKED_BYTES_MAX);
		return -EINVAL;
	}
	if (spec->atomic_max && qp->type != IBV_QPT_RC) {
		vb_explain("ibv_exp_create_qp: extended atomics are for RC QPs");
		return -EINVAL;
	}
	return 0;
}

int vb_qp_ext_make(struct vb_qp *qp, const struct vb_qp_ext_spec *spec)
{
	int err = spec_check(qp, spec);
	struct vb_qp_ext *ext;

	if (err)
		return err;
	ext = calloc(1, sizeof(*ext));
	if (!ext)
		return -ENOMEM;
	qp->ext = ext;
	ext->atomic_max = spec->atomic_max;
	if (spec->atomic_max)
		ext->masked = calloc(qp->sq.mask + 1ull, sizeof(*ext->masked));
	if (spec->atomic_max && !ext->masked) {
		vb_qp_ext_free(qp);
		return -ENOMEM;
	}
	return 0;
}

void vb_qp_ext_free(struct vb_qp *qp)
{
	if (!qp->ext)
		return;
	free(qp->ext->masked);
	free(qp->ext);
	qp->ext = NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/qp_ext.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "nic/fact.h"

static int spec_check(const struct vb_qp *qp, const struct vb_qp_ext_spec *spec)
{
	if (spec->atomic_max > VB_MASKED_BYTES_MAX) {
		vb_explain("ibv_exp_create_qp: max_atomic_arg of %u exceeds the %u bytes of the "
			   "device",
			   spec->atomic_max, VB_MASKED_BYTES_MAX);
		return -EINVAL;
	}
	if (spec->atomic_max && vb_fact(VB_FACT_ATOMIC_CAP) == IBV_ATOMIC_NONE) {
		vb_explain("ibv_exp_create_qp: the device has no atomics");
		return -EOPNOTSUPP;
	}
	if (spec->parts_max > VB_UMR_INLINE_MAX) {
		vb_explain("ibv_exp_create_qp: max_inl_send_klms of %u exceeds the %u of the "
			   "device",
			   spec->parts_max, VB_UMR_INLINE_MAX);
		return -EINVAL;
	}
	if (spec->atomic_max && qp->type != IBV_QPT_RC) {
		vb_explain("ibv_exp_create_qp: extended atomics are for RC QPs");
		return -EINVAL;
	}
	return 0;
}

static int rings_make(struct vb_qp *qp, const struct vb_qp_ext_spec *spec)
{
	const size_t length = qp->sq.mask + 1ull;
	struct vb_qp_ext *ext = qp->ext;

	if (spec->atomic_max)
		ext->masked = calloc(length, sizeof(*ext->masked));
	if (spec->umr)
		ext->umrs = calloc(length, sizeof(*ext->umrs));
	if (spec->cross)
		ext->cross = calloc(length, sizeof(*ext->cross));
	return (spec->atomic_max && !ext->masked) || (spec->umr && !ext->umrs) ||
			       (spec->cross && !ext->cross)
		       ? -ENOMEM
		       : 0;
}

int vb_qp_ext_make(struct vb_qp *qp, const struct vb_qp_ext_spec *spec)
{
	int err = spec_check(qp, spec);

	if (err)
		return err;
	qp->ext = calloc(1, sizeof(*qp->ext));
	if (!qp->ext)
		return -ENOMEM;
	qp->ext->atomic_max = spec->atomic_max;
	qp->ext->parts_max = spec->parts_max;
	err = rings_make(qp, spec);
	if (err)
		vb_qp_ext_free(qp);
	return err;
}

static void bounces_free(struct vb_qp *qp)
{
	for (size_t i = 0; qp->bounces && i <= qp->sq.mask; i++)
		free(qp->bounces[i].at);
	free(qp->bounces);
	qp->bounces = NULL;
}

void vb_qp_bounces_forget(struct vb_qp *qp)
{
	for (size_t i = 0; qp->bounces && i <= qp->sq.mask; i++)
		qp->bounces[i].used = false;
}

void vb_qp_ext_free(struct vb_qp *qp)
{
	struct vb_qp_ext *ext = qp->ext;

	bounces_free(qp);
	if (!ext)
		return;
	for (size_t i = 0; ext->umrs && i <= qp->sq.mask; i++)
		free(ext->umrs[i]);
	for (size_t i = 0; ext->cross && i <= qp->sq.mask; i++)
		vb_cross_drop(&ext->cross[i]);
	free(ext->umrs);
	free(ext->cross);
	free(ext->masked);
	free(ext);
	qp->ext = NULL;
}

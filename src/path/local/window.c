/* SPDX-License-Identifier: BSD-2-Clause */
/* BIND_MW and LOCAL_INV: work requests that concern this process only, in their turn. */
#include "nic/mw.h"
#include "path/local/step.h"

enum vb_step vb_step_bind_window(struct vb_step_context *step)
{
	const struct vb_mw_bind *bind = &step->wqe->bind;

	step->report.key = bind->rkey;
	if (!vb_mw_bind(bind, step->qp->pd, step->qp->ibv.qp_num))
		return vb_step_complete(step, VB_WINDOW_BIND);
	return vb_step_complete(step, VB_OK);
}

enum vb_step vb_step_local_invalidate(struct vb_step_context *step)
{
	uint32_t rkey = step->wqe->imm;
	/* The own table, looked at as a peer would. */
	const struct vb_key_entry *entry = vb_peer_key(step->qp->nic->self, rkey, true);

	step->report.key = rkey;
	if (!entry || !vb_mw_invalidate((struct vb_key_entry *)entry, rkey, step->qp->pd->id,
					step->qp->ibv.qp_num))
		return vb_step_complete(step, VB_WINDOW_INVALID);
	return vb_step_complete(step, VB_OK);
}

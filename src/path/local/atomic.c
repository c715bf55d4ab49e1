/* SPDX-License-Identifier: BSD-2-Clause */
/* CMP_AND_SWP and FETCH_AND_ADD on a connected QP. */
#include "exec/atomic.h"
#include "path/local/step.h"

#include <errno.h>
#include <string.h>

static void scatter(const struct vb_step_context *step, uint64_t value)
{
	const char *from = (const char *)&value;

	for (unsigned i = 0; i < step->sge_count; i++) {
		memcpy((void *)(uintptr_t)step->sge[i].addr, from, step->sge[i].length);
		from += step->sge[i].length;
	}
}

static enum vb_step apply(struct vb_step_context *step, uint64_t address)
{
	const struct vb_wqe *wqe = step->wqe;
	const struct vb_atomic op = {
		.compare_swap = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP,
		.compare_add = wqe->operand[0],
		.swap = wqe->operand[1],
	};
	uint64_t old;
	int err = vb_atomic_apply(step->qp->remote.peer, address, &op, &old);

	if (err == -EAGAIN)
		return vb_step_busy(step);
	if (err == -ESRCH)
		return vb_step_complete(step, VB_PEER_ENDED);
	if (err)
		return vb_step_refuse(step, VB_REMOTE_MEMORY, false);
	scatter(step, old);
	step->qp->sq.reads_executed++;
	return vb_step_complete(step, VB_OK);
}

enum vb_step vb_step_atomic(struct vb_step_context *step)
{
	enum vb_reason reason;
	uint64_t address;

	if (step->wqe->length != 8)
		return vb_step_complete(step, VB_ATOMIC_SGE);
	reason = vb_step_bind(step);
	if (reason)
		return vb_step_unanswered(step, reason);
	reason = vb_step_remote(step, step->wqe, &address);
	if (reason)
		return vb_step_refuse(step, reason, false);
	reason = vb_step_local(step, step->wqe, IBV_ACCESS_LOCAL_WRITE);
	if (reason)
		return vb_step_complete(step, reason);
	return apply(step, address);
}

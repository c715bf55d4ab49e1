/* SPDX-License-Identifier: BSD-2-Clause */
/* CMP_AND_SWP, FETCH_AND_ADD, their extended kin and ATOMIC_WRITE on a connected QP. */
#include "exec/atomic.h"

#include <errno.h>
#include <string.h>

#include "exec/copy.h"
#include "nic/odp.h"
#include "nic/qp_ext.h"
#include "path/local/step.h"

static bool original_scatter(const struct vb_step_context *step, const void *value)
{
	const char *from = value;

	for (unsigned i = 0; i < step->sge_count; i++) {
		if (!vb_user_write((void *)(uintptr_t)step->sge[i].addr, from, step->sge[i].length))
			return false;
		from += step->sge[i].length;
	}
	return true;
}

/* An atomic of either kind was tried; old has the bytes that it found, NULL: nobody asks. */
static enum vb_step atomic_end(struct vb_step_context *step, int err, const void *old)
{
	if (err == -EAGAIN)
		return vb_step_busy(step);
	if (err == -ESRCH)
		return vb_step_ended(step);
	if (vb_copy_is_denied(err))
		return vb_step_denied(step);
	if (err)
		return vb_step_refuse(step, VB_WHY_REMOTE_MEMORY, false);
	if (old && !original_scatter(step, old))
		return vb_step_complete(step, VB_WHY_LOCAL_MEMORY);
	return vb_step_complete(step, VB_OK);
}

static enum vb_step atomic_apply(struct vb_step_context *step, const struct vb_atomic *op,
				 uint64_t address)
{
	struct vb_remote *remote = &step->qp->remote;
	struct vb_mapped view = vb_mapped_at(remote->home, remote->key_cache.entry, address,
					     sizeof(uint64_t), true);
	uint64_t old;
	int err;

	if (!vb_step_copy_begin(step, address, sizeof(old)))
		return VB_STEP_AGAIN;
	err = vb_atomic_apply(remote->home, address, view.at, op, &old);
	vb_step_copy_end(step);
	if (!err && !view.at)
		vb_mapped_spent(remote->home, &remote->key_cache, sizeof(old));
	return atomic_end(step, err, op->write ? NULL : &old);
}

static enum vb_step masked_apply(struct vb_step_context *step, const struct vb_masked *op,
				 uint64_t address)
{
	struct vb_remote *remote = &step->qp->remote;
	struct vb_mapped view =
		vb_mapped_at(remote->home, remote->key_cache.entry, address, op->width, true);
	uint8_t old[VB_MASKED_BYTES_MAX];
	int err;

	if (!vb_step_copy_begin(step, address, op->width))
		return VB_STEP_AGAIN;
	err = vb_masked_apply(remote->home, address, view.at, op, old);
	vb_step_copy_end(step);
	if (!err && !view.at)
		vb_mapped_spent(remote->home, &remote->key_cache, op->width);
	return atomic_end(step, err, old);
}

/* Where the result goes: the remote error wins, so this comes after the remote checks. */
static enum vb_reason check_result(struct vb_step_context *step)
{
	enum vb_reason reason = vb_step_local(step, step->wqe, IBV_ACCESS_LOCAL_WRITE);

	if (!reason && !vb_path_present(step->sge, step->sge_count, true))
		reason = VB_WHY_LOCAL_MEMORY;
	return reason;
}

enum vb_step vb_step_atomic(struct vb_step_context *step)
{
	const struct vb_atomic op = {
		.compare_swap = step->wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP,
		.compare_add = step->wqe->operand[0],
		.swap = step->wqe->operand[1],
	};
	enum vb_verdict verdict;
	enum vb_reason reason;
	uint64_t address;

	if (step->wqe->length != 8)
		return vb_step_complete(step, VB_WHY_ATOMIC_SGE);
	verdict = vb_step_bind(step);
	if (verdict)
		return vb_step_not_here(step, verdict);
	reason = vb_step_remote(step, step->wqe, &address);
	if (reason)
		return vb_step_refuse(step, reason, false);
	reason = check_result(step);
	if (reason)
		return vb_step_complete(step, reason);
	return atomic_apply(step, &op, address);
}

enum vb_step vb_step_masked(struct vb_step_context *step)
{
	const struct vb_masked *op = vb_wqe_masked(step->wqe);
	enum vb_verdict verdict;
	enum vb_reason reason;
	uint64_t address;

	step->report.want = op->width;
	if (step->wqe->length != op->width)
		return vb_step_complete(step, VB_WHY_MASKED_SGE);
	verdict = vb_step_bind(step);
	if (verdict)
		return vb_step_not_here(step, verdict);
	reason = vb_step_remote(step, step->wqe, &address);
	if (!reason && (step->wqe->remote_addr | address) & (op->width - 1u)) {
		step->report.want = op->width;
		reason = VB_WHY_MASKED_ALIGN;
	}
	if (reason)
		return vb_step_refuse(step, reason, false);
	reason = check_result(step);
	if (reason)
		return vb_step_complete(step, reason);
	return masked_apply(step, op, address);
}

/* The own side is checked first: as with a WRITE, nothing is sent with a bad lkey. */
enum vb_step vb_step_atomic_write(struct vb_step_context *step)
{
	struct vb_atomic op = { .write = true };
	enum vb_verdict verdict;
	enum vb_reason reason;
	uint64_t address;

	if (step->wqe->length != sizeof(op.swap))
		return vb_step_complete(step, VB_WHY_ATOMIC_WRITE_SGE);
	reason = vb_step_local(step, step->wqe, 0);
	if (!reason && !vb_step_gather(step, (uint8_t *)&op.swap))
		reason = VB_WHY_LOCAL_MEMORY;
	if (reason)
		return vb_step_complete(step, reason);
	verdict = vb_step_bind(step);
	if (verdict)
		return vb_step_not_here(step, verdict);
	reason = vb_step_remote(step, step->wqe, &address);
	if (reason)
		return vb_step_refuse(step, reason, false);
	return atomic_apply(step, &op, address);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* WRITE and READ through an indirect key of the target (nic/umr.h). */
#include "exec/rkey.h"
#include "path/local/step.h"

enum { PIECES_MAX = 256, TAIL = 8 };

/* The pieces of the next bytes, after all that is left was checked. */
static enum vb_reason find_pieces(struct vb_step_context *step, struct vb_pieces *pieces)
{
	const struct vb_wqe *wqe = step->wqe;
	struct vb_remote *remote = &step->qp->remote;
	const uint32_t offset = step->qp->sq.offset, left = wqe->length - offset;
	const unsigned access = vb_wr_row(wqe->opcode)->access;
	enum vb_reason reason =
		vb_rkey_pieces(remote->home, &remote->key_cache, remote->pd, wqe->rkey,
			       wqe->remote_addr + offset, left, access, pieces);

	if (reason || left <= VB_PIECE)
		return reason;
	return vb_rkey_pieces(remote->home, &remote->key_cache, remote->pd, wqe->rkey,
			      wqe->remote_addr + offset, VB_PIECE, access, pieces);
}

/* The last bytes of a message are an element of their own, as in vb_iov_slice_ordered. */
static void slice(struct vb_step_context *step, size_t bytes, struct vb_iov *local)
{
	const uint32_t offset = step->qp->sq.offset;
	const size_t tail = bytes > TAIL ? TAIL : 0;

	vb_iov_slice(local, step->sge, step->sge_count, offset, bytes - tail);
	if (tail)
		vb_iov_slice(local, step->sge, step->sge_count, offset + bytes - tail, tail);
}

enum vb_reason vb_step_indirect(struct vb_step_context *step, enum vb_direction direction)
{
	struct vb_thread *thread = step->run->thread;
	struct vb_pieces pieces = { thread->remote, 0, PIECES_MAX, 0 };
	struct vb_iov local = { thread->local, 0, VB_IOV_MAX, 0 }, there;
	enum vb_reason reason = find_pieces(step, &pieces);
	ssize_t copied;

	if (reason)
		return reason;
	slice(step, pieces.bytes, &local);
	there = (struct vb_iov){ pieces.at, pieces.count, PIECES_MAX, pieces.bytes };
	copied = vb_step_copy(step, direction, &local, &there);
	if (vb_step_copy_refused(copied))
		return vb_step_copy_refused(copied);
	if (copied != (ssize_t)pieces.bytes)
		return vb_path_present(step->sge, step->sge_count, direction == VB_FROM_TARGET)
			       ? VB_WHY_REMOTE_MEMORY
			       : VB_WHY_LOCAL_MEMORY;
	step->qp->sq.offset += (uint32_t)copied;
	step->run->budget_bytes -= copied;
	step->since_hazard += 64; /* the next call publishes a fresh hazard */
	return VB_OK;
}

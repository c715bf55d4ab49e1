/* SPDX-License-Identifier: BSD-2-Clause */
/* SEND on a connected QP, and the receive that a WRITE_WITH_IMM consumes. */
#include <errno.h>
#include <string.h>

#include "exec/copy.h"
#include "exec/recv.h"
#include "exec/served.h"
#include "nic/odp.h"
#include "path/local/step.h"

bool vb_step_gather(const struct vb_step_context *step, uint8_t *out)
{
	for (unsigned i = 0; i < step->sge_count; i++) {
		if (!vb_user_read(out, (const void *)(uintptr_t)step->sge[i].addr,
				  step->sge[i].length))
			return false;
		out += step->sge[i].length;
	}
	return true;
}

/* A copy of one byte, on one side at a time, tells the side that lacks memory. */
static enum vb_reason memory_missing(struct vb_step_context *step, const struct vb_recv_sges *list,
				     size_t at, ssize_t err)
{
	struct iovec here_at[1], there_at[1];
	char byte;
	struct vb_iov here = { here_at, 0, 1, 0 }, there = { there_at, 0, 1, 0 };

	if (vb_step_copy_refused(err))
		return vb_step_copy_refused(err);
	if (!vb_iov_slice(&there, list->sge, vb_recv_sge_count(&step->qp->remote, list), at, 1))
		return VB_WHY_RECV_MEMORY;
	vb_iov_add(&here, &byte, 1);
	step->report.addr = (uintptr_t)there_at[0].iov_base;
	/* The message overwrites the receive's buffer anyway: the same byte written back is
	 * harmless. */
	err = vb_step_copy(step, VB_FROM_TARGET, &here, &there);
	if (err == 1)
		err = vb_step_copy(step, VB_TO_TARGET, &here, &there);
	if (err == -ECANCELED)
		return VB_WHY_PEER_NOT_READY;
	return err == 1 ? VB_WHY_LOCAL_MEMORY : VB_WHY_RECV_MEMORY;
}

/* Copies up to one piece of the message into the receive's buffers. VB_WHY_PEER_NOT_READY:
 * again. */
static enum vb_reason place_piece(struct vb_step_context *step, const struct vb_claim *claim)
{
	struct vb_thread *thread = step->run->thread;
	struct vb_sq *sq = &step->qp->sq;
	struct vb_iov local = { thread->local, 0, VB_IOV_MAX, 0 };
	struct vb_iov remote = { thread->remote, 0, VB_IOV_MAX, 0 };
	const struct vb_recv_sges *list = vb_recv_sges(&step->qp->remote, claim);
	ssize_t copied;

	vb_iov_slice(&local, step->sge, step->sge_count, sq->offset, VB_PIECE);
	vb_iov_slice(&remote, list->sge, vb_recv_sge_count(&step->qp->remote, list), sq->offset,
		     local.bytes);
	copied = vb_step_copy(step, VB_TO_TARGET, &local, &remote);
	if (copied != (ssize_t)local.bytes)
		return memory_missing(step, list, sq->offset + (copied > 0 ? (size_t)copied : 0),
				      copied);
	sq->offset += (uint32_t)copied;
	step->run->budget_bytes -= copied;
	return VB_OK;
}

static void wqe_message(const struct vb_step_context *step, struct vb_message *message)
{
	const struct vb_wqe *wqe = step->wqe;
	const struct vb_wr_row *row = vb_wr_row(wqe->opcode);

	*message = (struct vb_message){
		.length = wqe->length,
		.imm = row->recv_flags ? wqe->imm : 0,
		.src_qpn = step->qp->ibv.qp_num,
		.wc_opcode = row->recv_opcode,
		.wc_flags = row->recv_flags,
		.solicited = wqe->solicited,
		.event_later = true,
		.sl = step->qp->attr.ah_attr.sl,
	};
}

/* SEND_WITH_INV takes the target's window back before the receive completes. */
static bool window_invalidate(struct vb_step_context *step)
{
	const struct vb_remote *remote = &step->qp->remote;

	step->report.key = step->wqe->imm;
	return vb_mw_invalidate(remote->home, step->wqe->imm, remote->pd, remote->entry->qpn);
}

static enum vb_step receive_finish(struct vb_step_context *step, const struct vb_claim *claim)
{
	struct vb_message message;
	enum vb_reason reason, arrived = VB_OK;
	bool lost;

	wqe_message(step, &message);
	if (message.wc_flags & IBV_WC_WITH_INV && !window_invalidate(step))
		arrived = VB_WHY_RECV_INVALIDATE;
	step->receive = claim->index;
	reason = vb_recv_complete(&step->qp->remote, claim, &message, arrived, &lost);
	if (reason) /* VB_WHY_RECV_KEY: the receive has the status, so no event follows */
		return vb_step_refuse(step, reason, reason == VB_WHY_RECV_KEY);
	if (lost) /* the owner has flushed the receive: its QP is in ERR, and the gate will tell */
		return vb_step_unanswered(step, VB_WHY_PEER_IN_ERROR);
	if (arrived)
		return vb_step_refuse(step, arrived, true);
	vb_step_complete(step, VB_OK);
	vb_local_wake_target(step->qp, message.solicited);
	return VB_STEP_NEXT;
}

/* Completes the receive with the target's own error. */
static enum vb_step receive_spoil(struct vb_step_context *step, const struct vb_claim *claim,
				  enum vb_reason reason)
{
	struct vb_message message;
	bool lost;

	wqe_message(step, &message);
	vb_recv_complete(&step->qp->remote, claim, &message, reason, &lost);
	return vb_step_refuse(step, reason, true);
}

/* A message that is too long ends an RC connection; UC drops it and keeps the receive. */
static enum vb_step receive_refuse(struct vb_step_context *step, const struct vb_claim *claim,
				   enum vb_reason reason)
{
	step->report.have = claim->cell->posted_length;
	step->report.want = claim->index;
	if (reason == VB_WHY_RECV_SHORT && step->qp->type == IBV_QPT_UC) {
		vb_recv_unclaim(&step->qp->remote, claim);
		return vb_step_refuse(step, VB_WHY_DROP_SHORT, true);
	}
	return receive_spoil(step, claim, reason);
}

/* The piece was not copied, and the target's memory was not the reason. */
static enum vb_step wqe_not_placed(struct vb_step_context *step, enum vb_reason reason)
{
	if (reason == VB_WHY_PEER_UNTOUCHABLE)
		return vb_step_denied(step);
	return reason == VB_WHY_PEER_ENDED ? vb_step_ended(step) : vb_step_complete(step, reason);
}

static enum vb_step receive_place(struct vb_step_context *step, const struct vb_claim *claim)
{
	struct vb_remote *remote = &step->qp->remote;
	enum vb_reason reason = place_piece(step, claim);

	if (reason == VB_WHY_RECV_MEMORY)
		return receive_spoil(step, claim, reason);
	if (reason && reason != VB_WHY_PEER_NOT_READY) {
		vb_recv_unclaim(remote, claim);
		return wqe_not_placed(step, reason);
	}
	if (reason || step->qp->sq.offset < step->wqe->length) {
		remote->taken = claim->index;
		remote->holds_taken = remote->many;
		return VB_STEP_AGAIN;
	}
	claim->cell->where = VB_PAYLOAD_PLACED;
	vb_step_shelf_wish(step);
	return receive_finish(step, claim);
}

enum vb_step vb_step_send(struct vb_step_context *step)
{
	struct vb_remote *remote = &step->qp->remote;
	uint32_t length = step->wqe->length;
	enum vb_reason reason = vb_step_local(step, step->wqe, 0);
	struct vb_claim claim = { 0 };
	enum vb_verdict verdict;
	uint8_t *ride;

	if (reason)
		return vb_step_complete(step, reason);
	verdict = vb_step_bind(step);
	if (verdict)
		return vb_step_not_here(step, verdict);
	if (!vb_step_claim(step, &claim))
		return vb_step_no_receive(step);
	/* Within the process a copy needs no system call, so the payload need not ride. */
	ride = remote->home->self ? NULL : vb_recv_ride(remote, &claim, length);
	reason = vb_recv_check(remote, &claim, length, ride);
	if (reason)
		return receive_refuse(step, &claim, reason);
	if (!ride)
		return receive_place(step, &claim);
	if (!vb_step_gather(step, ride)) {
		vb_recv_unclaim(remote, &claim);
		return vb_step_complete(step, VB_WHY_LOCAL_MEMORY);
	}
	claim.cell->where = ride == claim.cell->payload ? VB_PAYLOAD_INLINE : VB_PAYLOAD_SPILL;
	return receive_finish(step, &claim);
}

/* The data is written: now a receive reports it to the target. */
static enum vb_step consume_for_imm(struct vb_step_context *step)
{
	struct vb_claim claim = { 0 };

	if (!vb_step_claim(step, &claim))
		return vb_step_no_receive(step);
	vb_served_done(step->qp->remote.entry, step->qp->remote.lent, VB_SERVED_WRITE,
		       step->wqe->length);
	claim.cell->where = VB_PAYLOAD_PLACED;
	return receive_finish(step, &claim);
}

static enum vb_step refuse_imm(struct vb_step_context *step, enum vb_reason reason)
{
	struct vb_claim claim = { 0 };

	/* A receive, if there is one, reports an access error; else the event does. */
	if (vb_qp_reliable(step->qp) && vb_reason_row(reason)->recv_status != IBV_WC_SUCCESS &&
	    vb_recv_claim(&step->qp->remote, &claim))
		return receive_spoil(step, &claim, reason);
	return vb_step_refuse(step, reason, false);
}

/* Copies one piece of a WRITE_WITH_IMM, through a view or the kernel. */
static ssize_t copy_piece(struct vb_step_context *step, const struct vb_iov *local,
			  uint64_t address)
{
	struct vb_remote *remote = &step->qp->remote;
	struct vb_iov there = { step->run->thread->remote, 0, VB_IOV_MAX, 0 };
	const struct vb_aim aim = { vb_mapped_at(remote->home, remote->key_cache.entry, address,
						 local->bytes, true),
				    address, address + local->bytes };
	char *at = aim.view.at;
	ssize_t copied;

	vb_iov_add_remote(&there, at ? (uintptr_t)at : address, local->bytes);
	if (at)
		return vb_step_copy_mapped(step, VB_TO_TARGET_IN_ORDER, local, &there, &aim);
	copied = vb_step_copy(step, VB_TO_TARGET_IN_ORDER, local, &there);
	if (copied > 0)
		vb_mapped_spent(remote->home, &remote->key_cache, (uint64_t)copied);
	return copied;
}

static enum vb_reason write_piece(struct vb_step_context *step, uint64_t address)
{
	struct vb_thread *thread = step->run->thread;
	struct vb_sq *sq = &step->qp->sq;
	struct vb_iov local = { thread->local, 0, VB_IOV_MAX, 0 };
	uint32_t left = step->wqe->length - sq->offset, piece = left < VB_PIECE ? left : VB_PIECE;
	ssize_t copied;

	vb_iov_slice_ordered(&local, step->sge, step->sge_count, sq->offset, piece,
			     address + sq->offset);
	copied = copy_piece(step, &local, address + sq->offset);
	if (vb_step_copy_refused(copied))
		return vb_step_copy_refused(copied);
	if (copied != (ssize_t)local.bytes)
		return vb_path_present(step->sge, step->sge_count, false) ? VB_WHY_REMOTE_MEMORY
									  : VB_WHY_LOCAL_MEMORY;
	sq->offset += (uint32_t)copied;
	step->run->budget_bytes -= copied;
	return VB_OK;
}

enum vb_step vb_step_write_imm(struct vb_step_context *step)
{
	enum vb_reason reason = vb_step_local(step, step->wqe, 0);
	enum vb_verdict verdict;
	uint64_t address;

	if (reason)
		return vb_step_complete(step, reason);
	verdict = vb_step_bind(step);
	if (verdict)
		return vb_step_not_here(step, verdict);
	if (!step->wqe->length) {
		reason = vb_step_remote(step, step->wqe, &address); /* checks the QP's rights */
		if (reason)
			return refuse_imm(step, reason);
	}
	if (step->qp->sq.offset < step->wqe->length) {
		reason = vb_step_remote(step, step->wqe, &address);
		if (!reason)
			reason = write_piece(step, address);
		else if (reason == VB_WHY_RKEY_INDIRECT)
			reason = vb_step_indirect(step, VB_TO_TARGET_IN_ORDER);
		if (reason == VB_WHY_PEER_NOT_READY)
			return VB_STEP_AGAIN;
		if (reason == VB_WHY_PEER_ENDED || reason == VB_WHY_PEER_UNTOUCHABLE ||
		    reason == VB_WHY_LOCAL_MEMORY)
			return wqe_not_placed(step, reason);
		if (reason)
			return refuse_imm(step, reason);
		if (step->qp->sq.offset < step->wqe->length)
			return VB_STEP_AGAIN;
	}
	return consume_for_imm(step);
}

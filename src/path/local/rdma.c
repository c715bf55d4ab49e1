/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA_WRITE and RDMA_READ: as many WQEs of one direction as fit are copied together, by one system
 * call where that keeps the order of bytes (exec/copy.h), or without a call where all of them are
 * for mapped regions. Each is validated before. If memory is missing, the count of bytes copied
 * tells the WQE that it hit.
 */
#include <errno.h>

#include "exec/copy.h"
#include "exec/rkey.h"
#include "exec/served.h"
#include "path/fault/fault.h"
#include "path/local/step.h"

enum { BATCH_MAX = 256 };

struct batch {
	enum vb_direction direction;
	struct vb_iov local, remote;
	struct vb_aim aim;         /* of remote, which has addresses of this process in a view */
	unsigned count;            /* WQEs, from sq.next on */
	uint32_t bytes[BATCH_MAX]; /* bytes of each WQE in this copy */
	enum vb_reason stop;       /* why the next WQE is not in this copy; VB_OK: no room */
};

/* READs and ATOMICs that are posted together, and would be under way together on a wire. */
static uint32_t reads_outstanding(const struct vb_step_context *step)
{
	const struct vb_sq *sq = &step->qp->sq;
	uint32_t count = 0;
	uint32_t most = step->qp->attr.max_rd_atomic ? step->qp->attr.max_rd_atomic : 1;

	for (uint32_t i = sq->next; i != step->run->end && count < most; i++)
		count += vb_wr_reads(vb_sq_wqe(sq, i)->opcode);
	return count < most ? count : most;
}

enum vb_reason vb_step_depth(struct vb_step_context *step)
{
	uint32_t most = step->qp->remote.entry->max_dest_rd_atomic;

	if (step->qp->attr.max_rd_atomic <= most && most)
		return VB_OK;
	step->report.have = most;
	step->report.want = reads_outstanding(step);
	return step->report.want > most ? VB_WHY_READ_DEPTH : VB_OK;
}

enum vb_reason vb_step_remote(struct vb_step_context *step, const struct vb_wqe *wqe,
			      uint64_t *address)
{
	struct vb_remote *remote = &step->qp->remote;
	unsigned access = vb_wr_row(wqe->opcode)->access;
	bool word = vb_wr_is_word(wqe->opcode);
	enum vb_reason reason = VB_OK;

	step->report.key = wqe->rkey;
	step->report.addr = wqe->remote_addr;
	step->report.length = wqe->length;
	if (!(atomic_load_explicit(&remote->entry->access, memory_order_relaxed) & access))
		return VB_WHY_QP_RIGHT;
	if (vb_wr_reads(wqe->opcode))
		reason = vb_step_depth(step);
	if (reason)
		return reason;
	if (word && wqe->remote_addr & 7)
		return VB_WHY_ATOMIC_ALIGN;
	*address = 0;
	if (!wqe->length) /* without bytes the key is ignored */
		return VB_OK;
	reason = vb_rkey_check(remote->home, &remote->key_cache, remote->pd, remote->entry->qpn,
			       wqe->rkey, wqe->remote_addr, wqe->length, access, address);
	/* An aligned address may stand for unaligned memory, if the region begins unaligned. */
	return !reason && word && *address & 7 ? VB_WHY_ATOMIC_ALIGN : reason;
}

/* WRITE: the own side first, as nothing is sent with a bad lkey. READ: the remote error wins. */
__attribute__((always_inline)) static inline enum vb_reason
wqe_check(struct vb_step_context *step, const struct vb_wqe *wqe, uint64_t *address)
{
	bool read = vb_wr_returns(wqe->opcode);
	enum vb_reason reason = VB_OK;

	if (wqe->length > VB_MSG_MAX)
		return VB_WHY_LENGTH_MAX;
	if (read)
		reason = vb_step_remote(step, wqe, address);
	if (!reason)
		reason = vb_step_local(step, wqe, read ? IBV_ACCESS_LOCAL_WRITE : 0);
	if (!reason && !read)
		reason = vb_step_remote(step, wqe, address);
	return reason;
}

/* Adds the remote side of a WQE; false: it is reached in another way than those before. */
static bool batch_aim(struct vb_step_context *step, struct batch *batch, uint64_t address,
		      size_t length)
{
	struct vb_remote *remote = &step->qp->remote;
	struct vb_aim *aim = &batch->aim;
	bool first = !batch->remote.count;
	struct vb_mapped view = vb_mapped_at(remote->home, remote->key_cache.entry, address, length,
					     batch->direction != VB_FROM_TARGET);

	if (!first && view.shown != aim->view.shown)
		return false;
	if (!view.at) /* aim->view.at is NULL, too */
		return vb_iov_add_remote(&batch->remote, address, length);
	aim->view = view;
	aim->from = first || address < aim->from ? address : aim->from;
	aim->to = first || address + length > aim->to ? address + length : aim->to;
	return vb_iov_add_remote(&batch->remote, (uintptr_t)view.at, length);
}

/* Adds the next WQE, or the next piece of a long one. False: the batch is complete. */
static bool batch_add(struct vb_step_context *step, struct batch *batch)
{
	struct vb_sq *sq = &step->qp->sq;
	const struct vb_wqe *wqe = vb_sq_wqe(sq, sq->next + batch->count);
	uint32_t offset = batch->count ? 0 : sq->offset;
	size_t room = VB_PIECE - batch->local.bytes, want = wqe->length - offset;
	uint64_t address;

	if (batch->count && want > room)
		return false;
	if (batch->local.room - batch->local.count < VB_SGE_MAX + 1 ||
	    batch->remote.room == batch->remote.count)
		return false;
	batch->stop = wqe_check(step, wqe, &address);
	if (batch->stop)
		return false;
	if (want > room)
		want = room;
	if (want && !batch_aim(step, batch, address + offset, want))
		return false;
	if (batch->direction == VB_TO_TARGET_IN_ORDER)
		vb_iov_slice_ordered(&batch->local, step->sge, step->sge_count, offset, want,
				     address + offset);
	else
		vb_iov_slice(&batch->local, step->sge, step->sge_count, offset, want);
	batch->bytes[batch->count++] = (uint32_t)want;
	return offset + want == wqe->length;
}

/* XRC: another SRQ may be in another process, and have another PD. */
static bool wqe_has_same_srq(const struct vb_step_context *step, const struct vb_wqe *wqe)
{
	return step->qp->type != IBV_QPT_XRC_SEND || wqe->srqn == step->wqe->srqn;
}

static void batch_collect(struct vb_step_context *step, struct batch *batch)
{
	struct vb_sq *sq = &step->qp->sq;
	uint8_t opcode = step->wqe->opcode;
	/* Fault rules, and path MTUs that differ, concern each WQE. A capture shows the bytes that
	 * each READ brings, before the next one overwrites them. */
	unsigned most =
		vb_fault_any() || vb_captured() || step->qp->remote.message_max != UINT32_MAX
			? 1
			: BATCH_MAX;

	while (batch->count < most && sq->next + batch->count != step->run->end &&
	       batch->local.bytes < VB_PIECE &&
	       vb_sq_wqe(sq, sq->next + batch->count)->opcode == opcode &&
	       wqe_has_same_srq(step, vb_sq_wqe(sq, sq->next + batch->count)) &&
	       batch_add(step, batch))
		;
}

/* True: the first WQE is done with the bytes that this call has moved. */
static bool wqe_is_finished(const struct vb_step_context *step, uint32_t moved)
{
	return step->qp->sq.offset + moved == step->wqe->length;
}

static inline void complete_first(struct vb_step_context *step)
{
	struct vb_sq *sq = &step->qp->sq;
	const struct vb_remote *remote = &step->qp->remote;

	vb_served_done(remote->entry, remote->lent,
		       vb_wr_returns(step->wqe->opcode) ? VB_SERVED_READ : VB_SERVED_WRITE,
		       step->wqe->length);
	vb_step_succeed(step);
	if (sq->next != step->run->end)
		step->wqe = vb_sq_wqe(sq, sq->next);
}

/* A copy of one byte of the operation tells the side that lacks memory. */
static enum vb_reason memory_missing(struct vb_step_context *step, const struct batch *batch,
				     uint32_t at)
{
	struct iovec here_at[1], there_at[1];
	char byte;
	struct vb_iov here = { here_at, 0, 1, 0 }, there = { there_at, 0, 1, 0 };
	uint64_t address;

	if (wqe_check(step, step->wqe, &address))
		return VB_WHY_LOCAL_KEY; /* deregistered since the checks */
	vb_iov_add(&there, (void *)(uintptr_t)(address + at), 1);
	step->report.addr = address + at;
	if (batch->direction == VB_FROM_TARGET) {
		vb_iov_add(&here, &byte, 1);
		return vb_copy(step->qp->remote.home, VB_FROM_TARGET, &here, &there) == 1
			       ? VB_WHY_LOCAL_MEMORY
			       : VB_WHY_REMOTE_MEMORY;
	}
	/* The kernel copies the local byte into a variable, if the byte is readable. */
	vb_iov_slice(&here, step->sge, step->sge_count, at, 1);
	there_at[0] = (struct iovec){ &byte, 1 };
	if (process_vm_readv(step->qp->nic->self->tid, there_at, 1, here_at, 1, 0) != 1)
		return VB_WHY_LOCAL_MEMORY;
	return VB_WHY_REMOTE_MEMORY;
}

/* Completes the WQEs that the copied bytes cover, and fails the next one if memory is missing. */
static enum vb_step batch_settle(struct vb_step_context *step, const struct batch *batch,
				 ssize_t copied)
{
	size_t left = copied > 0 ? (size_t)copied : 0;
	bool missing = left < batch->local.bytes;

	for (unsigned i = 0; i < batch->count; i++) {
		enum vb_reason reason;

		if (left >= batch->bytes[i]) {
			left -= batch->bytes[i];
			if (!wqe_is_finished(step, batch->bytes[i])) {
				step->qp->sq.offset += batch->bytes[i];
				return VB_STEP_AGAIN;
			}
			complete_first(step);
			continue;
		}
		if (copied == -ESRCH)
			return vb_step_ended(step);
		if (vb_copy_is_denied(copied))
			return vb_step_denied(step);
		reason = memory_missing(step, batch, step->qp->sq.offset + (uint32_t)left);
		if (reason == VB_WHY_REMOTE_MEMORY)
			return vb_step_refuse(step, reason, false);
		return vb_step_complete(step, reason);
	}
	return missing ? VB_STEP_AGAIN : VB_STEP_NEXT;
}

static enum vb_step wqe_refuse(struct vb_step_context *step, enum vb_reason reason)
{
	if (vb_reason_row(reason)->target_fails)
		return vb_step_refuse(step, reason, false);
	return vb_step_complete(step, reason);
}

/* A WRITE with a bad lkey fails at once, even if the peer does not answer. */
static enum vb_step wqe_not_here(struct vb_step_context *step, enum vb_verdict verdict)
{
	enum vb_reason local =
		vb_wr_returns(step->wqe->opcode) ? VB_OK : vb_step_local(step, step->wqe, 0);

	return local ? vb_step_complete(step, local) : vb_step_not_here(step, verdict);
}

/* A batch is not zeroed as a whole: it is large, and bytes is written before it is read. */
static void batch_begin(struct batch *batch, const struct vb_step_context *step)
{
	struct vb_thread *thread = step->run->thread;

	batch->direction =
		vb_wr_returns(step->wqe->opcode) ? VB_FROM_TARGET : VB_TO_TARGET_IN_ORDER;
	batch->local = (struct vb_iov){ thread->local, 0, VB_IOV_MAX, 0 };
	batch->remote = (struct vb_iov){ thread->remote, 0, VB_IOV_MAX, 0 };
	batch->count = 0;
	batch->aim.view = (struct vb_mapped){ 0 };
	batch->stop = VB_OK;
}

static ssize_t batch_copy(struct vb_step_context *step, const struct batch *batch)
{
	struct vb_remote *remote = &step->qp->remote;
	ssize_t copied;

	if (batch->aim.view.at)
		return vb_step_copy_mapped(step, batch->direction, &batch->local, &batch->remote,
					   &batch->aim);
	copied = vb_step_copy(step, batch->direction, &batch->local, &batch->remote);
	if (copied > 0)
		vb_mapped_spent(remote->home, &remote->key_cache, (uint64_t)copied);
	step->since_hazard += 64; /* the next call publishes a fresh hazard */
	return copied;
}

/* A WQE whose rkey is indirect is copied alone, a part at a time. */
static enum vb_step wqe_indirect(struct vb_step_context *step, enum vb_direction direction)
{
	const bool read = direction == VB_FROM_TARGET;
	enum vb_reason reason =
		read ? vb_step_local(step, step->wqe, IBV_ACCESS_LOCAL_WRITE) : VB_OK;

	if (!reason && read && step->wqe->length > step->qp->remote.message_max) {
		vb_step_report_mtu(step);
		reason = VB_WHY_MTU_OF_READ;
	}
	if (!reason)
		reason = vb_step_indirect(step, direction);
	if (reason == VB_WHY_PEER_NOT_READY)
		return VB_STEP_AGAIN;
	if (reason == VB_WHY_PEER_ENDED)
		return vb_step_ended(step);
	if (reason == VB_WHY_PEER_UNTOUCHABLE)
		return vb_step_denied(step);
	if (reason)
		return wqe_refuse(step, reason);
	if (step->qp->sq.offset < step->wqe->length)
		return VB_STEP_AGAIN;
	complete_first(step);
	return VB_STEP_NEXT;
}

enum vb_step vb_step_rdma(struct vb_step_context *step)
{
	enum vb_verdict verdict = vb_step_bind(step);
	struct batch batch;
	ssize_t copied = 0;

	if (verdict)
		return wqe_not_here(step, verdict);
	batch_begin(&batch, step);
	batch_collect(step, &batch);
	if (!batch.count)
		return batch.stop == VB_WHY_RKEY_INDIRECT ? wqe_indirect(step, batch.direction)
							  : wqe_refuse(step, batch.stop);
	if (batch.direction == VB_FROM_TARGET && step->wqe->length > step->qp->remote.message_max) {
		vb_step_report_mtu(step);
		return vb_step_complete(step, VB_WHY_MTU_OF_READ);
	}
	if (batch.local.bytes)
		copied = batch_copy(step, &batch);
	if (copied == -ECANCELED)
		return VB_STEP_AGAIN;
	step->run->budget_bytes -= batch.local.bytes;
	return batch_settle(step, &batch, copied);
}

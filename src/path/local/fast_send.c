/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The short way of a small SEND: to a bound peer that has a receive posted, from an idle send
 * queue. It takes the same steps as vb_step_send, in the same order, with one atomic operation to
 * lock the queue and one to complete the receive. All other cases are left to vb_step_send.
 */
#include <string.h>

#include "capture/ring.h"
#include "exec/recv.h"
#include "nic/mr.h"
#include "path/local/local.h"

static inline bool wr_is_suitable(const struct ibv_send_wr *wr)
{
	return !wr->next && wr->num_sge == 1 &&
	       (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM) &&
	       !(wr->send_flags & ~(unsigned)(IBV_SEND_FENCE | IBV_SEND_SIGNALED |
					      IBV_SEND_SOLICITED | IBV_SEND_INLINE)) &&
	       wr->sg_list->length <= VB_SPILL;
}

/* True: no WQE waits or runs before this one, and its completion will find room. */
static inline bool sq_is_idle(const struct vb_qp *qp)
{
	const struct vb_sq *sq = &qp->sq;

	return !sq->executing && sq->next == sq->tail && !sq->hold && !qp->counts_sends &&
	       !vb_sq_full(sq) &&
	       atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RTS &&
	       !(vb_cq_own_asks(qp->send_cq) & VB_CQ_COUNTS);
}

static inline bool peer_is_ready(const struct vb_remote *remote)
{
	return atomic_load_explicit(&remote->entry->gate, memory_order_acquire) == remote->gate &&
	       !vb_life_over(&remote->peer->head->life);
}

/* The address of the bytes; NULL: the short way cannot be taken. */
static inline const void *wr_source(struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;
	struct vb_mr *mr;
	uint64_t address;

	if (wr->send_flags & IBV_SEND_INLINE)
		return sge->length <= qp->sq.inline_max ? (const void *)(uintptr_t)sge->addr : NULL;
	if (__builtin_expect(vb_mr_cached(&qp->sq.mr_cache, qp->nic, sge, &address), 1))
		return (const void *)(uintptr_t)address;
	mr = vb_mr_cache_fill(&qp->sq.mr_cache, qp->nic, qp->pd, sge, 0);
	return mr && !vb_mr_on_demand(mr) ? (const void *)(uintptr_t)vb_mr_at(mr, sge->addr, 0)
					  : NULL;
}

static inline void cell_fill(struct vb_remote *remote, struct vb_cell *cell, const struct vb_qp *qp,
			     const struct ibv_send_wr *wr, const void *from, bool stamped)
{
	const uint32_t length = wr->sg_list->length;
	const bool imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
	const bool rides = length <= (stamped ? VB_INLINE_STAMPED : VB_INLINE_CELL);
	const struct vb_message message = {
		.length = length,
		.imm = imm ? wr->imm_data : 0,
		.src_qpn = qp->ibv.qp_num,
		.wc_flags = imm ? IBV_WC_WITH_IMM : 0,
		.sl = qp->attr.ah_attr.sl,
	};

	vb_cell_describe(cell, qp->attr.dest_qp_num, &message, VB_OK, IBV_WC_SUCCESS);
	cell->where = rides ? VB_PAYLOAD_INLINE : VB_PAYLOAD_SPILL;
	cell->stamped = stamped;
	if (length == 8)
		memcpy(cell->payload, from, 8);
	else
		memcpy(rides ? cell->payload
			     : remote->spill +
				       (size_t)(remote->next_recv & remote->mask) * VB_SPILL,
		       from, length);
}

/* A poller at the sender's heels has the next cells: their lines come sooner if asked for now. In
 * an exchange of single messages the poller would have to fetch them back. */
static inline void cell_ahead_prefetch(const struct vb_remote *remote)
{
	if (atomic_load_explicit(&remote->cq->caught_up, memory_order_relaxed))
		vb_prefetch_to_write(&remote->cells[(remote->next_recv + 1) & remote->mask]);
}

/*
 * Delivers the message, and gives its stamp if it has one; false: nothing happened. Called under
 * the queue's lock, inside a hazard that names the peer and its QP.
 */
static inline bool message_deliver(struct vb_qp *qp, const struct ibv_send_wr *wr, uint64_t direct,
				   uint64_t *stamp)
{
	struct vb_remote *remote = &qp->remote;
	uint32_t asks;
	struct vb_cell *cell;
	uint64_t posted;
	const void *from;

	if (!sq_is_idle(qp) ||
	    atomic_load_explicit(&remote->direct, memory_order_relaxed) != direct)
		return false;
	cell = &remote->cells[remote->next_recv & remote->mask];
	vb_prefetch_to_write(cell); /* this CPU writes the cell anyway */
	asks = vb_cq_asks(remote->cq);
	vb_cq_prefetch_number(remote->cq, asks);
	vb_cq_prefetch_number(qp->send_cq->shared, vb_cq_own_asks(qp->send_cq));
	posted = vb_cell_word(remote->next_recv, 0, VB_CELL_KEYS_OK, VB_CELL_POSTED);
	if (!peer_is_ready(remote) || asks & VB_CQ_COUNTS ||
	    atomic_load_explicit(&cell->word, memory_order_acquire) != posted ||
	    cell->posted_length < wr->sg_list->length)
		return false;
	from = wr_source(qp, wr);
	if (!from)
		return false;
	/* Before the cell is written: the atomic operation would wait for the line of the cell, and
	 * a poller that watches the cell could take the line away in between. */
	if (asks & VB_CQ_ORDERED)
		*stamp = vb_cq_stamp(remote->cq, asks);
	cell_fill(remote, cell, qp, wr, from, asks & VB_CQ_ORDERED);
	if (asks & VB_CQ_ORDERED)
		cell->stamp = *stamp;
	/* The owner may flush the receive at this moment: then the owner has it. */
	if (!atomic_compare_exchange_strong(&cell->word, &posted,
					    vb_cell_word(remote->next_recv, 0, 0, VB_CELL_DONE))) {
		vb_cq_void_number(remote->cq, asks);
		return false;
	}
	/* Between the completion and the looks at use_ready and armed, as in cell_commit. */
	vb_fence_after_rmw();
	remote->next_recv++;
	cell_ahead_prefetch(remote);
	if (remote->keeps_head)
		atomic_store_explicit(&remote->rq_lent->head, remote->next_recv,
				      memory_order_relaxed);
	return true;
}

static inline void wqe_record(struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t asks = vb_cq_own_asks(qp->send_cq);
	struct vb_sq *sq = &qp->sq;
	struct vb_wqe *wqe = vb_sq_wqe(sq, sq->tail);

	wqe->wr_id = wr->wr_id;
	wqe->ah = NULL;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->status = IBV_WC_SUCCESS;
	wqe->reason = VB_OK;
	wqe->length = wr->sg_list->length;
	vb_sq_count(&sq->bytes_out, wqe->length);
	wqe->signaled = qp->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	if (asks & (VB_CQ_ORDERED | VB_CQ_PAIR) && wqe->signaled)
		sq->stamps[sq->tail & sq->mask] = vb_qp_send_stamp(qp, asks);
	sq->next = ++sq->tail;
	/* Pairs with the load in cq_queue.c. */
	atomic_store_explicit(&sq->done, sq->next, memory_order_release);
	if (asks & VB_CQ_NUMBERS && wqe->signaled)
		vb_cq_trail_mark(qp->send_cq, sq->stamps[(sq->tail - 1) & sq->mask], qp->sends.bit);
}

static inline void poller_tell(struct vb_qp *qp, bool signaled)
{
	struct vb_cq *cq = qp->send_cq;

	if (!signaled)
		return;
	/* Between the completion and the look at ready_pages. use_ready has a barrier for both. */
	if (__builtin_expect(cq->nic->unregistered_barrier, 0))
		atomic_thread_fence(memory_order_seq_cst);
	if (!cq->channel && !atomic_load_explicit(&cq->ready_pages, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_seq_cst); /* pairs as the fence in vb_path_tell */
	vb_cq_notify(cq, qp->sends.bit, false);
}

bool vb_local_send_fast(struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	struct vb_thread *thread = vb_thread_self;
	struct vb_remote *remote = &qp->remote;
	uint64_t direct = atomic_load_explicit(&remote->direct, memory_order_relaxed);
	uint64_t stamp = 0;
	bool sent = false;

	if (!direct || vb_captured() || !wr || !wr_is_suitable(wr) || !thread)
		return false;
	/* As vb_hazard_enter, but the exchange is the one that takes the lock. The release is that
	 * of the last visit, whose word this one may hide from a grace. */
	atomic_store_explicit(&thread->hazard->word, vb_hazard_next(thread, direct),
			      memory_order_release);
	if (vb_spin_try(&qp->sq.lock)) {
		vb_fence_after_rmw();
		sent = message_deliver(qp, wr, direct, &stamp);
		/* Before the send completes: a poll must not find an effect of that ready first. */
		if (sent && atomic_load_explicit(&remote->cq->use_ready, memory_order_relaxed))
			vb_recv_mark_ready(remote, stamp);
		if (sent)
			wqe_record(qp, wr);
		/* Before the lock is released: its next holder may bind to another peer. */
		if (sent && atomic_load_explicit(&remote->cq->armed, memory_order_relaxed))
			vb_local_wake_target(qp, wr->send_flags & IBV_SEND_SOLICITED);
		vb_spin_unlock(&qp->sq.lock);
	}
	vb_hazard_leave(thread);
	if (sent)
		poller_tell(qp, qp->sig_all || wr->send_flags & IBV_SEND_SIGNALED);
	return sent;
}

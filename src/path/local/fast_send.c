/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The short way of small SENDs: to a bound target that has a receive posted, from an idle send
 * queue. It takes the same steps as vb_step_send and vb_step_datagram, in the same order, with one
 * atomic operation to lock the queue, and one to complete each receive. A receive that other
 * senders may take as well (SRQ, UD) needs one more. All other cases are left to those functions.
 */
#include <string.h>

#include "base/probe.h"
#include "capture/ring.h"
#include "exec/recv.h"
#include "nic/mr.h"
#include "path/local/step.h"
#include "wire/grh.h"

enum {
	SGES = 4,          /* elements that a small SEND may have */
	HAZARD_SENDS = 64, /* messages of a list within one hazard */
	CELLS_PASSED = 16, /* receives of other senders that are passed in search of one */
};

/* Each kind has its copy of the functions below, without the steps of the others. */
#define FOR_KIND __attribute__((always_inline)) static inline

struct kind {
	bool many;     /* the receive queue has other senders, too */
	bool datagram; /* implies many */
	bool shelf;    /* the receive queue has a shelf; not with many */
};

/* A work request on its way. */
struct parcel {
	const struct ibv_send_wr *wr;
	uint32_t length; /* of the payload */
	uint32_t total;  /* of the bytes that go into the receive, a GRH included */
	const void *from;
};

/* --- the work request --- */

/* True: the payload is too large for the spill of a cell. */
FOR_KIND bool is_shelved(const struct parcel *parcel, struct kind kind)
{
	return kind.shelf && parcel->length > VB_SPILL;
}

static uint64_t sges_length(const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

static inline bool opcode_is_suitable(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM;
}

FOR_KIND bool wr_is_suitable(const struct vb_qp *qp, const struct ibv_send_wr *wr, struct kind kind,
			     struct parcel *parcel)
{
	const uint32_t before = kind.datagram ? VB_GRH_SIZE : 0;
	const uint32_t room = kind.shelf ? VB_SHELF_PLACE : VB_SPILL;
	uint64_t length = 0;

	if (!opcode_is_suitable(wr) ||
	    wr->send_flags & ~(unsigned)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
					 IBV_SEND_INLINE) ||
	    (unsigned)wr->num_sge > SGES)
		return false;
	if (__builtin_expect(wr->num_sge == 1, 1))
		length = wr->sg_list->length;
	else
		length = sges_length(wr);
	parcel->wr = wr;
	parcel->length = (uint32_t)length;
	parcel->total = before + parcel->length;
	if (length > room - before || (is_shelved(parcel, kind) && wr->num_sge != 1))
		return false;
	return wr->send_flags & IBV_SEND_INLINE ? length <= qp->sq.inline_max
						: (unsigned)wr->num_sge <= qp->sq.sge_max;
}

/* False: the short way cannot be taken. */
FOR_KIND bool source_find(struct vb_qp *qp, const struct ibv_send_wr *wr, const struct ibv_sge *sge,
			  const void **from)
{
	struct vb_mr *mr;
	uint64_t address;

	*from = (const void *)(uintptr_t)sge->addr;
	if (wr->send_flags & IBV_SEND_INLINE)
		return true;
	if (__builtin_expect(!vb_mr_cached(&qp->sq.mr_cache, qp->nic, sge, &address), 0)) {
		mr = vb_mr_cache_fill(&qp->sq.mr_cache, qp->nic, qp->pd, sge, 0);
		if (!mr || vb_mr_on_demand(mr))
			return false;
		address = vb_mr_at(mr, sge->addr, 0);
	}
	*from = (const void *)(uintptr_t)address;
	return true;
}

/* Several elements, or none: brings their bytes together. */
__attribute__((noinline)) static bool sources_gather(struct vb_qp *qp, const struct ibv_send_wr *wr,
						     uint8_t *to)
{
	const void *from;

	for (int i = 0; i < wr->num_sge; i++) {
		if (!source_find(qp, wr, &wr->sg_list[i], &from))
			return false;
		memcpy(to, from, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
	return true;
}

/* False: the short way cannot be taken. */
FOR_KIND bool payload_find(struct vb_qp *qp, struct parcel *parcel)
{
	const struct ibv_send_wr *wr = parcel->wr;

	if (__builtin_expect(wr->num_sge == 1, 1))
		return source_find(qp, wr, wr->sg_list, &parcel->from);
	parcel->from = vb_thread_self->gathered;
	return sources_gather(qp, wr, vb_thread_self->gathered);
}

/* Out of line: the compiler would unroll a copy of limited length, which is slower for some KB. */
__attribute__((noinline)) static void shelf_fill(uint8_t *to, const void *from, size_t length)
{
	memcpy(to, from, length);
}

FOR_KIND void payload_copy(const struct parcel *parcel, struct kind kind, uint8_t *to)
{
	if (is_shelved(parcel, kind))
		shelf_fill(to, parcel->from, parcel->length);
	else if (parcel->length == 8)
		memcpy(to, parcel->from, 8);
	else
		memcpy(to, parcel->from, parcel->length);
}

/* --- both ends are ready --- */

/* True: no WQE waits or runs before this one, and its completion will find room. */
FOR_KIND bool sq_is_idle(const struct vb_qp *qp)
{
	const struct vb_sq *sq = &qp->sq;

	return !sq->executing && sq->next == sq->tail && !sq->hold && !qp->slow_sends &&
	       !vb_sq_full(sq) &&
	       atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RTS &&
	       !(vb_cq_own_asks(qp->send_cq) & VB_CQ_COUNTS);
}

FOR_KIND bool target_is_ready(const struct vb_remote *remote, struct kind kind)
{
	return atomic_load_explicit(&remote->entry->gate, memory_order_acquire) == remote->gate &&
	       !vb_life_over(&remote->peer->head->life) &&
	       (!kind.many || atomic_load_explicit(&remote->rq->version, memory_order_acquire) ==
				      remote->rq_version);
}

/* The checks that each datagram needs: its address and keys are those of the target at hand. */
static inline bool datagram_fits(const struct vb_qp *qp, const struct parcel *parcel)
{
	const struct vb_remote *remote = &qp->remote;
	const struct ibv_send_wr *wr = parcel->wr;
	const struct vb_ah *ah = wr->wr.ud.ah ? vb_ah(wr->wr.ud.ah) : NULL;

	return ah && ah->av.local && vb_pd_same(ah->pd, qp->pd) &&
	       (wr->wr.ud.remote_qpn & VB_MASK24) == remote->entry->qpn &&
	       atomic_load_explicit(&remote->entry->qkey, memory_order_relaxed) ==
		       vb_qp_datagram_qkey(qp, wr->wr.ud.remote_qkey) &&
	       !atomic_load_explicit(&remote->entry->by_packets, memory_order_relaxed) &&
	       !atomic_load_explicit(&remote->peer->denied, memory_order_relaxed) &&
	       vb_pkey_fits(vb_gate_pkey(remote->gate), vb_qp_pkey(qp)) &&
	       parcel->length <= qp->datagram_max && !vb_sq_has_aside(&qp->sq);
}

/* --- the receive --- */

static inline struct vb_cell *next_cell(const struct vb_remote *remote)
{
	return &remote->cells[remote->next_recv & remote->mask];
}

static inline uint64_t word_posted(const struct vb_remote *remote)
{
	return vb_cell_word(remote->next_recv, 0, VB_CELL_KEYS_OK, VB_CELL_POSTED);
}

static inline uint64_t word_taken(const struct vb_remote *remote)
{
	return vb_cell_word(remote->next_recv, remote->home->id_there, VB_CELL_KEYS_OK,
			    VB_CELL_TAKEN);
}

/* Finds a receive that is posted and has room. Receives that others took are passed for good. */
FOR_KIND bool cell_find(struct vb_remote *remote, struct kind kind, uint32_t length)
{
	for (int passed = 0; passed < CELLS_PASSED; passed++) {
		struct vb_cell *cell = next_cell(remote);
		uint64_t word = atomic_load_explicit(&cell->word, memory_order_acquire);

		if (__builtin_expect(word == word_posted(remote), 1))
			return VB_READ_ONCE(cell->posted_length) >= length;
		if (!kind.many || vb_cell_index(word) != remote->next_recv ||
		    vb_cell_state(word) == VB_CELL_POSTED)
			return false;
		remote->next_recv++;
	}
	return false;
}

/* Takes the receive that was found, or the next one if another sender was faster. */
FOR_KIND bool cell_take(struct vb_remote *remote, struct kind kind, uint32_t length)
{
	uint64_t posted = word_posted(remote);

	while (!atomic_compare_exchange_strong(&next_cell(remote)->word, &posted,
					       word_taken(remote))) {
		if (!cell_find(remote, kind, length))
			return false;
		posted = word_posted(remote);
	}
	return true;
}

/* True: a place of the shelf is free. Pairs with the store in vb_rq_shelf_leave. */
static bool shelf_has_room(struct vb_remote *remote)
{
	if (remote->shelf_next - remote->shelf_left >= VB_SHELF_PLACES)
		remote->shelf_left =
			atomic_load_explicit(&remote->rq->shelf_left, memory_order_acquire);
	return remote->shelf_next - remote->shelf_left < VB_SHELF_PLACES;
}

FOR_KIND struct vb_message message_of(const struct vb_qp *qp, const struct parcel *parcel,
				      struct kind kind)
{
	const bool imm = parcel->wr->opcode == IBV_WR_SEND_WITH_IMM;
	struct vb_message message = {
		.length = parcel->total,
		.imm = imm ? parcel->wr->imm_data : 0,
		.src_qpn = qp->ibv.qp_num,
		.wc_flags = imm ? IBV_WC_WITH_IMM : 0,
	};

	if (kind.datagram)
		vb_datagram_address(&vb_ah(parcel->wr->wr.ud.ah)->av, &message);
	else
		message.sl = qp->attr.ah_attr.sl;
	return message;
}

FOR_KIND void cell_fill(struct vb_qp *qp, struct vb_cell *cell, const struct parcel *parcel,
			struct kind kind, bool stamped)
{
	const struct vb_message message = message_of(qp, parcel, kind);
	struct vb_remote *remote = &qp->remote;
	const bool rides = parcel->total <= (stamped ? VB_INLINE_STAMPED : VB_INLINE_CELL);
	uint8_t *to = rides ? cell->payload
			    : remote->spill + (size_t)(remote->next_recv & remote->mask) * VB_SPILL;

	vb_cell_describe(cell, remote->entry->qpn, &message, VB_OK, IBV_WC_SUCCESS);
	cell->where = rides ? VB_PAYLOAD_INLINE : VB_PAYLOAD_SPILL;
	cell->stamped = stamped;
	if (is_shelved(parcel, kind)) {
		cell->where = VB_PAYLOAD_SHELF;
		cell->place = (uint8_t)(1 + remote->shelf_next % VB_SHELF_PLACES);
		to = remote->shelf +
		     (size_t)(remote->shelf_next % VB_SHELF_PLACES) * VB_SHELF_PLACE;
	}
	if (kind.datagram) {
		vb_datagram_grh(&vb_ah(parcel->wr->wr.ud.ah)->av, parcel->length,
				parcel->wr->opcode == IBV_WR_SEND_WITH_IMM, to);
		to += VB_GRH_SIZE;
	}
	payload_copy(parcel, kind, to);
}

/* A poller at the sender's heels has the next cells: their lines come sooner if asked for now. In
 * an exchange of single messages the poller would have to fetch them back. */
FOR_KIND void cell_ahead_prefetch(const struct vb_remote *remote)
{
	if (atomic_load_explicit(&remote->cq->caught_up, memory_order_relaxed))
		vb_prefetch_to_write(&remote->cells[(remote->next_recv + 1) & remote->mask]);
}

FOR_KIND void cell_passed(struct vb_remote *remote, struct kind kind)
{
	remote->next_recv++;
	cell_ahead_prefetch(remote);
	if (kind.many)
		vb_recv_taken(remote, remote->next_recv - 1);
	else if (remote->keeps_head)
		atomic_store_explicit(&remote->rq_lent->head, remote->next_recv,
				      memory_order_relaxed);
}

/* The completion of the receive. False: its owner has changed it, and the receive is not used. */
FOR_KIND bool cell_commit(struct vb_remote *remote, struct vb_cell *cell, struct kind kind)
{
	uint64_t word = kind.many ? word_taken(remote) : word_posted(remote);

	if (__builtin_expect(atomic_compare_exchange_strong(
				     &cell->word, &word,
				     vb_cell_word(remote->next_recv, 0, 0, VB_CELL_DONE)),
			     1)) {
		/* Between the completion and the looks at use_ready, armed and limit, as in
		 * cell_commit of exec/recv.c. */
		vb_fence_after_rmw();
		return true;
	}
	if (kind.many) {
		const struct vb_claim claim = { .index = remote->next_recv++, .cell = cell };

		vb_recv_unclaim(remote, &claim);
	}
	return false;
}

/*
 * Delivers the message, and gives its stamp if it has one; false: nothing happened. Called under
 * the queue's lock, inside a hazard that names the peer and its QP.
 */
FOR_KIND bool message_deliver(struct vb_qp *qp, struct parcel *parcel, struct kind kind,
			      uint64_t *stamp)
{
	struct vb_remote *remote = &qp->remote;
	struct vb_cell *cell = next_cell(remote);
	uint32_t asks;

	vb_prefetch_to_write(cell); /* this CPU writes the cell anyway */
	asks = vb_cq_asks(remote->cq);
	vb_cq_prefetch_number(remote->cq, asks);
	vb_cq_prefetch_number(qp->send_cq->shared, vb_cq_own_asks(qp->send_cq));
	if (!target_is_ready(remote, kind) || asks & VB_CQ_COUNTS ||
	    (kind.datagram && !datagram_fits(qp, parcel)) ||
	    !cell_find(remote, kind, parcel->total) || !payload_find(qp, parcel) ||
	    (is_shelved(parcel, kind) &&
	     (parcel->length > remote->message_max || !shelf_has_room(remote))))
		return false;
	/* Before the cell is written: the atomic operation would wait for the line of the cell, and
	 * a poller that watches the cell could take the line away in between. */
	if (asks & VB_CQ_ORDERED)
		*stamp = vb_cq_stamp(remote->cq, asks);
	if (!kind.many || cell_take(remote, kind, parcel->total)) {
		cell = next_cell(remote);
		cell_fill(qp, cell, parcel, kind, asks & VB_CQ_ORDERED);
		if (asks & VB_CQ_ORDERED)
			cell->stamp = *stamp;
		/* The owner may flush the receive at this moment: then the owner has it. */
		if (__builtin_expect(cell_commit(remote, cell, kind), 1)) {
			VB_PROBE(post_send, qp->ibv.qp_num, parcel->wr->wr_id, parcel->wr->opcode);
			VB_PROBE(begin, qp->ibv.qp_num, parcel->wr->wr_id);
			VB_PROBE(placed, remote->entry->qpn, remote->next_recv);
			cell_passed(remote, kind);
			remote->shelf_next += is_shelved(parcel, kind);
			return true;
		}
	}
	vb_cq_void_number(remote->cq, asks);
	return false;
}

/* --- the send --- */

FOR_KIND void wqe_record(struct vb_qp *qp, const struct parcel *parcel, bool signaled)
{
	uint32_t asks = vb_cq_own_asks(qp->send_cq);
	struct vb_sq *sq = &qp->sq;
	struct vb_wqe *wqe = vb_sq_wqe(sq, sq->tail);

	wqe->wr_id = parcel->wr->wr_id;
	wqe->ah = NULL;
	wqe->opcode = (uint8_t)parcel->wr->opcode;
	wqe->status = IBV_WC_SUCCESS;
	wqe->reason = VB_OK;
	wqe->length = parcel->length;
	vb_sq_count(&sq->bytes_out, wqe->length);
	wqe->signaled = signaled;
	if (asks & (VB_CQ_ORDERED | VB_CQ_PAIR) && signaled)
		sq->stamps[sq->tail & sq->mask] = vb_qp_send_stamp(qp, asks);
	sq->next = ++sq->tail;
	VB_PROBE(complete, qp->ibv.qp_num, wqe->wr_id, wqe->status);
	/* Pairs with the load in cq_queue.c. */
	atomic_store_explicit(&sq->done, sq->next, memory_order_release);
	if (asks & VB_CQ_NUMBERS && signaled)
		vb_cq_trail_mark(qp->send_cq, sq->stamps[(sq->tail - 1) & sq->mask], qp->sends.bit);
}

static inline void poller_tell(struct vb_qp *qp)
{
	struct vb_cq *cq = qp->send_cq;

	/* Between the completion and the look at ready_pages. use_ready has a barrier for both. */
	if (__builtin_expect(cq->nic->unregistered_barrier, 0))
		atomic_thread_fence(memory_order_seq_cst);
	if (!cq->channel && !atomic_load_explicit(&cq->ready_pages, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_seq_cst); /* pairs as the fence in vb_path_tell */
	vb_cq_notify(cq, qp->sends.bit, false);
}

/* False: nothing happened. *signaled is set if the send has a completion. */
FOR_KIND bool send_execute(struct vb_qp *qp, const struct ibv_send_wr *wr, struct kind kind,
			   bool *signaled)
{
	const bool visible = qp->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	struct vb_remote *remote = &qp->remote;
	struct parcel parcel;
	uint64_t stamp = 0;

	if (!wr_is_suitable(qp, wr, kind, &parcel) || !sq_is_idle(qp) ||
	    !message_deliver(qp, &parcel, kind, &stamp))
		return false;
	/* Before the send completes: a poll must not find an effect of that ready first. */
	if (atomic_load_explicit(&remote->cq->use_ready, memory_order_relaxed))
		vb_recv_mark_ready(remote, stamp);
	wqe_record(qp, &parcel, visible);
	/* Before the lock is released: its next holder may bind to another peer. */
	if (atomic_load_explicit(&remote->cq->armed, memory_order_relaxed))
		vb_local_wake_target(qp, wr->send_flags & IBV_SEND_SOLICITED);
	*signaled |= visible;
	return true;
}

/* --- lists --- */

/* A long list does not hold up a grace of the target: the hazard is a new one now and then. */
__attribute__((noinline)) static bool hazard_renew(struct vb_qp *qp, uint64_t direct)
{
	vb_hazard_enter(vb_thread_self, direct & ~VB_DIRECT_FLAGS);
	return atomic_load_explicit(&qp->remote.direct, memory_order_relaxed) == direct;
}

FOR_KIND struct ibv_send_wr *list_execute(struct vb_qp *qp, struct ibv_send_wr *wr, uint64_t direct,
					  struct kind kind, bool *signaled)
{
	unsigned sent = 0;

	while (wr && send_execute(qp, wr, kind, signaled)) {
		wr = wr->next;
		if (!(++sent % HAZARD_SENDS) && !hazard_renew(qp, direct))
			break;
	}
	return wr;
}

/* All or none: true if none of the list can be refused. */
__attribute__((noinline)) static bool list_fits(const struct vb_qp *qp,
						const struct ibv_send_wr *wr)
{
	const struct kind kind = { .datagram = qp->type == IBV_QPT_UD };
	const struct vb_sq *sq = &qp->sq;
	uint32_t used = sq->tail - atomic_load_explicit(&sq->retired, memory_order_acquire);
	struct parcel parcel;

	for (; wr; wr = wr->next, used++)
		if (used >= sq->depth || !wr_is_suitable(qp, wr, kind, &parcel) ||
		    (kind.datagram && !wr->wr.ud.ah))
			return false;
	return true;
}

/* The caller has looked at direct; under the lock it must still be the same. */
FOR_KIND struct ibv_send_wr *kind_execute(struct vb_qp *qp, struct ibv_send_wr *wr, uint64_t direct,
					  bool whole, struct kind kind)
{
	struct vb_thread *thread = vb_thread_self;
	bool signaled = false;

	/* As vb_hazard_enter, but the exchange is the one that takes the lock. The release is that
	 * of the last visit, whose word this one may hide from a grace. */
	atomic_store_explicit(&thread->hazard->word,
			      vb_hazard_next(thread, direct & ~VB_DIRECT_FLAGS),
			      memory_order_release);
	if (!vb_spin_try(&qp->sq.lock)) {
		vb_hazard_leave(thread); /* no thread waits inside a hazard */
		vb_spin_lock(&qp->sq.lock);
		return wr;
	}
	vb_fence_after_rmw();
	if (__builtin_expect(
		    atomic_load_explicit(&qp->remote.direct, memory_order_relaxed) == direct, 1) &&
	    (!whole || !wr->next || list_fits(qp, wr)))
		wr = list_execute(qp, wr, direct, kind, &signaled);
	if (!wr)
		vb_spin_unlock(&qp->sq.lock);
	vb_hazard_leave(thread);
	if (signaled)
		poller_tell(qp);
	return wr;
}

__attribute__((noinline)) static struct ibv_send_wr *
shared_execute(struct vb_qp *qp, struct ibv_send_wr *wr, uint64_t direct, bool whole)
{
	return kind_execute(qp, wr, direct, whole, (struct kind){ .many = true });
}

__attribute__((noinline)) static struct ibv_send_wr *
shelf_execute(struct vb_qp *qp, struct ibv_send_wr *wr, uint64_t direct, bool whole)
{
	return kind_execute(qp, wr, direct, whole, (struct kind){ .shelf = true });
}

__attribute__((noinline)) static struct ibv_send_wr *
datagrams_execute(struct vb_qp *qp, struct ibv_send_wr *wr, uint64_t direct, bool whole)
{
	return kind_execute(qp, wr, direct, whole, (struct kind){ .many = true, .datagram = true });
}

struct ibv_send_wr *vb_local_send_fast(struct vb_qp *qp, struct ibv_send_wr *wr, bool whole)
{
	uint64_t direct = atomic_load_explicit(&qp->remote.direct, memory_order_relaxed);

	if (!wr)
		return NULL;
	if (!direct || !opcode_is_suitable(wr) || vb_captured() || !vb_thread_self) {
		vb_spin_lock(&qp->sq.lock);
		return wr;
	}
	if (__builtin_expect(!(direct & VB_DIRECT_FLAGS), 1))
		return kind_execute(qp, wr, direct, whole, (struct kind){ 0 });
	if (direct & VB_DIRECT_SHELF)
		return shelf_execute(qp, wr, direct, whole);
	return qp->type == IBV_QPT_UD ? datagrams_execute(qp, wr, direct, whole)
				      : shared_execute(qp, wr, direct, whole);
}

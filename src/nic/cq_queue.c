/* SPDX-License-Identifier: BSD-2-Clause */
/* One queue that completes at a CQ: its first completion, and how it becomes a work completion. */
#include "nic/comp_cntr.h"
#include "nic/cq.h"
#include "nic/ledger.h"
#include "nic/qp.h"
#include "nic/tell.h"
#include "wire/grh.h"

const _Atomic uint64_t vb_cq_no_word = 1;

void vb_cq_queue_show_watch(const struct vb_cq_queue *queue)
{
	struct vb_cq *cq = queue->cq;

	if (queue->place >= VB_CQ_FEW || cq->ready_pages)
		return;
	cq->watch_words[queue->place] = queue->watch.word ? queue->watch.word : &vb_cq_no_word;
	cq->watch_values[queue->place] = queue->watch.word ? queue->watch.value : 0;
}

static void watch_set(struct vb_cq_queue *queue, const _Atomic uint64_t *word, uint64_t value)
{
	queue->watch = (struct vb_cq_watch){ word, value, queue->kind == VB_CQ_RECEIVES };
	vb_cq_queue_show_watch(queue);
}

/* --- send queues --- */

static bool is_visible(const struct vb_wqe *wqe)
{
	return !wqe->internal && (wqe->signaled || wqe->status != IBV_WC_SUCCESS);
}

/* Skips WQEs that make no completion. */
static const struct vb_wqe *first_send(struct vb_sq *sq)
{
	/* Pairs with the executor's store: status and stamp of the WQEs before done are visible. */
	uint32_t done = (uint32_t)atomic_load_explicit(&sq->done, memory_order_acquire);

	while (sq->scanned != done) {
		const struct vb_wqe *wqe = vb_sq_wqe(sq, sq->scanned);

		if (is_visible(wqe))
			return wqe;
		sq->scanned++;
		if (__builtin_expect(wqe->internal, 0))
			vb_sq_retire_internal(sq);
	}
	return NULL;
}

static uint64_t send_stamp(const struct vb_sq *sq)
{
	return sq->stamps[sq->scanned & sq->mask];
}

static uint64_t peek_sends(struct vb_cq_queue *queue)
{
	struct vb_sq *sq = queue->sq;
	uint64_t stamp = first_send(sq) ? send_stamp(sq) : VB_NO_COMPLETION;

	watch_set(queue, &sq->done, sq->scanned);
	return stamp;
}

static int take_sends(struct vb_cq_queue *queue, uint64_t last, int count, struct ibv_wc *wc)
{
	struct vb_sq *sq = queue->sq;
	const struct vb_wqe *wqe;
	int got = 0;

	while (got < count && (wqe = first_send(sq)) && send_stamp(sq) <= last) {
		if (wqe->status != IBV_WC_WR_FLUSH_ERR)
			vb_cq_forget(queue->cq, 1);
		vb_cq_polled(queue->cq, send_stamp(sq));
		wc[got++] = (struct ibv_wc){
			.wr_id = wqe->wr_id,
			.status = wqe->status,
			.opcode = vb_wr_row(wqe->opcode)->wc_opcode,
			.vendor_err = wqe->reason | vb_wr_row(wqe->opcode)->extended,
			.byte_len = wqe->length,
			.qp_num = queue->qp->ibv.qp_num,
		};
		vb_tell_sent(queue->qp, wqe, &wc[got - 1]);
		atomic_store_explicit(&sq->retired, ++sq->scanned, memory_order_release);
	}
	watch_set(queue, &sq->done, sq->scanned);
	return got;
}

static uint32_t waiting_sends(const struct vb_sq *sq)
{
	uint32_t count = 0;

	for (uint32_t i = sq->scanned; i != (uint32_t)atomic_load(&sq->done); i++) {
		const struct vb_wqe *wqe = vb_sq_wqe(sq, i);

		/* Flushed WQEs are not counted (path/complete.c). */
		count += wqe->status != IBV_WC_WR_FLUSH_ERR &&
			 (wqe->signaled || (wqe->status != IBV_WC_SUCCESS && !wqe->internal));
	}
	return count;
}

/* --- receive queues --- */

static uint64_t stamp_of(const struct vb_cell *cell)
{
	return cell->stamped ? vb_cq_stamp_of(cell->stamp) : 0;
}

/* No thread has seen the receives that wait to be flushed, so their flush happens at the first look
 * at them. A receive that is posted to a failed QP makes it happen again. */
static uint64_t flush_stamp(struct vb_qp *qp)
{
	uint32_t asks = vb_cq_own_asks(qp->recv_cq);

	if (!(asks & VB_CQ_ORDERED)) /* behind all sends */
		return VB_CQ_NUMBER_FIRST;
	if (atomic_exchange(&qp->flush_posted, false) || !qp->flush_stamp) {
		qp->flush_stamp = vb_cq_stamp(qp->recv_cq->shared, asks);
		vb_cq_void_number(qp->recv_cq->shared, asks); /* no trail leads to a flush */
	}
	return qp->flush_stamp;
}

static uint64_t peek_flushed(struct vb_qp *qp)
{
	uint32_t index;

	if (!atomic_load_explicit(&qp->receives.flush_ready, memory_order_acquire))
		return VB_NO_COMPLETION;
	return vb_rq_flush_next(qp->rq, &index) ? flush_stamp(qp) : VB_NO_COMPLETION;
}

/* One sender: the stamp of the completed receive at a distance from the head. */
static uint64_t stamp_behind(const struct vb_rq *rq, const struct vb_cell *cell, uint32_t distance)
{
	uint64_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);

	return cell->stamped ? vb_cq_stamp_of(cell->stamp) : 2 * (head + distance) + 1;
}

static uint64_t peek_receives(struct vb_cq_queue *queue)
{
	const struct vb_cell *cell = vb_rq_done_at_head(queue->rq);

	return cell ? stamp_behind(queue->rq, cell, 0) : peek_flushed(queue->qp);
}

/*
 * While the cell at head is POSTED and no cell before it is taken, nothing arrives. A thread moves
 * head only past a cell that was taken or completed, and its word then differs from this one. Tag
 * matching moves head in another way.
 */
bool vb_cq_queue_has_arrivals(struct vb_cq_queue *queue)
{
	const struct vb_cell *cell;
	struct vb_rq *rq = queue->rq;
	uint64_t word;

	if (!vb_rq_quiet_at(rq, &cell, &word))
		return true;
	/* In this order: a walk lists a receive before it moves head past it. */
	if (atomic_load_explicit(&queue->arrivals->count, memory_order_acquire))
		return true;
	if (word && !(rq->srq && rq->srq->tm))
		watch_set(queue, &cell->word, word);
	return false;
}

/* The poll lock protects a QP's own queue; the SRQ's drain_lock protects that of an SRQ. */
static uint64_t peek_arrivals(struct vb_cq_queue *queue, struct vb_rq **drained)
{
	struct vb_arrivals *list = queue->arrivals;
	struct vb_rq *rq = queue->rq;
	uint64_t stamp;

	if (!atomic_load_explicit(&list->count, memory_order_acquire) && *drained == rq)
		return VB_NO_COMPLETION;
	if (!vb_cq_queue_has_arrivals(queue)) /* most looks behind a completion end here */
		return rq->srq ? VB_NO_COMPLETION : peek_flushed(queue->qp);
	if (rq->srq)
		vb_spin_lock(&rq->drain_lock);
	if (!atomic_load_explicit(&list->count, memory_order_relaxed)) {
		vb_rq_drain(rq);
		*drained = rq;
	}
	stamp = atomic_load_explicit(&list->count, memory_order_relaxed)
			? stamp_of(vb_rq_cell(rq, list->first))
			: VB_NO_COMPLETION;
	if (rq->srq)
		vb_spin_unlock(&rq->drain_lock);
	if (stamp == VB_NO_COMPLETION && !rq->srq)
		return peek_flushed(queue->qp);
	return stamp;
}

enum { FLAGS_KNOWN = IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_IP_CSUM_OK | IBV_WC_WITH_INV };

/* Not a message that succeeded and fits: is it an error, or a WRITE with immediate? */
__attribute__((cold, noinline)) static bool
is_plausible(const struct vb_rq *rq, const struct vb_recv_wqe *twin, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS && wc->status <= IBV_WC_TM_RNDV_INCOMPLETE)
		vb_rq_explain(rq, twin, wc);
	if (wc->status != IBV_WC_SUCCESS)
		return wc->status <= IBV_WC_TM_RNDV_INCOMPLETE;
	return wc->opcode != IBV_WC_RECV && wc->byte_len <= VB_MSG_MAX;
}

/* Datagrams have a GRH, or room for one, before their first byte. */
static uint32_t least_of(const struct vb_qp *qp)
{
	return qp && qp->type == IBV_QPT_UD ? VB_GRH_SIZE : 0;
}

/* least: bytes that a message has at least. */
static inline void fill_from(struct vb_rq *rq, const struct vb_recv_wqe *twin,
			     const struct vb_cell *cell, uint32_t index, uint32_t qpn,
			     uint32_t least, struct ibv_wc *wc)
{
	const uint32_t length = VB_READ_ONCE(cell->byte_length);
	const uint8_t status = VB_READ_ONCE(cell->status), flags = VB_READ_ONCE(cell->wc_flags);
	const enum vb_cell_where where = VB_READ_ONCE(cell->where);

	*wc = (struct ibv_wc){
		.wr_id = twin->wr_id,
		.status = status,
		.opcode = IBV_WC_RECV + (cell->opcode & 1),
		.vendor_err = cell->reason,
		.byte_len = length,
		.imm_data = cell->imm,
		.qp_num = qpn,
		.src_qp = cell->src_qpn,
		.wc_flags = flags & FLAGS_KNOWN,
		.slid = cell->slid,
		.sl = cell->sl,
	};
	if (__builtin_expect((status || length > twin->length || length < least) &&
				     !is_plausible(rq, twin, wc),
			     0))
		vb_rq_damaged(rq, twin, wc);
	else if (where != VB_PAYLOAD_PLACED && !status &&
		 !vb_rq_scatter_word(twin, cell, where, length) &&
		 !vb_rq_scatter(rq, cell, index, where, length))
		vb_rq_unplaced(rq, twin, wc);
	vb_rq_shelf_leave(rq, cell);
	if (__builtin_expect(flags & IBV_WC_WITH_INV, 0) && !status)
		vb_mw_settle(rq->nic, wc->invalidated_rkey, qpn);
	if (__builtin_expect(rq->comp_cntr != NULL, 0))
		vb_comp_cntr_receive(rq, index, wc);
	vb_tell_received(rq, index, wc);
}

static void fill_recv(struct vb_rq *rq, uint32_t index, uint32_t qpn, uint32_t least,
		      struct ibv_wc *wc)
{
	fill_from(rq, vb_rq_twin(rq, index), vb_rq_cell(rq, index), index, qpn, least, wc);
}

static void fill_flushed(struct vb_rq *rq, uint32_t index, uint32_t qpn, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){
		.wr_id = vb_rq_twin(rq, index)->wr_id,
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = IBV_WC_RECV,
		.qp_num = qpn,
	};
	if (__builtin_expect(rq->comp_cntr != NULL, 0))
		vb_comp_cntr_receive(rq, index, wc);
	vb_tell_received(rq, index, wc);
}

static void watch_head(struct vb_cq_queue *queue)
{
	uint32_t head = vb_rq_head(queue->rq);

	watch_set(queue, &vb_rq_cell(queue->rq, head)->word,
		  vb_cell_word(head, 0, 0, VB_CELL_DONE));
}

static int take_flushed(struct vb_cq_queue *queue, uint64_t last, int count, struct ibv_wc *wc)
{
	struct vb_rq *rq = queue->rq;
	uint32_t qpn = queue->qp->ibv.qp_num, index;
	int got = 0;

	while (got < count && peek_flushed(queue->qp) <= last && vb_rq_flush_next(rq, &index)) {
		if (vb_cell_state(atomic_load(&vb_rq_cell(rq, index)->word)) == VB_CELL_DONE) {
			vb_cq_polled(queue->cq, stamp_of(vb_rq_cell(rq, index)));
			fill_recv(rq, index, qpn, least_of(queue->qp), &wc[got++]);
		} else {
			fill_flushed(rq, index, qpn, &wc[got++]);
		}
		queue->cq->stamp = queue->qp->flush_stamp;
		if (rq->many)
			vb_rq_consume(rq, NULL, index);
		else
			vb_rq_consume_head(rq);
	}
	return got;
}

static int take_receives(struct vb_cq_queue *queue, uint64_t last, int count, struct ibv_wc *wc)
{
	struct vb_rq *rq = queue->rq;
	const struct vb_cell *cell = vb_rq_done_at_head(rq);
	int got = 0;

	while (cell) {
		uint64_t stamp = stamp_behind(rq, cell, 0);

		if (stamp > last)
			break;
		vb_prefetch_to_write(cell); /* it is posted again soon */
		vb_cq_forget(queue->cq, 1);
		vb_cq_polled(queue->cq, stamp);
		fill_recv(rq, vb_rq_head(rq), queue->qp->ibv.qp_num, 0, &wc[got++]);
		vb_rq_consume_head(rq);
		if (got == count)
			break;
		cell = vb_rq_done_at_head(rq);
	}
	if (__builtin_expect(
		    !cell && atomic_load_explicit(&queue->flush_ready, memory_order_relaxed), 0))
		got += take_flushed(queue, last, count - got, wc + got);
	watch_head(queue);
	return got;
}

/* The same for receives with the numbers that are next. The first of them is there. */
static int take_receive_row(struct vb_cq_queue *queue, int count, struct ibv_wc *wc,
			    uint64_t *behind)
{
	struct vb_rq *rq = queue->rq;
	struct vb_cq *cq = queue->cq;
	const uint32_t qpn = queue->qp->ibv.qp_num;
	const uint64_t first = cq->number_next;
	uint64_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);
	int got = 0;

	do {
		struct vb_recv_wqe *twin = vb_rq_twin(rq, (uint32_t)head);
		struct vb_cell *cell = vb_rq_cell(rq, (uint32_t)head);

		vb_prefetch_to_write(cell); /* it is posted again soon */
		fill_from(rq, twin, cell, (uint32_t)head, qpn, 0, &wc[got++]);
		atomic_store_explicit(&twin->open, VB_RECV_CLOSED, memory_order_release);
		atomic_store_explicit(&rq->head, ++head, memory_order_release);
		cell = vb_rq_done_at_head(rq);
		*behind = cell ? stamp_behind(rq, cell, 0) : VB_NO_COMPLETION;
	} while (*behind == first + (uint32_t)got && got < count);
	cq->number_next = first + (uint32_t)got;
	cq->stamp = cq->number_next - 1;
	cq->numbers_gone += (uint32_t)got;
	vb_cq_forget(cq, (uint32_t)got);
	watch_head(queue);
	return got;
}

/* Read once: a receive of an SRQ that another CQ's poll took may be posted again meanwhile. */
static bool is_queues(const struct vb_cq_queue *queue, const struct vb_cell *cell)
{
	return !queue->rq->srq || !queue->qp || VB_READ_ONCE(cell->qpn) == queue->qp->ibv.qp_num;
}

static void fill_arrival(struct vb_cq_queue *queue, uint32_t index, struct ibv_wc *wc)
{
	struct vb_rq *rq = queue->rq;

	vb_cq_forget(queue->cq, 1);
	vb_cq_polled(queue->cq, stamp_of(vb_rq_cell(rq, index)));
	/* The QP that brought a message to an XRC SRQ may belong to another process: only its
	 * number is known. */
	fill_recv(rq, index,
		  queue->qp ? queue->qp->ibv.qp_num
			    : VB_READ_ONCE(vb_rq_cell(rq, index)->qpn) & VB_MASK24,
		  least_of(queue->qp), wc);
	if (__builtin_expect(rq->counted, 0) && rq->srq && queue->qp)
		vb_comp_cntr_shared(queue->qp, index, wc);
}

static void take_arrival(struct vb_cq_queue *queue, struct ibv_wc *wc)
{
	uint32_t index = queue->arrivals->first;

	fill_arrival(queue, index, wc);
	vb_rq_consume(queue->rq, queue->arrivals, index);
}

/* The usual case: the list is empty, and receives at head are complete, one after the other. What
 * a walk finds behind them comes with the next poll. */
static int take_at_head(struct vb_cq_queue *queue, int count, struct ibv_wc *wc)
{
	struct vb_rq *rq = queue->rq;
	int got = 0;

	while (got < count && vb_rq_arrived_at_head(rq) &&
	       is_queues(queue, vb_rq_cell(rq, vb_rq_head(rq)))) {
		fill_arrival(queue, vb_rq_head(rq), &wc[got++]);
		vb_rq_consume_arrived(rq);
	}
	if (!got)
		vb_rq_drain(rq);
	return got;
}

static int take_arrivals(struct vb_cq_queue *queue, uint64_t last, int count, struct ibv_wc *wc)
{
	struct vb_arrivals *list = queue->arrivals;
	struct vb_rq *rq = queue->rq;
	int got = 0;

	if (rq->srq)
		vb_spin_lock(&rq->drain_lock);
	if (!atomic_load_explicit(&list->count, memory_order_relaxed))
		got = take_at_head(queue, count, wc);
	while (got < count && atomic_load_explicit(&list->count, memory_order_relaxed) &&
	       stamp_of(vb_rq_cell(rq, list->first)) <= last)
		take_arrival(queue, &wc[got++]);
	if (rq->srq)
		vb_spin_unlock(&rq->drain_lock);
	else if (__builtin_expect(atomic_load_explicit(&queue->flush_ready, memory_order_relaxed),
				  0) &&
		 !atomic_load_explicit(&list->count, memory_order_relaxed))
		got += take_flushed(queue, last, count - got, wc + got);
	return got;
}

static uint32_t waiting_receives(const struct vb_cq_queue *queue)
{
	const struct vb_rq *rq = queue->rq;
	uint32_t count = 0;

	vb_rq_for_open(twin, rq)
	{
		const struct vb_cell *cell = vb_rq_cell(rq, twin->index);

		count += vb_cell_state(atomic_load(&cell->word)) == VB_CELL_DONE &&
			 is_queues(queue, cell);
	}
	return count;
}

/* --- any queue --- */

void vb_cq_queue_watch(struct vb_cq_queue *queue)
{
	queue->cq->merge.known = 0; /* what was seen may be gone */
	if (queue->kind == VB_CQ_SENDS)
		watch_set(queue, &queue->sq->done, queue->sq->scanned);
	else if (queue->kind == VB_CQ_RECEIVES)
		watch_head(queue);
	else
		watch_set(queue, NULL, 0);
}

uint64_t vb_cq_queue_peek(struct vb_cq_queue *queue, struct vb_rq **drained)
{
	switch ((enum vb_cq_kind)queue->kind) {
	case VB_CQ_SENDS:
		return peek_sends(queue);
	case VB_CQ_RECEIVES:
		return peek_receives(queue);
	case VB_CQ_ARRIVALS:
		return peek_arrivals(queue, drained);
	case VB_CQ_LOOSE:
		return vb_loose_peek(queue->loose);
	}
	return VB_NO_COMPLETION;
}

/* Counts completed receives in a row: the poll touches their cells anyway when it takes them. */
int vb_cq_queue_seen(const struct vb_cq_queue *queue, int count)
{
	const struct vb_rq *rq = queue->rq;
	uint32_t head;
	int seen = 1;

	if (queue->kind != VB_CQ_RECEIVES)
		return 1;
	head = vb_rq_head(rq);
	while (seen < count && atomic_load_explicit(&vb_rq_cell(rq, head + (uint32_t)seen)->word,
						    memory_order_acquire) ==
				       vb_cell_word(head + (uint32_t)seen, 0, 0, VB_CELL_DONE))
		seen++;
	return seen;
}

/* Of receives in a row, and of sends up to done. */
uint64_t vb_cq_queue_reach(const struct vb_cq_queue *queue, uint64_t first, int count)
{
	const struct vb_sq *sq = queue->sq;
	const struct vb_rq *rq = queue->rq;
	uint32_t behind = (uint32_t)vb_cq_queue_seen(queue, count) - 1;
	uint64_t stamp = first;

	if (queue->kind == VB_CQ_SENDS) {
		uint32_t done = (uint32_t)atomic_load_explicit(&sq->done, memory_order_acquire);

		stamp = sq->stamps[(done - 1) & sq->mask]; /* of a silent WQE: an old, low stamp */
	} else if (behind) {
		stamp = stamp_behind(rq, vb_rq_cell(rq, vb_rq_head(rq) + behind), behind);
	}
	return stamp > first ? stamp : first;
}

int vb_cq_queue_take(struct vb_cq_queue *queue, uint64_t last, int count, struct ibv_wc *wc)
{
	switch ((enum vb_cq_kind)queue->kind) {
	case VB_CQ_SENDS:
		return take_sends(queue, last, count, wc);
	case VB_CQ_RECEIVES:
		return take_receives(queue, last, count, wc);
	case VB_CQ_ARRIVALS:
		return take_arrivals(queue, last, count, wc);
	case VB_CQ_LOOSE:
		return vb_loose_take(queue, last, count, wc);
	}
	return 0;
}

int vb_cq_queue_take_row(struct vb_cq_queue *queue, int count, struct ibv_wc *wc, uint64_t *behind)
{
	struct vb_rq *drained = NULL;
	int got;

	if (queue->kind == VB_CQ_RECEIVES)
		return take_receive_row(queue, count, wc, behind);
	got = vb_cq_queue_take(queue, queue->cq->number_next, 1, wc);
	*behind = vb_cq_queue_peek(queue, &drained);
	return got;
}

uint32_t vb_cq_queue_waiting(struct vb_cq_queue *queue)
{
	switch ((enum vb_cq_kind)queue->kind) {
	case VB_CQ_SENDS:
		return waiting_sends(queue->sq);
	case VB_CQ_RECEIVES:
	case VB_CQ_ARRIVALS:
		return waiting_receives(queue);
	case VB_CQ_LOOSE:
		return atomic_load(&queue->loose->count);
	}
	return 0;
}

static uint32_t numbered_sends(const struct vb_sq *sq)
{
	uint32_t count = 0;

	for (uint32_t i = sq->scanned; i != (uint32_t)atomic_load(&sq->done); i++)
		count += is_visible(vb_sq_wqe(sq, i)) && vb_cq_is_number(sq->stamps[i & sq->mask]);
	return count;
}

static uint32_t numbered_receives(const struct vb_rq *rq)
{
	uint32_t count = 0;

	vb_rq_for_open(twin, rq)
	{
		const struct vb_cell *cell = vb_rq_cell(rq, twin->index);

		count += vb_cell_state(atomic_load(&cell->word)) == VB_CELL_DONE &&
			 vb_cq_is_number(stamp_of(cell));
	}
	return count;
}

/* The receives of a QP with an SRQ go when it is purged (nic/qp.c). */
static uint32_t numbers_waiting(const struct vb_cq_queue *queue)
{
	if (queue->kind == VB_CQ_SENDS)
		return numbered_sends(queue->sq);
	if (queue->kind == VB_CQ_LOOSE || (queue->rq->srq && queue->qp))
		return 0;
	return numbered_receives(queue->rq);
}

void vb_cq_forget_queue(struct vb_cq_queue *queue)
{
	if (vb_cq_own_asks(queue->cq) & VB_CQ_NUMBERS)
		atomic_fetch_add(&queue->cq->shared->voids, numbers_waiting(queue));
	if (vb_cq_own_asks(queue->cq) & VB_CQ_COUNTS)
		vb_cq_forget(queue->cq, vb_cq_queue_waiting(queue));
	if (queue->qp)
		vb_ledger_forget(queue->cq, queue->qp->ibv.qp_num);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Polling: from the attached queues into work completions. */
#include "nic/cq.h"
#include "base/clock.h"
#include "nic/qp.h"
#include "wire/grh.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One text, two functions: who does not ask for times does not pay for them. */
#define ALWAYS_INLINE __attribute__((always_inline)) static inline

static const uint8_t send_opcode[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
	[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
	[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	[IBV_WR_TSO] = IBV_WC_TSO,
	[IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
};

/* --- send queues --- */

ALWAYS_INLINE int poll_sq(struct vb_cq *cq, struct vb_qp *qp, int count, struct ibv_wc *wc,
			  bool stamps)
{
	struct vb_sq *sq = &qp->sq;
	/* Pairs with the store of the executor: status and order of the WQEs before it. */
	uint32_t done = atomic_load_explicit(&sq->done, memory_order_acquire);
	int got = 0;

	while (sq->scanned != done && got < count) {
		const struct vb_wqe *wqe = vb_sq_wqe(sq, sq->scanned++);

		if (!wqe->signaled && wqe->status == IBV_WC_SUCCESS && !wqe->internal)
			continue;
		if (__builtin_expect(wqe->internal, 0)) {
			vb_sq_retire_internal(sq);
			continue;
		}
		if (wqe->status != IBV_WC_WR_FLUSH_ERR)
			vb_cq_forget(cq, 1);
		wc[got++] = (struct ibv_wc){
			.wr_id = wqe->wr_id,
			.status = wqe->status,
			.opcode = send_opcode[wqe->opcode],
			.vendor_err = wqe->reason,
			.byte_len = wqe->length,
			.qp_num = qp->ibv.qp_num,
		};
		if (stamps)
			cq->stamp = sq->stamps[(sq->scanned - 1) & sq->mask];
		atomic_store_explicit(&sq->retired, sq->scanned, memory_order_release);
	}
	return got;
}

/* --- receive queues --- */

/* What the owner flushed himself happened just now. */
static uint64_t stamp_of(const struct vb_cell *cell, uint64_t word)
{
	return vb_cell_state(word) == VB_CELL_FLUSHED ? vb_device_clock() : cell->stamp;
}

/* Of a cell, which anybody who is attached can write: what was checked is not read again. */
#define READ_ONCE(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

enum { FLAGS_KNOWN = IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_IP_CSUM_OK | IBV_WC_WITH_INV };

/* No sender of ours left it like this: the receive is used up, and nothing is said of its bytes. */
__attribute__((cold, noinline)) static void damaged(struct ibv_wc *wc)
{
	wc->status = IBV_WC_GENERAL_ERR;
	wc->vendor_err = 0;
	wc->byte_len = 0;
	wc->wc_flags = 0;
}

/* What is not a message that succeeded and fits: errors, and writes that tell of themselves. */
__attribute__((cold, noinline)) static bool is_plausible(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		return wc->status <= IBV_WC_TM_RNDV_INCOMPLETE;
	return wc->opcode != IBV_WC_RECV && wc->byte_len <= VB_MSG_MAX;
}

/* least: bytes that a message to the QP has at least. */
ALWAYS_INLINE void fill_recv(struct vb_rq *rq, uint32_t qpn, const struct vb_cell *cell,
			     uint64_t word, uint32_t least, struct ibv_wc *wc)
{
	const uint32_t index = vb_cell_index(word), length = READ_ONCE(cell->byte_length);
	const struct vb_recv_wqe *twin = vb_rq_twin(rq, index);
	const uint8_t status = READ_ONCE(cell->status), flags = READ_ONCE(cell->wc_flags);
	const enum vb_cell_where where = READ_ONCE(cell->where);

	*wc = (struct ibv_wc){
		.wr_id = twin->wr_id,
		.qp_num = qpn,
		.opcode = IBV_WC_RECV,
		.status = IBV_WC_WR_FLUSH_ERR,
	};
	if (vb_cell_state(word) == VB_CELL_FLUSHED)
		return;
	wc->status = status;
	wc->vendor_err = cell->reason;
	wc->opcode = IBV_WC_RECV + (cell->opcode & 1);
	wc->byte_len = length;
	wc->imm_data = cell->imm;
	wc->src_qp = cell->src_qpn;
	wc->wc_flags = flags & FLAGS_KNOWN;
	wc->slid = cell->slid;
	wc->sl = cell->sl;
	if (__builtin_expect((status || length > twin->length || length < least) &&
			     !is_plausible(wc), 0))
		damaged(wc);
	else if (where != VB_PAYLOAD_PLACED && !status &&
		 !vb_rq_scatter(rq, cell, index, where, length))
		wc->status = IBV_WC_LOC_PROT_ERR;
	if (__builtin_expect(flags & IBV_WC_WITH_INV, 0))
		vb_mw_settle(rq->nic, wc->invalidated_rkey, qpn);
}

/* Datagrams have a GRH, or the room of one, before their first byte. */
static uint32_t least_of(const struct vb_qp *qp)
{
	return qp->type == IBV_QPT_UD ? VB_GRH_SIZE : 0;
}

ALWAYS_INLINE int poll_own_rq(struct vb_cq *cq, struct vb_qp *qp, int count, struct ibv_wc *wc,
			      bool flush, bool stamps)
{
	int got = 0;

	while (got < count) {
		uint64_t word;
		struct vb_cell *cell = vb_rq_next_done(qp->rq, &word);

		if (!cell && flush)
			cell = vb_rq_flush_next(qp->rq, &word);
		if (!cell)
			break;
		if (vb_cell_state(word) == VB_CELL_DONE)
			vb_cq_forget(cq, 1);
		fill_recv(qp->rq, qp->ibv.qp_num, cell, word, least_of(qp), &wc[got++]);
		if (stamps)
			cq->stamp = stamp_of(cell, word);
		vb_rq_consume(qp->rq, vb_cell_index(word));
	}
	return got;
}

/* A completion that belongs to another CQ of the shared queue. */
static void give_to(struct vb_cq *cq, const struct ibv_wc *wc, uint64_t stamp)
{
	struct vb_wc_node *stray = calloc(1, sizeof(*stray));

	if (!stray)
		return;
	stray->wc = *wc;
	stray->stamp = stamp;
	stray->qpn = wc->qp_num;
	vb_spin_lock(&cq->stray_lock);
	vb_list_append(&cq->stray, &stray->node);
	atomic_fetch_add(&cq->stray_count, 1);
	vb_spin_unlock(&cq->stray_lock);
}

static int poll_srq(struct vb_cq *cq, struct vb_srq *srq, int count, struct ibv_wc *wc)
{
	struct vb_rq *rq = &srq->rq;
	int got = 0;

	vb_spin_lock(&rq->drain_lock);
	while (got < count) {
		uint64_t word;
		struct vb_cell *cell = vb_rq_next_done(rq, &word);
		const uint32_t qpn = cell ? READ_ONCE(cell->qpn) : 0;
		struct vb_qp *qp = cell ? vb_nic_qp(rq->nic, qpn) : NULL;
		struct ibv_wc other;

		if (!cell)
			break;
		/* The QP is gone, or never was: its completion is purged, the receive is lost. */
		if (qp && qp->srq == srq) {
			bool here = qp->recv_cq == cq;

			fill_recv(rq, qpn, cell, word, least_of(qp), here ? &wc[got] : &other);
			if (here) {
				vb_cq_forget(cq, 1);
				cq->stamp = stamp_of(cell, word);
			} else {
				give_to(qp->recv_cq, &other, stamp_of(cell, word));
			}
			got += here;
		}
		vb_rq_consume(rq, vb_cell_index(word));
	}
	vb_spin_unlock(&rq->drain_lock);
	return got;
}

/* The QP that brought a message may be another process's: its number is all there is of it. */
static int poll_xrc_srq(struct vb_cq *cq, struct vb_srq *srq, int count, struct ibv_wc *wc)
{
	struct vb_rq *rq = &srq->rq;
	struct vb_cell *cell;
	uint64_t word;
	int got = 0;

	vb_spin_lock(&rq->drain_lock);
	while (got < count && (cell = vb_rq_next_done(rq, &word))) {
		vb_cq_forget(cq, 1);
		fill_recv(rq, READ_ONCE(cell->qpn) & VB_MASK24, cell, word, 0, &wc[got++]);
		cq->stamp = stamp_of(cell, word);
		vb_rq_consume(rq, vb_cell_index(word));
	}
	vb_spin_unlock(&rq->drain_lock);
	return got;
}

static int poll_xrc_srqs(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0;

	vb_list_for(srq, &cq->xrc_srqs, struct vb_srq, cq_node) {
		if (got == count)
			break;
		got += poll_xrc_srq(cq, srq, count - got, wc + got);
		if (got == count) { /* the others come first next time */
			vb_list_remove(&srq->cq_node);
			vb_list_append(&cq->xrc_srqs, &srq->cq_node);
			break;
		}
	}
	return got;
}

static int poll_stray(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0;

	vb_spin_lock(&cq->stray_lock);
	vb_list_for(stray, &cq->stray, struct vb_wc_node, node) {
		if (got == count)
			break;
		wc[got++] = stray->wc;
		cq->stamp = stray->stamp;
		cq->tm = stray->tm;
		if (stray->polled)
			atomic_store(stray->polled, stray->polled_to);
		vb_cq_forget(cq, 1);
		vb_list_remove(&stray->node);
		atomic_fetch_sub(&cq->stray_count, 1);
		free(stray);
	}
	vb_spin_unlock(&cq->stray_lock);
	return got;
}

/* Not inlined: most polls find nothing, and has_work says so with a few loads. */
ALWAYS_INLINE int poll_qp(struct vb_cq *cq, struct vb_qp *qp, int count, struct ibv_wc *wc,
			  bool stamps)
{
	/* Looked at first: the work request that failed comes before the receives it flushes. */
	bool flush = atomic_load_explicit(&qp->flush_ready, memory_order_acquire);
	/* Sends leave room for receives: who gets only the ones may never post the others again. */
	int share = qp->recv_cq == cq && !flush ? (count + 1) / 2 : count;
	int got = 0, sent = 0;

	if (qp->send_cq == cq)
		got = sent = poll_sq(cq, qp, share, wc, stamps);
	if (qp->recv_cq != cq || got == count)
		return got;
	if (qp->srq)
		got += poll_srq(cq, qp->srq, count - got, wc + got);
	else
		got += poll_own_rq(cq, qp, count - got, wc + got, flush, stamps);
	if (sent == share && got < count)
		got += poll_sq(cq, qp, count - got, wc + got, stamps);
	return got;
}

typedef int (*poll_fn)(struct vb_cq *cq, struct vb_qp *qp, int count, struct ibv_wc *wc);

__attribute__((noinline)) static int poll_plain(struct vb_cq *cq, struct vb_qp *qp, int count,
						struct ibv_wc *wc)
{
	return poll_qp(cq, qp, count, wc, false);
}

/* Leaves the time of the last completion in cq->stamp. */
__attribute__((noinline)) static int poll_stamps(struct vb_cq *cq, struct vb_qp *qp, int count,
						 struct ibv_wc *wc)
{
	return poll_qp(cq, qp, count, wc, true);
}

/* --- which queue pairs --- */

static inline bool has_work(const struct vb_cq *cq, const struct vb_qp *qp)
{
	const struct vb_rq *rq = qp->rq;
	uint32_t head;
	uint64_t word;

	if (qp->send_cq == cq &&
	    atomic_load_explicit(&qp->sq.done, memory_order_relaxed) != qp->sq.scanned)
		return true;
	if (qp->recv_cq != cq)
		return false;
	if (rq->many || atomic_load_explicit(&qp->flush_ready, memory_order_relaxed))
		return true;
	head = atomic_load_explicit(&rq->head, memory_order_relaxed);
	word = atomic_load_explicit(&vb_rq_cell(rq, head)->word, memory_order_relaxed);
	return word == vb_cell_word(head, 0, 0, VB_CELL_DONE);
}

ALWAYS_INLINE int poll_few(struct vb_cq *cq, int count, struct ibv_wc *wc, poll_fn poll)
{
	uint32_t at = cq->turn;
	int got = 0;

	for (uint32_t i = 0; i < cq->qp_count && got < count; i++) {
		if (++at >= cq->qp_count)
			at = 0;
		if (has_work(cq, cq->qps[at]))
			got += poll(cq, cq->qps[at], count - got, wc + got);
	}
	cq->turn = at;
	return got;
}

static void take_ready(struct vb_cq *cq)
{
	uint64_t words = atomic_exchange(&cq->shared->ready_words, 0);

	for (; words; words &= words - 1) {
		unsigned i = (unsigned)__builtin_ctzll(words) % VB_READY_WORDS;

		cq->again[i] |= atomic_exchange(&cq->shared->ready[i], 0);
	}
	cq->any_again = true;
}

/* Every QP of one ready bit; QPs share bits when there are more than bits. */
static int poll_bit(struct vb_cq *cq, unsigned bit, int count, struct ibv_wc *wc, poll_fn poll)
{
	int got = 0;

	if ((cq->by_bit_stale || !cq->bit_first) && vb_cq_index_bits(cq))
		return 0;
	for (uint32_t i = cq->bit_first[bit]; i < cq->bit_first[bit + 1] && got < count; i++)
		got += poll(cq, cq->by_bit[i], count - got, wc + got);
	return got;
}

static int poll_ready(struct vb_cq *cq, int count, struct ibv_wc *wc, poll_fn poll)
{
	int got = 0;

	if (atomic_load_explicit(&cq->shared->ready_words, memory_order_relaxed))
		take_ready(cq);
	if (!cq->any_again)
		return 0;
	for (unsigned n = 0; n < VB_READY_WORDS; n++) {
		unsigned i = (cq->turn + n) % VB_READY_WORDS;

		while (cq->again[i]) {
			unsigned bit = (unsigned)__builtin_ctzll(cq->again[i]);

			got += poll_bit(cq, i * 64 + bit, count - got, wc + got, poll);
			if (got == count) { /* there may be more behind this bit */
				cq->turn = i;
				return got;
			}
			cq->again[i] &= cq->again[i] - 1;
		}
	}
	cq->any_again = false;
	return got;
}

__attribute__((noinline)) static int poll_odd(struct vb_cq *cq, int count, struct ibv_wc *wc,
					      poll_fn poll)
{
	int got = 0;

	if (atomic_load(&cq->shared->overrun)) {
		/* Dead: what fitted is still there, nothing else ever completes here. */
		int left = (int)atomic_load(&cq->shared->count);

		if (left <= 0)
			return -EIO;
		count = left < count ? left : count;
	}

	if (atomic_load_explicit(&cq->stray_count, memory_order_relaxed))
		got = poll_stray(cq, count, wc);
	if (got == count)
		return got;
	cq->srqs_first = !cq->srqs_first; /* neither may keep the other waiting */
	if (cq->srqs_first)
		got += poll_xrc_srqs(cq, count - got, wc + got);
	if (atomic_load_explicit(&cq->shared->use_ready, memory_order_relaxed))
		got += poll_ready(cq, count - got, wc + got, poll);
	else
		got += poll_few(cq, count - got, wc + got, poll);
	if (!cq->srqs_first)
		got += poll_xrc_srqs(cq, count - got, wc + got);
	return got;
}

ALWAYS_INLINE int poll_locked(struct vb_cq *cq, int count, struct ibv_wc *wc, poll_fn poll)
{
	if (__builtin_expect(
		    !atomic_load_explicit(&cq->shared->overrun, memory_order_relaxed) &&
		    !atomic_load_explicit(&cq->shared->use_ready, memory_order_relaxed) &&
		    vb_list_empty(&cq->xrc_srqs) &&
		    !atomic_load_explicit(&cq->stray_count, memory_order_relaxed), 1))
		return poll_few(cq, count, wc, poll);
	return poll_odd(cq, count, wc, poll);
}

int vb_cq_poll(struct vb_cq *cq, int count, struct ibv_wc *wc)
{
	int got;

	vb_spin_lock(&cq->poll_lock);
	got = poll_locked(cq, count, wc, poll_plain);
	vb_spin_unlock(&cq->poll_lock);
	return got;
}

int vb_cq_poll_one(struct vb_cq *cq, struct ibv_wc *wc, uint64_t *stamp)
{
	int got;

	vb_spin_lock(&cq->poll_lock);
	cq->tm = (struct ibv_wc_tm_info){ 0 };
	got = poll_locked(cq, 1, wc, cq->stamped ? poll_stamps : poll_plain);
	*stamp = cq->stamp;
	cq->wc_tm = cq->tm;
	vb_spin_unlock(&cq->poll_lock);
	return got;
}

static uint32_t waiting_in_sq(const struct vb_sq *sq)
{
	uint32_t count = 0;

	for (uint32_t i = sq->scanned; i != atomic_load(&sq->done); i++) {
		const struct vb_wqe *wqe = vb_sq_wqe(sq, i);

		/* Those that were flushed are not counted (path/complete.c). */
		count += wqe->status != IBV_WC_WR_FLUSH_ERR &&
			 (wqe->signaled || (wqe->status != IBV_WC_SUCCESS && !wqe->internal));
	}
	return count;
}

static uint32_t waiting_in_rq(const struct vb_rq *rq)
{
	uint32_t count = 0;

	vb_rq_for_open(twin, rq)
		count += vb_cell_state(atomic_load(&vb_rq_cell(rq, twin->index)->word)) ==
			 VB_CELL_DONE;
	return count;
}

void vb_cq_forget_sq(struct vb_cq *cq, const struct vb_sq *sq)
{
	vb_cq_forget(cq, waiting_in_sq(sq));
}

void vb_cq_forget_rq(struct vb_cq *cq, const struct vb_rq *rq)
{
	vb_cq_forget(cq, waiting_in_rq(rq));
}

uint32_t vb_cq_waiting_of_srq(const struct vb_srq *srq)
{
	return waiting_in_rq(&srq->rq);
}

uint32_t vb_cq_waiting_of(struct vb_cq *cq, struct vb_qp *qp)
{
	uint32_t count = qp->send_cq == cq ? waiting_in_sq(&qp->sq) : 0;

	if (qp->recv_cq != cq)
		return count;
	vb_rq_for_open(twin, qp->rq) {
		const struct vb_cell *cell = vb_rq_cell(qp->rq, twin->index);

		count += vb_cell_state(atomic_load(&cell->word)) == VB_CELL_DONE &&
			 (!qp->srq || cell->qpn == qp->ibv.qp_num);
	}
	return count;
}

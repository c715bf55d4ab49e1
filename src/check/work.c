/* SPDX-License-Identifier: BSD-2-Clause */
/* Posted work, and what its completion tells. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/report.h"
#include "check/watch.h"

enum { QUEUE_FIRST = 64 };

uint64_t vb_work_epoch;

struct vb_piece *vb_work_pieces(struct vb_work *work)
{
	return work->piece_count > VB_PIECES_INSIDE ? work->outside : work->inside;
}

struct vb_work *vb_queue_at(struct vb_queue *queue, uint32_t index)
{
	return &queue->works[index & queue->mask];
}

static bool queue_grow(struct vb_queue *queue)
{
	const uint32_t size = queue->works ? 2 * (queue->mask + 1) : QUEUE_FIRST;
	struct vb_work *works = calloc(size, sizeof(*works));

	if (!works)
		return false;
	for (uint32_t i = queue->head; i != queue->tail; i++)
		works[i & (size - 1)] = *vb_queue_at(queue, i);
	free(queue->works);
	queue->works = works;
	queue->mask = size - 1;
	return true;
}

struct vb_work *vb_queue_push(struct vb_queue *queue)
{
	struct vb_work *work;

	if (queue->lost ||
	    ((!queue->works || queue->tail - queue->head > queue->mask) && !queue_grow(queue)))
		return NULL;
	work = vb_queue_at(queue, queue->tail++);
	work->rival = NULL;
	work->signaled = work->summed = work->doubtful = work->needs_receive = work->watched =
		false;
	work->piece_count = 0;
	work->length = 0;
	return work;
}

/* The memory is the program's again. */
void vb_work_end(struct vb_work *work)
{
	struct vb_piece *pieces = vb_work_pieces(work);

	if (__builtin_expect(work->watched, 0))
		vb_watch_ends(work);
	for (uint16_t i = 0; i < work->piece_count; i++) {
		if (work->kind == VB_WORK_SEND) {
			pieces[i].range->reads--;
			continue;
		}
		pieces[i].range->writes--;
		pieces[i].range->written = ++vb_work_epoch;
	}
	if (work->piece_count > VB_PIECES_INSIDE)
		free(work->outside);
	work->piece_count = 0;
}

void vb_queue_cut(struct vb_queue *queue, uint32_t tail, struct vb_object *cq)
{
	while (!queue->lost && queue->tail != tail) {
		struct vb_work *work = vb_queue_at(queue, --queue->tail);

		if (cq && work->signaled && cq->owed)
			cq->owed--;
		vb_work_end(work);
	}
}

/* --- memory --- */

/* The address of the bytes in this process. 0: the check cannot see them. */
static uint64_t host_address(const struct ibv_sge *sge)
{
	const struct vb_object *mr = vb_object_of_lkey(sge->lkey);
	uint64_t offset;

	if (!mr || atomic_load_explicit(&mr->gone, memory_order_relaxed) || !mr->host_memory ||
	    mr->unmapped)
		return 0;
	offset = sge->addr - mr->iova;
	if (offset > mr->length || sge->length > mr->length - offset)
		return 0;
	return mr->addr + offset;
}

/* All pieces, or none: sums over a part of a message would not know their place. */
void vb_work_gather(struct vb_work *work, const struct ibv_sge *sges, int count)
{
	struct vb_piece *pieces = work->inside;
	uint16_t used = 0;

	if (count > VB_PIECES_INSIDE) {
		pieces = malloc((size_t)count * sizeof(*pieces));
		if (!pieces)
			return;
	}
	for (int i = 0; i < count; i++) {
		const uint64_t addr = sges[i].length ? host_address(&sges[i]) : 0;
		struct vb_range *range = addr ? vb_range_get(addr, sges[i].length) : NULL;

		if (!range && sges[i].length)
			break;
		work->length += sges[i].length;
		if (range)
			pieces[used++] = (struct vb_piece){ range, sges[i].lkey };
		if (i + 1 == count)
			work->piece_count = used;
	}
	if (count > VB_PIECES_INSIDE) {
		if (work->piece_count > VB_PIECES_INSIDE) {
			work->outside = pieces;
			return;
		}
		memcpy(work->inside, pieces, work->piece_count * sizeof(*pieces));
		free(pieces);
	}
}

/* --- completions --- */

/* The program does something that the shadow does not understand. */
static void queue_lose(struct vb_queue *queue, struct vb_object *cq)
{
	vb_queue_cut(queue, queue->head, cq);
	queue->lost = true;
}

static void owe_less(struct vb_object *cq)
{
	if (cq->owed)
		cq->owed--;
}

/* Memory that is shared with a receive is a matter of the rule `overlap`. */
static bool by_the_program(struct vb_work *work)
{
	for (uint16_t i = 0; i < work->piece_count; i++)
		if (vb_range_written(vb_work_pieces(work)[i].range, work->epoch))
			return false;
	return true;
}

static void send_ends(struct vb_object *qp, struct vb_work *work, const struct vb_stack *stack)
{
	if (work->summed && !vb_sum_send_same(work) && by_the_program(work))
		vb_report(VB_RULE_SEND_CHANGED,
			  VB_CALLS({ "posted by", work->stack },
				   { "the completion that frees the buffer was polled by", stack }),
			  "The %" PRIu64 " bytes at 0x%" PRIx64
			  " changed between ibv_post_send (QP "
			  "0x%06x, wr_id %" PRIu64 ") and the completion. A NIC reads the buffer, "
			  "or reads it again, until then.",
			  work->length, vb_work_pieces(work)[0].range->addr, qp->qpn, work->wr_id);
	vb_work_end(work);
}

/*
 * A success completes all work up to the first that is signaled. A failure may come for work that
 * is not signaled.
 */
static void sends_completed(struct vb_object *qp, const struct ibv_wc *wc,
			    const struct vb_stack *stack)
{
	struct vb_queue *queue = &qp->sends;
	bool last = false;

	while (!queue->lost && !last) {
		struct vb_work *work;

		if (queue->head == queue->tail) {
			queue_lose(queue, qp->send_cq);
			return;
		}
		work = vb_queue_at(queue, queue->head);
		last = work->signaled || (wc->status != IBV_WC_SUCCESS && work->wr_id == wc->wr_id);
		if (last && work->wr_id != wc->wr_id) {
			queue_lose(queue, qp->send_cq);
			return;
		}
		if (last && work->signaled)
			owe_less(qp->send_cq);
		queue->head++;
		send_ends(qp, work, stack);
	}
}

bool vb_work_open_to_peers(const struct vb_work *work)
{
	const int writable =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
	const struct vb_piece *pieces = vb_work_pieces((struct vb_work *)work);

	for (const struct vb_object *mr = vb_objects_first(); mr; mr = mr->next)
		for (uint16_t i = 0;
		     mr->kind == VB_KIND_MR && mr->access & writable && i < work->piece_count; i++)
			if (pieces[i].range->addr < mr->addr + mr->length &&
			    mr->addr < pieces[i].range->addr + pieces[i].range->length)
				return true;
	return false;
}

bool vb_work_alone(struct vb_work *work)
{
	const struct vb_piece *pieces = vb_work_pieces(work);

	for (uint16_t i = 0; i < work->piece_count; i++)
		if (!pieces[i].range->alone || pieces[i].range->writes > 1 ||
		    pieces[i].range->reads)
			return false;
	return true;
}

static void receive_ends(struct vb_work *work, const struct ibv_wc *wc,
			 const struct vb_stack *stack)
{
	const bool filled = wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV;

	if (filled && wc->byte_len && work->rival)
		vb_report(VB_RULE_OVERLAP,
			  VB_CALLS({ "posted by", work->stack },
				   { "the other one was posted by", work->rival }),
			  "Receive wr_id %" PRIu64 " of QP 0x%06x got %u bytes at 0x%" PRIx64
			  " while another receive, READ or send was posted with the same memory.",
			  work->wr_id, wc->qp_num, wc->byte_len,
			  vb_work_pieces(work)[0].range->addr);
	else if (filled && work->summed && !work->doubtful && vb_work_alone(work) &&
		 !vb_sum_receive_same(work, wc->byte_len) && !vb_work_open_to_peers(work))
		vb_report(VB_RULE_RECV_WRITTEN,
			  VB_CALLS({ "posted by", work->stack }, { "polled by", stack }),
			  "Receive wr_id %" PRIu64 " of QP 0x%06x got %u of %" PRIu64 " bytes, and "
			  "the bytes behind them changed as well: the program wrote to the buffer "
			  "at 0x%" PRIx64 " after it had posted it.",
			  work->wr_id, wc->qp_num, wc->byte_len, work->length,
			  vb_work_pieces(work)[0].range->addr);
	vb_work_end(work);
}

static void receive_completed(struct vb_object *qp, const struct ibv_wc *wc,
			      const struct vb_stack *stack)
{
	struct vb_queue *queue = &qp->receives;
	struct vb_work *work;

	if (queue->lost)
		return;
	work = queue->head == queue->tail ? NULL : vb_queue_at(queue, queue->head);
	if (!work || work->wr_id != wc->wr_id) {
		queue_lose(queue, qp->receive_cq);
		return;
	}
	queue->head++;
	owe_less(qp->receive_cq);
	receive_ends(work, wc, stack);
}

/* Completions of an SRQ come in any order. Those with the same wr_id cannot be told apart. */
static void shared_completed(struct vb_queue *queue, const struct ibv_wc *wc,
			     const struct vb_stack *stack)
{
	struct vb_work *first = NULL, found;
	uint32_t at = 0;

	for (uint32_t i = queue->head; !queue->lost && i != queue->tail; i++) {
		struct vb_work *work = vb_queue_at(queue, i);

		if (work->wr_id != wc->wr_id)
			continue;
		if (first) {
			queue_lose(queue, NULL);
			return;
		}
		first = work;
		at = i;
	}
	if (!first)
		return;
	found = *first;
	for (; at != queue->head; at--)
		*vb_queue_at(queue, at) = *vb_queue_at(queue, at - 1);
	queue->head++;
	receive_ends(&found, wc, stack);
}

void vb_work_completed(struct vb_object *cq, const struct ibv_wc *wc, const struct vb_stack *stack)
{
	struct vb_object *qp = vb_object_of_qpn(wc->qp_num);

	if (!qp || atomic_load(&qp->gone))
		return;
	if (wc->status != IBV_WC_SUCCESS && qp->type != IBV_QPT_UD) {
		qp->state = IBV_QPS_ERR;
		vb_watch_forget(qp);
	}
	if (!(wc->opcode & IBV_WC_RECV)) {
		if (qp->send_cq == cq)
			sends_completed(qp, wc, stack);
		return;
	}
	if (qp->srq)
		shared_completed(&qp->srq->receives, wc, stack);
	else if (qp->receive_cq == cq)
		receive_completed(qp, wc, stack);
}

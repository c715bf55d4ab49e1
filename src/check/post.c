/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer over the posts. */
#include <errno.h>
#include <inttypes.h>

#include "check/check.h"
#include "check/engine.h"
#include "check/report.h"
#include "check/watch.h"

struct ibv_context_ops vb_check_ops;

/* --- rules of a post --- */

static void check_keys(const struct ibv_sge *sges, int count, const struct vb_stack *stack)
{
	for (int i = 0; i < count; i++) {
		struct vb_object *mr = vb_object_of_lkey(sges[i].lkey);

		if (__builtin_expect(mr != NULL, 1) || !sges[i].length)
			continue;
		mr = vb_object_of_rkey(sges[i].lkey);
		if (mr && !atomic_load(&mr->gone))
			vb_report(
				VB_RULE_KEY,
				VB_CALLS({ "posted by", stack }, { "registered by", mr->made }),
				"The lkey 0x%x of an SGE is the rkey of its region. Both are equal "
				"on some devices only.",
				sges[i].lkey);
	}
}

static void claim(struct vb_work *work)
{
	struct vb_piece *pieces = vb_work_pieces(work);

	for (uint16_t i = 0; i < work->piece_count; i++) {
		if (work->kind == VB_WORK_SEND)
			pieces[i].range->reads++;
		else
			pieces[i].range->writes++;
		pieces[i].range->stack = work->stack;
	}
}

/* A send may share memory with sends, all else with nothing. */
static const struct vb_range *find_rival(struct vb_work *work)
{
	struct vb_piece *pieces = vb_work_pieces(work);

	for (uint16_t i = 0; i < work->piece_count; i++) {
		const struct vb_range *rival =
			vb_range_rival(pieces[i].range, work->kind != VB_WORK_SEND);

		if (rival)
			return rival;
	}
	return NULL;
}

static void check_overlap(struct vb_object *qp, struct vb_work *work)
{
	const struct vb_range *rival = find_rival(work);

	if (rival)
		vb_report(VB_RULE_OVERLAP,
			  VB_CALLS({ "posted by", work->stack },
				   { "the other one was posted by", rival->stack }),
			  "%s wr_id %" PRIu64 " of QP 0x%06x uses memory at 0x%" PRIx64
			  " that another posted work request %s.",
			  work->kind == VB_WORK_SEND ? "Send" : "READ or atomic", work->wr_id,
			  qp->qpn, rival->addr, rival->writes ? "will write to" : "still reads");
}

static void check_overrun(struct vb_object *cq, const struct vb_stack *stack)
{
	const uint32_t cqe = (uint32_t)((struct ibv_cq *)cq->handle)->cqe;

	if (__builtin_expect(++cq->owed <= cqe, 1) || cq->overrun_ignored)
		return;
	vb_report(
		VB_RULE_CQ_OVERRUN, VB_CALLS({ "posted by", stack }, { "CQ made by", cq->made }),
		"%u completions of posted work can come before a poll, and the CQ has room for %u.",
		cq->owed, cqe);
}

/* --- sends --- */

static bool fetches(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool has_payload(const struct ibv_send_wr *wr)
{
	const uint32_t with = 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM |
			      1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM |
			      1u << IBV_WR_SEND_WITH_INV | 1u << IBV_WR_RDMA_READ |
			      1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;

	return !(wr->send_flags & IBV_SEND_INLINE) && (unsigned)wr->opcode < 32 &&
	       with >> wr->opcode & 1;
}

/* A datagram is read once: its sender may know from an answer that it has left. */
static bool reads_until_completed(const struct vb_object *qp, const struct vb_work *work)
{
	return work->signaled || qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND;
}

/* Verbena and mlx5 execute one at a time, Linux Soft-RoCE none. */
static void check_reads(const struct vb_object *qp, const struct vb_work *work)
{
	if (work->kind == VB_WORK_FETCH && qp->no_reads)
		vb_report(VB_RULE_LIMIT,
			  VB_CALLS({ "posted by", work->stack },
				   { "max_rd_atomic set to 0 by", qp->no_reads }),
			  "A READ or atomic was posted to QP 0x%06x, whose max_rd_atomic is 0: "
			  "none may be under way. On Soft-RoCE it never begins.",
			  qp->qpn);
}

static void push_send(struct vb_object *qp, const struct ibv_send_wr *wr,
		      const struct vb_stack *stack)
{
	struct vb_work *work = vb_queue_push(&qp->sends);

	if (!work)
		return;
	work->wr_id = wr->wr_id;
	work->stack = stack;
	work->epoch = vb_work_epoch;
	work->kind = fetches(wr) ? VB_WORK_FETCH : VB_WORK_SEND;
	work->signaled = qp->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	work->needs_receive = wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM ||
			      wr->opcode == IBV_WR_SEND_WITH_INV ||
			      wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	check_reads(qp, work);
	if (has_payload(wr)) {
		check_keys(wr->sg_list, wr->num_sge, stack);
		vb_work_gather(work, wr->sg_list, wr->num_sge);
		check_overlap(qp, work);
		claim(work);
		if (work->kind == VB_WORK_SEND && work->piece_count &&
		    reads_until_completed(qp, work))
			vb_sum_send(&qp->sends, work);
	}
	if (work->signaled) {
		check_overrun(qp->send_cq, stack);
		qp->send_cq->sends_signaled++;
	}
}

static uint32_t push_sends(struct vb_object *qp, const struct ibv_send_wr *wr,
			   const struct vb_stack *stack)
{
	uint32_t tail;

	vb_check_enter();
	vb_watch_tell();
	tail = qp->sends.tail;
	for (; wr; wr = wr->next)
		push_send(qp, wr, stack);
	vb_check_leave();
	return tail;
}

static uint32_t count_until(const struct ibv_send_wr *wr, const struct ibv_send_wr *end)
{
	uint32_t count = 0;

	for (; wr && wr != end; wr = wr->next)
		count++;
	return count;
}

/* The queue is full, and no completion will ever free it. */
static void check_unsignaled(struct vb_object *qp, const struct vb_stack *stack)
{
	for (uint32_t i = qp->sends.head; i != qp->sends.tail; i++)
		if (vb_queue_at(&qp->sends, i)->signaled)
			return;
	if (qp->sends.lost || qp->sends.head == qp->sends.tail)
		return;
	vb_report(VB_RULE_UNSIGNALED, VB_CALLS({ "refused", stack }, { "QP made by", qp->made }),
		  "QP 0x%06x has %u posted sends, none of them signaled: only a completion frees "
		  "entries of the queue, and none will come.",
		  qp->qpn, qp->sends.tail - qp->sends.head);
}

static void refused(struct vb_object *qp, uint32_t tail, int err, const struct vb_stack *stack)
{
	vb_check_enter();
	vb_queue_cut(&qp->sends, tail, qp->send_cq);
	if (err == ENOMEM)
		check_unsignaled(qp, stack);
	vb_check_leave();
}

int vb_check_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct vb_object *qp = vb_object_of(ibv);
	const struct vb_stack *stack = qp ? VB_HERE() : NULL;
	uint32_t tail;
	int err;

	if (!qp)
		return vb_check_ops.post_send(ibv, wr, bad);
	if (!vb_use_begin(qp, "ibv_post_send", stack)) {
		*bad = wr;
		return errno = EINVAL;
	}
	vb_check_tell_rnr();
	tail = push_sends(qp, wr, stack);
	err = vb_check_ops.post_send(ibv, wr, bad);
	if (__builtin_expect(err, 0))
		refused(qp, tail + count_until(wr, *bad), err, stack);
	vb_use_end(qp);
	return err;
}

int vb_check_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	const struct ibv_send_wr wr = { .wr_id = bind->wr_id,
					.opcode = IBV_WR_BIND_MW,
					.send_flags = bind->send_flags };
	struct vb_object *qp = vb_object_of(ibv);
	const struct vb_stack *stack = VB_HERE();
	uint32_t tail;
	int err;

	if (!qp)
		return vb_check_ops.bind_mw(ibv, mw, bind);
	if (!vb_use_begin(qp, "ibv_bind_mw", stack))
		return errno = EINVAL;
	tail = push_sends(qp, &wr, stack);
	err = vb_check_ops.bind_mw(ibv, mw, bind);
	if (err)
		refused(qp, tail, err, stack);
	vb_use_end(qp);
	return err;
}

/* --- batches of ibv_wr_* --- */

static struct vb_object *object_of_ex(struct ibv_qp_ex *ex)
{
	return vb_object_of(&ex->qp_base);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct vb_object *qp = object_of_ex(ex);

	if (!vb_use_begin(qp, "ibv_wr_start", VB_HERE()))
		return;
	qp->wr_start(ex);
	vb_section_begin(qp);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct vb_object *qp = object_of_ex(ex);
	const struct vb_stack *stack = VB_HERE();
	const struct vb_engine_table *engine = vb_check_engine();
	uint32_t tail;
	int err;

	if (atomic_load(&qp->gone) || !vb_section_end(qp, "ibv_wr_complete", stack))
		return errno = EINVAL;
	vb_check_tell_rnr();
	tail = push_sends(qp, engine ? engine->built(ex) : NULL, stack);
	err = qp->wr_complete(ex);
	if (err)
		refused(qp, tail, err, stack);
	vb_use_end(qp);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct vb_object *qp = object_of_ex(ex);

	if (atomic_load(&qp->gone) || !vb_section_end(qp, "ibv_wr_abort", VB_HERE()))
		return;
	qp->wr_abort(ex);
	vb_use_end(qp);
}

void vb_check_wrap_qp(struct vb_object *object, struct ibv_qp_ex *ex)
{
	if (!ex || !ex->wr_complete)
		return;
	object->wr_start = ex->wr_start;
	object->wr_complete = ex->wr_complete;
	object->wr_abort = ex->wr_abort;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}

/* --- receives --- */

static void push_receive(struct vb_object *owner, struct vb_object *cq,
			 const struct ibv_recv_wr *wr, const struct vb_stack *stack)
{
	struct vb_work *work = vb_queue_push(&owner->receives);
	const struct vb_range *rival;

	if (!work)
		return;
	work->wr_id = wr->wr_id;
	work->stack = stack;
	work->kind = VB_WORK_RECEIVE;
	work->signaled = true;
	check_keys(wr->sg_list, wr->num_sge, stack);
	vb_work_gather(work, wr->sg_list, wr->num_sge);
	rival = find_rival(work);
	work->rival = rival ? rival->stack : NULL;
	claim(work);
	if (!rival && work->piece_count) {
		vb_sum_receive(&owner->receives, work);
		vb_watch_receive(owner, work);
	}
	if (cq)
		check_overrun(cq, stack);
}

static uint32_t push_receives(struct vb_object *owner, struct vb_object *cq,
			      const struct ibv_recv_wr *wr, const struct vb_stack *stack)
{
	uint32_t tail;

	vb_check_enter();
	tail = owner->receives.tail;
	for (; wr; wr = wr->next)
		push_receive(owner, cq, wr, stack);
	vb_check_leave();
	return tail;
}

static void receives_refused(struct vb_object *owner, struct vb_object *cq, uint32_t tail,
			     const struct ibv_recv_wr *wr, const struct ibv_recv_wr *bad)
{
	for (; wr && wr != bad; wr = wr->next)
		tail++;
	vb_check_enter();
	vb_queue_cut(&owner->receives, tail, cq);
	vb_check_leave();
}

int vb_check_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_object *qp = vb_object_of(ibv);
	const struct vb_stack *stack = qp ? VB_HERE() : NULL;
	uint32_t tail;
	int err;

	if (!qp)
		return vb_check_ops.post_recv(ibv, wr, bad);
	if (!vb_use_begin(qp, "ibv_post_recv", stack)) {
		*bad = wr;
		return errno = EINVAL;
	}
	tail = push_receives(qp, qp->receive_cq, wr, stack);
	err = vb_check_ops.post_recv(ibv, wr, bad);
	if (__builtin_expect(err, 0))
		receives_refused(qp, qp->receive_cq, tail, wr, *bad);
	vb_use_end(qp);
	return err;
}

int vb_check_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_object *srq = vb_object_of(ibv);
	const struct vb_stack *stack = srq ? VB_HERE() : NULL;
	uint32_t tail;
	int err;

	if (!srq || srq->untracked)
		return vb_check_ops.post_srq_recv(ibv, wr, bad);
	if (!vb_use_begin(srq, "ibv_post_srq_recv", stack)) {
		*bad = wr;
		return errno = EINVAL;
	}
	tail = push_receives(srq, NULL, wr, stack);
	err = vb_check_ops.post_srq_recv(ibv, wr, bad);
	if (__builtin_expect(err, 0))
		receives_refused(srq, NULL, tail, wr, *bad);
	vb_use_end(srq);
	return err;
}

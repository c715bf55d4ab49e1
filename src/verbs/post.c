/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting work requests. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/probe.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/wire/wire.h"
#include "nic/managed.h"
#include "nic/profile.h"
#include "nic/qp_edges.h"
#include "nic/tell.h"
#include "nic/trace.h"
#include "path/local/local.h"
#include "path/raw/tso.h"
#include "verbs/ops.h"
#include "verbs/qp_ex.h"
#include "verbs/stale.h"
#include "wire/opcode.h"

enum {
	FLAGS_KNOWN = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE,
	FLAGS_RAW = FLAGS_KNOWN | IBV_SEND_IP_CSUM,
};

/* Out of line, so that the checks are short enough to be inlined. */
__attribute__((cold, noinline)) static int refuse_wr(const struct vb_qp *qp,
						     const struct ibv_send_wr *wr, const char *why)
{
	vb_explain("ibv_post_send: QP 0x%06x wr_id %llu: %s", qp->ibv.qp_num,
		   (unsigned long long)wr->wr_id, why);
	return -EINVAL;
}

/* The same for numbers that exceed a limit of the QP. */
__attribute__((cold, noinline)) static int refuse_sges(const struct vb_qp *qp,
						       const struct ibv_send_wr *wr)
{
	vb_explain("ibv_post_send: QP 0x%06x wr_id %llu: %d SGEs, max_send_sge of the QP is %u",
		   qp->ibv.qp_num, (unsigned long long)wr->wr_id, wr->num_sge, qp->sq.sge_max);
	return -EINVAL;
}

__attribute__((cold, noinline)) static int refuse_flags(const struct vb_qp *qp,
							const struct ibv_send_wr *wr)
{
	vb_explain("ibv_post_send: QP 0x%06x wr_id %llu: send_flags 0x%x: IBV_SEND flags beyond "
		   "0x%x are not supported",
		   qp->ibv.qp_num, (unsigned long long)wr->wr_id, wr->send_flags,
		   qp->type == IBV_QPT_RAW_PACKET ? FLAGS_RAW : FLAGS_KNOWN);
	return -EINVAL;
}

__attribute__((cold, noinline)) static int refuse_opcode(const struct vb_qp *qp,
							 const struct ibv_send_wr *wr)
{
	vb_explain("ibv_post_send: QP 0x%06x wr_id %llu: opcode %d (%s) is not one of this device",
		   qp->ibv.qp_num, (unsigned long long)wr->wr_id, (int)wr->opcode,
		   vb_opcode_words(wr->opcode));
	return -EINVAL;
}

__attribute__((cold, noinline)) static int
refuse_inline(const struct vb_qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
	vb_explain("ibv_post_send: QP 0x%06x wr_id %llu: %llu bytes inline, max_inline_data of the "
		   "QP is %u",
		   qp->ibv.qp_num, (unsigned long long)wr->wr_id, (unsigned long long)length,
		   qp->sq.inline_max);
	return -EINVAL;
}

__attribute__((cold, noinline)) static int refuse_state(const struct vb_qp *qp,
							const struct ibv_send_wr *wr)
{
	if (qp->type == IBV_QPT_XRC_RECV)
		return refuse_wr(qp, wr, "an XRC_RECV QP only receives");
	vb_explain("ibv_post_send: QP 0x%06x wr_id %llu: the QP is in %s, and sends from RTS on",
		   qp->ibv.qp_num, (unsigned long long)wr->wr_id, vb_qp_state_str(vb_qp_state(qp)));
	return -EINVAL;
}

/*
 * An opcode of another transport is accepted, and fails when it is executed. An opcode for frames
 * only needs a QP that was created for large sends.
 */
static bool opcode_known(const struct vb_qp *qp, const struct vb_wr_row *row)
{
	return row->posted & ~(1u << IBV_QPT_RAW_PACKET) ||
	       (row->posted && qp->raw && qp->raw->tso);
}

/* Of an opcode that is not known, or one that the profile of the device has to be asked about. */
__attribute__((cold, noinline)) static int
check_opcode(const struct vb_qp *qp, const struct ibv_send_wr *wr, const struct vb_wr_row *row)
{
	const bool frames = row->transports == 1u << IBV_QPT_RAW_PACKET;
	const char *why;

	if (!vb_profile_sends(row) || (frames && !(qp->raw && qp->raw->tso)))
		return refuse_opcode(qp, wr);
	why = vb_profile_refusal(wr, row);
	return why ? refuse_wr(qp, wr, why) : 0;
}

/* An operation that a UD QP cannot do has no address handle in its place. */
static bool is_datagram(const struct vb_qp *qp, const struct vb_wr_row *row)
{
	return qp->type == IBV_QPT_UD && vb_wr_on(row, IBV_QPT_UD);
}

static const char *apart_refusal(const struct ibv_send_wr *wr, enum ibv_mw_type type, bool whole)
{
	if (wr->opcode == IBV_WR_FLUSH && !whole)
		return "struct ibv_send_wr has no place for FLUSH; ibv_wr_flush posts it";
	if (wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.mw->type != type)
		return "BIND_MW is for type 2 windows, ibv_bind_mw for type 1";
	return NULL;
}

__attribute__((cold, noinline)) static int refuse_full(const struct vb_qp *qp)
{
	bool signaled = false;

	for (uint32_t i = 1; i <= qp->sq.depth; i++)
		signaled |= vb_sq_wqe(&qp->sq, qp->sq.tail - i)->signaled;
	vb_explain("ibv_post_send: QP 0x%06x: all %u entries (max_send_wr) are in use; %s",
		   qp->ibv.qp_num, qp->sq.depth,
		   signaled ? "an entry is free again when a completion of it or of a later one "
			      "is polled"
			    : "none of them is signaled (IBV_SEND_SIGNALED), so that no completion "
			      "will free them");
	return -ENOMEM;
}

static int check_wr(const struct vb_qp *qp, const struct ibv_send_wr *wr,
		    const struct vb_wr_row *row, enum ibv_mw_type type, bool whole)
{
	const char *why;

	if (__builtin_expect(!opcode_known(qp, row), 0) && check_opcode(qp, wr, row))
		return -EINVAL;
	if (__builtin_expect((uint32_t)wr->num_sge > qp->sq.sge_max, 0) &&
	    !(wr->send_flags & IBV_SEND_INLINE && wr->num_sge >= 0))
		return refuse_sges(qp, wr);
	if (__builtin_expect(wr->send_flags & ~(unsigned)FLAGS_KNOWN, 0) &&
	    (qp->type != IBV_QPT_RAW_PACKET || wr->send_flags & ~(unsigned)FLAGS_RAW))
		return refuse_flags(qp, wr);
	if (__builtin_expect(row->flags & VB_WR_APART, 0)) {
		why = apart_refusal(wr, type, whole);
		if (why)
			return refuse_wr(qp, wr, why);
	}
	if (is_datagram(qp, row) && !wr->wr.ud.ah)
		return refuse_wr(qp, wr,
				 "a datagram needs an address handle, and wr.ud.ah is NULL");
	return __builtin_expect(vb_sq_full(&qp->sq), 0) ? refuse_full(qp) : 0;
}

static int copy_inline(const struct vb_qp *qp, const struct ibv_send_wr *wr,
		       const struct vb_wr_row *row, struct vb_wqe *wqe)
{
	uint64_t length = 0;

	if (!(row->flags & VB_WR_INLINE))
		return refuse_wr(qp, wr, "IBV_SEND_INLINE is for operations that send payload");
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	/* An atomic write brings its value along, even if max_inline_data is smaller. */
	if (length > qp->sq.inline_max &&
	    (!(row->flags & VB_WR_WORD) || length > sizeof(wqe->bytes)))
		return refuse_inline(qp, wr, length);
	wqe->length = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		/* Behind the declared bytes there is room for inline_max of them. */
		memcpy((uint8_t *)wqe + offsetof(struct vb_wqe, bytes) + wqe->length,
		       (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		wqe->length += wr->sg_list[i].length;
	}
	return 0;
}

static void copy_sges(const struct ibv_send_wr *wr, struct vb_wqe *wqe)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		length += wr->sg_list[i].length;
	}
	wqe->sge_count = (uint8_t)wr->num_sge;
	wqe->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
}

static void copy_address(const struct vb_qp *qp, const struct ibv_send_wr *wr,
			 const struct vb_wr_row *row, struct vb_wqe *wqe)
{
	if (is_datagram(qp, row)) {
		wqe->ah = vb_ah(wr->wr.ud.ah);
		vb_ah_get(wqe->ah);
		wqe->foreign_ah = !vb_pd_same(wqe->ah->pd, qp->pd);
		wqe->remote_qpn = wr->wr.ud.remote_qpn & VB_MASK24;
		wqe->remote_qkey = wr->wr.ud.remote_qkey;
	} else if (row->family == VB_FAMILY_ATOMIC || row->family == VB_FAMILY_FLUSH) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->operand[0] = wr->wr.atomic.compare_add;
		wqe->operand[1] = wr->wr.atomic.swap;
		if (row->family == VB_FAMILY_FLUSH) /* it has no payload; elements are ignored */
			wqe->length = wqe->sge_count = 0;
	} else {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
	if (qp->type == IBV_QPT_XRC_SEND)
		wqe->srqn = wr->qp_type.xrc.remote_srqn & VB_MASK24;
}

/* The key changes with the post, the window with the execution of the request. */
static void copy_bind(const struct ibv_send_wr *wr, struct vb_wqe *wqe)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	struct vb_mw *mw = vb_mw(wr->bind_mw.mw);
	const uint32_t before = mw->ibv.rkey;

	mw->ibv.rkey = vb_mw_rkey(mw, wr->bind_mw.rkey);
	wqe->bind = (struct vb_mw_bind){
		.mw = mw,
		.lkey = info->mr ? info->mr->lkey : 0,
		.rkey = mw->ibv.rkey,
		.rkey_before = before,
		.addr = info->addr,
		.length = info->length,
		.access = info->mw_access_flags,
	};
	wqe->length = 0;
	wqe->sge_count = 0;
}

static int append_wr(struct vb_qp *qp, const struct ibv_send_wr *wr, enum ibv_mw_type type,
		     bool whole)
{
	const struct vb_wr_row *row = vb_wr_row_any(wr->opcode);
	struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, qp->sq.tail);
	int err = check_wr(qp, wr, row, type, whole);

	if (__builtin_expect(err, 0))
		return err;
	wqe->wr_id = wr->wr_id;
	wqe->ah = NULL;
	wqe->internal = VB_INTERNAL_NOT;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->signaled = qp->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	wqe->solicited = wr->send_flags & IBV_SEND_SOLICITED;
	wqe->inlined = wr->send_flags & IBV_SEND_INLINE;
	wqe->fenced = wr->send_flags & IBV_SEND_FENCE;
	wqe->checksum = wr->send_flags & IBV_SEND_IP_CSUM;
	wqe->imm = wr->imm_data; /* one union with invalidate_rkey */
	if (row->flags & VB_WR_APART && wr->opcode == IBV_WR_BIND_MW)
		copy_bind(wr, wqe);
	else if (wqe->inlined)
		err = copy_inline(qp, wr, row, wqe);
	else
		copy_sges(wr, wqe);
	if (row->flags & VB_WR_APART && !err && wr->opcode == IBV_WR_TSO && vb_tso_take(qp, wr))
		err = refuse_wr(qp, wr,
				"a large send has a header of up to max_tso_header and an MSS");
	if (__builtin_expect(err, 0))
		return err;
	if (!(row->flags & VB_WR_STAYS))
		copy_address(qp, wr, row, wqe);
	qp->sq.tail++;
	return 0;
}

static bool may_post_send(const struct vb_qp *qp)
{
	enum ibv_qp_state state = vb_qp_state(qp);

	if (qp->type == IBV_QPT_XRC_RECV)
		return false;
	return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE ||
	       state == IBV_QPS_ERR;
}

/* Removes the WQEs from `first` on. The lock is still held, so no thread has seen them. */
static void take_back(struct vb_sq *sq, uint32_t first)
{
	while (sq->tail != first) {
		struct vb_wqe *wqe = vb_sq_wqe(sq, --sq->tail);

		vb_ah_put(wqe->ah);
		if (wqe->opcode == IBV_WR_BIND_MW)
			wqe->bind.mw->ibv.rkey = wqe->bind.rkey_before;
	}
}

/* Out of line: errno has a cost even where it is not set. Posts have no guard that would forget
 * what was explained before. */
__attribute__((cold, noinline)) static int return_failure(const char *call, int err, void *bad_wr)
{
	vb_tell_filled(bad_wr, sizeof(void *));
	err = vb_return_errno_of(call, err);
	vb_explained = false;
	return err;
}

/* Called with the lock of the queue. type: of the windows that may be bound. whole: all work
 * requests or none. traced: a program traces the work requests. */
__attribute__((always_inline)) static inline int
append_all(struct vb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
	   enum ibv_mw_type type, bool whole, bool traced)
{
	struct vb_sq *sq = &qp->sq;
	uint32_t first, end;
	bool mine, any;
	int err = 0;

	first = sq->tail;
	for (; wr; wr = wr->next) {
		VB_PROBE(post_send, qp->ibv.qp_num, wr->wr_id, wr->opcode);
		err = append_wr(qp, wr, type, whole);
		if (__builtin_expect(err, 0)) {
			*bad_wr = wr;
			if (whole)
				take_back(sq, first);
			break;
		}
	}
	any = sq->tail != first;
	if (traced) /* before another thread can execute them */
		vb_trace_posted(qp, first, sq->tail);
	mine = !sq->executing && any;
	sq->executing |= mine;
	end = vb_qp_sends_end(qp);
	vb_spin_unlock(&sq->lock);
	if (mine)
		vb_engine_execute(qp, end, false);
	else if (any && vb_qp_on_wire(qp))
		vb_wire_kick(qp);
	return __builtin_expect(err, 0) ? return_failure("ibv_post_send", err, bad_wr) : 0;
}

/* Out of line: for a program that a tool watches. */
__attribute__((cold, noinline)) static int post_watched(struct vb_qp *qp, struct ibv_send_wr *wr,
							struct ibv_send_wr **bad_wr,
							enum ibv_mw_type type, bool whole)
{
	const bool traced = vb_captured() && vb_captures(VB_WANT_STATIONS);

	vb_tool_post_send(qp, wr);
	if (traced)
		vb_spin_lock(&qp->sq.lock);
	else
		wr = vb_local_send_fast(qp, wr, whole);
	return traced || wr ? append_all(qp, wr, bad_wr, type, whole, traced) : 0;
}

__attribute__((always_inline)) static inline int post_sends(struct vb_qp *qp,
							    struct ibv_send_wr *wr,
							    struct ibv_send_wr **bad_wr,
							    enum ibv_mw_type type, bool whole)
{
	int err;

	if (__builtin_expect(qp->nic != vb_nic_current() || !may_post_send(qp), 0)) {
		*bad_wr = wr;
		err = vb_stale(qp->nic, "ibv_post_send");
		err = err ? err : refuse_state(qp, wr);
		return return_failure("ibv_post_send", err, bad_wr);
	}
	if (vb_is_watched())
		return post_watched(qp, wr, bad_wr, type, whole);
	wr = vb_local_send_fast(qp, wr, whole);
	return wr ? append_all(qp, wr, bad_wr, type, whole, false) : 0;
}

int vb_ops_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	return post_sends(vb_qp(ibv), wr, bad_wr, IBV_MW_TYPE_2, false);
}

int vb_post_whole(struct vb_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return -post_sends(qp, wr, &bad, IBV_MW_TYPE_2, true);
}

int vb_ops_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = { .mw = mw,
			     .rkey = ibv_inc_rkey(mw->rkey),
			     .bind_info = bind->bind_info },
	};

	return post_sends(vb_qp(ibv), &wr, &bad, IBV_MW_TYPE_1, true);
}

/* --- receives --- */

__attribute__((cold, noinline)) static void explain_receive(const struct vb_rq *rq,
							    const struct ibv_recv_wr *wr, int err)
{
	char queue[32];

	snprintf(queue, sizeof(queue), rq->qpn ? "recv: QP 0x%06x" : "srq_recv: SRQ %u",
		 rq->qpn   ? rq->qpn
		 : rq->srq ? rq->srq->number
			   : 0);
	if (err == -ENOMEM)
		vb_explain("ibv_post_%s wr_id %llu: all %u entries (%s) are in use; an entry is "
			   "free again when its completion is polled",
			   queue, (unsigned long long)wr->wr_id, rq->depth,
			   rq->qpn ? "max_recv_wr" : "max_wr");
	else
		vb_explain("ibv_post_%s wr_id %llu: %d SGEs, %s of the queue is %u", queue,
			   (unsigned long long)wr->wr_id, wr->num_sge,
			   rq->qpn ? "max_recv_sge" : "max_sge", rq->sge_max);
}

__attribute__((always_inline)) static inline int
append_receives(struct vb_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr, bool traced)
{
	uint32_t first;
	int err = 0;

	vb_spin_lock(&rq->lock);
	first = rq->tail;
	for (; wr; wr = wr->next) {
		VB_PROBE(post_recv, rq->qpn, wr->wr_id);
		err = vb_rq_post(rq, wr);
		if (err)
			break;
	}
	if (traced)
		vb_trace_recv_posted(rq, first, rq->tail);
	vb_spin_unlock(&rq->lock);
	if (__builtin_expect(err, 0) && rq->managed)
		err = vb_managed_post_recv(rq, &wr);
	if (__builtin_expect(err, 0))
		*bad_wr = wr;
	if (vb_rq_take_waiting(rq))
		vb_engine_wake_waiters(rq->nic);
	if (__builtin_expect(err, 0))
		explain_receive(rq, wr, err);
	return __builtin_expect(err, 0) ? return_failure("ibv_post_recv", err, bad_wr) : 0;
}

/* Out of line: for a program that a tool watches. */
__attribute__((cold, noinline)) static int
post_receives_watched(struct vb_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	vb_tool_release(rq);
	return append_receives(rq, wr, bad_wr, vb_captured());
}

static int post_receives(struct vb_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	if (vb_is_watched())
		return post_receives_watched(rq, wr, bad_wr);
	return append_receives(rq, wr, bad_wr, false);
}

int vb_ops_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct vb_qp *qp = vb_qp(ibv);
	int err = vb_stale(qp->nic, "ibv_post_recv");

	if (!err && (vb_qp_is_xrc(qp) || vb_qp_state(qp) == IBV_QPS_RESET || qp->srq)) {
		vb_explain("ibv_post_recv: QP 0x%06x %s", ibv->qp_num,
			   vb_qp_is_xrc(qp) ? "is an XRC QP: post to the SRQ"
			   : qp->srq        ? "has an SRQ: post there"
					    : "is in RESET");
		err = -EINVAL;
	}
	if (err) {
		*bad_wr = wr;
		return return_failure("ibv_post_recv", err, bad_wr);
	}
	err = post_receives(qp->rq, wr, bad_wr);
	/* In ERR the receives are flushed at once, and the poller has to learn of them. */
	if (__builtin_expect(vb_qp_state(qp) == IBV_QPS_ERR, 0) &&
	    atomic_load(&qp->receives.flush_ready)) {
		atomic_store(&qp->flush_posted, true);
		atomic_thread_fence(memory_order_seq_cst);
		vb_cq_notify(qp->recv_cq, qp->receives.bit, true);
	}
	return err;
}

int vb_ops_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct vb_srq *srq = vb_srq(ibv);
	int err = vb_stale(srq->rq.nic, "ibv_post_srq_recv");

	if (err) {
		*bad_wr = wr;
		return return_failure("ibv_post_srq_recv", err, bad_wr);
	}
	return post_receives(&srq->rq, wr, bad_wr);
}

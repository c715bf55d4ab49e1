/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Under VERBENA_EXPLAIN: a program polls a CQ for a send that was posted without
 * IBV_SEND_SIGNALED, or another CQ than the one that has the completion. The service thread looks
 * twice a second. A program that polls for an unsignalled send may as well wait for a receive, or
 * for another send: then nothing is said.
 */
#include "engine/quiet.h"

#include "base/config.h"
#include "base/log.h"
#include "exec/reason.h"
#include "nic/ledger.h"
#include "path/complete.h"

enum { LOOK_NS = 500000000 };

static uint32_t tail_of(struct vb_qp *qp)
{
	uint32_t tail;

	vb_spin_lock(&qp->sq.lock);
	tail = qp->sq.tail;
	vb_spin_unlock(&qp->sq.lock);
	return tail;
}

static bool is_done(struct vb_qp *qp)
{
	return tail_of(qp) == (uint32_t)atomic_load(&qp->sq.done);
}

/* The last work requests are done, and no poll will see them: none of them is signalled. */
static bool is_quiet(struct vb_qp *qp)
{
	const uint32_t done = (uint32_t)atomic_load(&qp->sq.done);
	uint32_t i = atomic_load(&qp->sq.retired);

	if (i == done || !is_done(qp))
		return false;
	for (; i != done; i++) {
		const struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, i);

		if (wqe->signaled || wqe->internal || wqe->status != IBV_WC_SUCCESS)
			return false;
	}
	return true;
}

/* Something else may complete at the CQ: a receive, or a send that is not done. */
static bool cq_expects(struct vb_nic *nic, const struct vb_cq *cq)
{
	vb_list_for(srq, &nic->srqs, struct vb_srq, node)
		if (vb_rq_held(&srq->rq))
			return true;
	vb_list_for(qp, &nic->qps, struct vb_qp, node) {
		if (qp->send_cq == cq && !is_done(qp))
			return true;
		if (qp->recv_cq == cq && qp->rq && !qp->srq &&
		    (qp->rq->many ? vb_rq_held(qp->rq)
				  : __atomic_load_n(&qp->rq->tail, __ATOMIC_RELAXED) -
					    (uint32_t)atomic_load(&qp->rq->head)))
			return true;
	}
	return false;
}

static void qp_look(struct vb_nic *nic, struct vb_qp *qp, uint64_t now_ns)
{
	const uint32_t polls = atomic_load(&qp->send_cq->empty_polls), tail = tail_of(qp);
	const bool polled = polls != qp->quiet.polls || atomic_load(&qp->send_cq->shared->armed);
	struct vb_quiet *quiet = &qp->quiet;
	const struct vb_wqe *wqe;

	if (!polled || quiet->tail != tail || !is_quiet(qp)) {
		*quiet = (struct vb_quiet){ .tail = tail, .polls = polls };
		return;
	}
	quiet->polls = polls;
	quiet->since_ns = quiet->since_ns ? quiet->since_ns : now_ns - LOOK_NS;
	if (quiet->told || now_ns - quiet->since_ns < VB_LONG_WAIT_NS ||
	    cq_expects(nic, qp->send_cq))
		return;
	quiet->told = true;
	wqe = vb_sq_wqe(&qp->sq, (uint32_t)atomic_load(&qp->sq.done) - 1);
	vb_explain_note("QP 0x%06x, %s wr_id %llu is done for 1 s, and makes no completion: it was "
			"posted without IBV_SEND_SIGNALED (and sq_sig_all is 0)",
			qp->ibv.qp_num, vb_opcode_words(wqe->opcode),
			(unsigned long long)wqe->wr_id);
}

/* Its number, as other sentences have it. */
static unsigned cq_number(const struct vb_cq *cq)
{
	return (unsigned)(cq->shared_offset / 64);
}

/* A CQ of which polls found nothing since the last look; NULL: there is none. */
static const struct vb_cq *polled_in_vain(struct vb_nic *nic)
{
	vb_list_for(cq, &nic->cqs, struct vb_cq, node)
		if (cq->quiet.polled && !cq->quiet.count)
			return cq;
	return NULL;
}

/* Notes what the CQ holds, and whether threads have polled it since the last look. */
static void cq_look(struct vb_cq *cq, uint64_t now_ns)
{
	const uint32_t polls = atomic_load(&cq->empty_polls);
	struct vb_cq_quiet *quiet = &cq->quiet;
	uint32_t count = 0;

	quiet->polled = polls != quiet->polls;
	quiet->polls = polls;
	if (!vb_spin_try(&cq->poll_lock)) {
		quiet->since_ns = 0;
		return;
	}
	count = vb_cq_waiting(cq) + vb_ledger_count(cq);
	vb_spin_unlock(&cq->poll_lock);
	if (!count || quiet->polled || atomic_load(&cq->shared->armed))
		quiet->since_ns = 0;
	else if (!quiet->since_ns || count < quiet->count)
		quiet->since_ns = now_ns;
	quiet->count = count;
}

/* Completions lie in a CQ for a second while threads poll another one in vain. */
static void cqs_look(struct vb_nic *nic, uint64_t now_ns)
{
	const struct vb_cq *polled;

	vb_list_for(cq, &nic->cqs, struct vb_cq, node)
		cq_look(cq, now_ns);
	polled = polled_in_vain(nic);
	vb_list_for(cq, &nic->cqs, struct vb_cq, node) {
		struct vb_cq_quiet *quiet = &cq->quiet;

		if (!polled || !quiet->since_ns || quiet->told ||
		    now_ns - quiet->since_ns < VB_LONG_WAIT_NS - LOOK_NS)
			continue;
		quiet->told = true;
		vb_explain_note("CQ %u holds %u completion%s for 1 s, and no thread polls it; CQ "
				"%u is polled, and has none",
				cq_number(cq), quiet->count, quiet->count > 1 ? "s" : "",
				cq_number(polled));
	}
}

void vb_quiet_look(struct vb_nic *nic, uint64_t now_ns)
{
	static uint64_t last_ns; /* service thread only */

	if (!vb_config_explain() || now_ns - last_ns < LOOK_NS || pthread_mutex_trylock(&nic->lock))
		return;
	last_ns = now_ns;
	vb_list_for(qp, &nic->qps, struct vb_qp, node)
		if (qp->send_cq && qp->entry)
			qp_look(nic, qp, now_ns);
	cqs_look(nic, now_ns);
	pthread_mutex_unlock(&nic->lock);
}

uint64_t vb_quiet_next_ns(uint64_t now_ns)
{
	return vb_config_explain() ? now_ns + LOOK_NS : VB_NEVER_NS;
}

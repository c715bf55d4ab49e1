/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/adversary.h"

#include <errno.h>
#include <stdio.h>

#include "base/annotate.h"
#include "engine/engine.h"
#include "engine/wire/wire.h"
#include "nic/cq.h"
#include "nic/qp.h"
#include "verbs/adversary.h"
#include "verbs/ops.h"

enum { POST_NS_MAX = 3000000 };

/* --- completions --- */

/* A failure that follows another one tells nothing new. */
static void look_at(uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status)
{
	char why[128];

	if (status == IBV_WC_SUCCESS || status == IBV_WC_WR_FLUSH_ERR)
		return;
	snprintf(why, sizeof(why), "QP 0x%06x wr_id %llu failed (%s)", qpn,
		 (unsigned long long)wr_id, ibv_wc_status_str(status));
	vb_adversary_report_once(why);
}

static int poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
	struct vb_cq *cq = vb_cq(ibv);
	int got;

	if (cq->nic == vb_nic_current() && count > 0 && vb_veil_hides(cq)) {
		vb_cq_lend_a_hand(cq);
		return 0;
	}
	got = vb_ops_poll_cq(ibv, count, wc);
	if (got > 0)
		vb_veil_polled(cq);
	for (int i = 0; i < got; i++)
		look_at(wc[i].qp_num, wc[i].wr_id, wc[i].status);
	return got;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct vb_cq *cq = vb_cq(ibv);

	if (cq->nic != vb_nic_current())
		return vb_ops_req_notify_cq(ibv, solicited_only);
	vb_tell_release(ibv);
	vb_wire_watch(cq->nic, vb_engine_lanes(cq));
	return vb_veil_req_notify(cq, solicited_only);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct vb_cq *cq = vb_container(ex, struct vb_cq, ex);
	int err;

	if (cq->nic == vb_nic_current() && !attr->comp_mask && vb_veil_hides(cq)) {
		vb_cq_lend_a_hand(cq);
		return ENOENT;
	}
	err = cq->start_poll(ex, attr);
	if (!err) {
		vb_veil_polled(cq);
		look_at(ibv_wc_read_qp_num(ex), ex->wr_id, ex->status);
	}
	return err;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct vb_cq *cq = vb_container(ex, struct vb_cq, ex);
	const int err = cq->next_poll(ex);

	if (!err)
		look_at(ibv_wc_read_qp_num(ex), ex->wr_id, ex->status);
	return err;
}

void vb_adversary_take_cq(struct vb_cq *cq, bool extended)
{
	vb_veil_begin(cq);
	if (!extended)
		return;
	cq->start_poll = cq->ex.start_poll;
	cq->ex.start_poll = start_poll;
	cq->next_poll = cq->ex.next_poll;
	cq->ex.next_poll = next_poll;
}

void vb_adversary_saw_event(const struct ibv_async_event *event)
{
	struct vb_qp *qp;

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		qp = vb_qp(event->element.qp);
		if (qp->send_cq)
			vb_veil_end(qp->send_cq);
		if (qp->recv_cq)
			vb_veil_end(qp->recv_cq);
		break;
	default: /* no promise about completions */
		break;
	}
}

/* --- posts --- */

/* The thread loses its CPU after the post: a receive that it posts next comes late. */
static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	const uint64_t wr_id = wr ? wr->wr_id : 0;
	const int err = vb_ops_post_send(ibv, wr, bad_wr);
	uint64_t bits, ns;

	if (err ||
	    !vb_adversary_draws_next(VB_DEED_POST_SLOW, vb_adversary_place(ibv->qp_num), &bits))
		return err;
	ns = vb_adversary_time_ns(bits, POST_NS_MAX);
	vb_adversary_note(VB_DEED_POST_SLOW, ibv->qp_num, wr_id,
			  "ibv_post_send returns %llu us later", (unsigned long long)ns / 1000);
	vb_adversary_pause(ns);
	return 0;
}

void vb_adversary_take_ops(struct ibv_context_ops *ops)
{
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->post_send = post_send;
}

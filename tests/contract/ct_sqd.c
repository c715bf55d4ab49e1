/* SPDX-License-Identifier: BSD-2-Clause */
/* Draining: a send queue in SQD finishes what it has begun and starts nothing new. */
#include "ct.h"

static int to_sqd(const struct ct_qp *qp, bool notify)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify };

	return ct_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

/* Traffic the other way proves that time has passed and receives go on. */
static void sends_pend(struct ct *t)
{
	struct ct_link l, back;

	ct_link_open(t, &l, NULL);
	back = ct_reverse(&l);
	CT_EQ(to_sqd(&l.a, false), 0);
	ct_recv(&l.b, 1, 4096, 256);
	ct_send(&l, 1, 0, 64);
	ct_send(&l, 2, 0, 64);
	ct_usable(&back);
	ct_none(t->near, l.a.scq);
	ct_none(t->far, l.b.rcq);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RTS), 0);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 1, IBV_WC_SUCCESS);
	ct_recv(&l.b, 2, 4096, 256);
	if (l.a.type != IBV_QPT_RC) /* the second may have found no receive */
		return;
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_got(&l, 2, IBV_WC_SUCCESS);
}

static void idle_queue_is_drained_at_once(struct ct *t)
{
	struct ibv_qp_attr attr;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_usable(&l);
	CT_EQ(to_sqd(&l.a, true), 0);
	ct_event(t->near, IBV_EVENT_SQ_DRAINED, l.a.handle);
	CT_EQ(ct_query_qp(&l.a, &attr, NULL), 0);
	CT_EQ(attr.qp_state, IBV_QPS_SQD);
	CT_EQ(attr.sq_draining, 0);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RTS), 0);
	ct_usable(&l);
	ct_no_event(t->near);
}

static void no_event_unasked(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	CT_EQ(to_sqd(&l.a, false), 0);
	ct_no_event(t->near);
}

/* The send has begun, it waits for a receive: it is finished in SQD, and then the event comes. */
static void begun_sends_finish(struct ct *t)
{
	struct ibv_qp_attr attr;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_send(&l, 1, 0, 64);
	CT_EQ(to_sqd(&l.a, true), 0);
	CT_EQ(ct_query_qp(&l.a, &attr, NULL), 0);
	CT_EQ(attr.qp_state, IBV_QPS_SQD);
	CT_EQ(attr.sq_draining, 1);
	ct_no_event(t->near);
	ct_recv(&l.b, 1, 4096, 256);
	ct_got(&l, 1, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_event(t->near, IBV_EVENT_SQ_DRAINED, l.a.handle);
}

/* Programs drain to change a connection under way. A peer on a busy machine answers in time. */
static void attributes_change_while_drained(struct ct *t)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD,
				    .timeout = 19,
				    .retry_cnt = 5,
				    .rnr_retry = 2,
				    .max_rd_atomic = 1 };
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	CT_EQ(to_sqd(&l.a, true), 0);
	ct_event(t->near, IBV_EVENT_SQ_DRAINED, l.a.handle);
	CT_EQ(ct_modify_qp(&l.a, &attr,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC),
	      0);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RTS), 0);
	CT_EQ(ct_query_qp(&l.a, &attr, NULL), 0);
	CT_EQ(attr.timeout, 19);
	CT_EQ(attr.retry_cnt, 5);
	CT_EQ(attr.rnr_retry, 2);
	CT_EQ(attr.max_rd_atomic, 1);
	ct_usable(&l);
}

static void pending_sends_are_flushed(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	CT_EQ(to_sqd(&l.a, false), 0);
	ct_send(&l, 1, 0, 64);
	ct_send(&l, 2, 0, 64);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
	ct_sent(&l, 1, IBV_WC_WR_FLUSH_ERR);
	ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
}

const struct ct_case ct_sqd_cases[] = {
	{ "in SQD sends pend, receives go on, RTS resumes", sends_pend, CT_RC | CT_UC | CT_UD },
	{ "an idle send queue is drained at once", idle_queue_is_drained_at_once,
	  CT_RC | CT_UC | CT_UD },
	{ "SQ_DRAINED comes only if asked for", no_event_unasked, CT_RC },
	{ "in SQD begun sends finish, then SQ_DRAINED comes", begun_sends_finish, CT_RC },
	{ "in SQD the attributes of a connection can change", attributes_change_while_drained,
	  CT_RC },
	{ "SQD to ERR flushes pending sends in post order", pending_sends_are_flushed,
	  CT_RC | CT_UC | CT_UD },
	{ 0 },
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* The error state: everything that was posted completes, in post order, exactly once. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static void receives_in_post_order(struct ct *t)
{
	enum { COUNT = 40 };
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < COUNT; i++)
		ct_recv(&l.b, i, TARGET, 1024);
	for (int i = 0; i < 3; i++) {
		ct_send(&l, i, 0, 64);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	ct_got(&l, 0, IBV_WC_SUCCESS);
	ct_got(&l, 1, IBV_WC_SUCCESS);
	if (t->type != IBV_QPT_RC)
		ct_got(&l, 2, IBV_WC_SUCCESS); /* a success of an unreliable send is no arrival */
	CT_EQ(ct_to_state(&l.b, IBV_QPS_ERR), 0);
	if (t->type == IBV_QPT_RC)
		ct_got(&l, 2, IBV_WC_SUCCESS); /* arrived before: stays a success */
	for (int i = 3; i < COUNT; i++) {
		struct ibv_wc wc = ct_got(&l, i, IBV_WC_WR_FLUSH_ERR);

		CT_EQ(wc.qp_num, l.b.qpn);
	}
	ct_none(t->far, l.b.rcq);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_ERR);
	ct_no_event(t->far);
}

/* The sends are held up by the missing receive; every other one is unsignalled. */
static void sends_in_post_order(struct ct *t)
{
	enum { COUNT = 40 };
	struct ibv_sge sge = ct_sge(t->near, 0, 64);
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < COUNT; i++) {
		struct ibv_send_wr wr =
			ct_wr(&l, i % 3 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, i, &sge, 1);

		if (i == 0)
			wr.opcode = IBV_WR_SEND;
		wr.send_flags = i % 2 ? IBV_SEND_SIGNALED : 0;
		ct_post(&l.a, &wr);
	}
	CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
	for (int i = 0; i < COUNT; i++)
		ct_sent(&l, i, IBV_WC_WR_FLUSH_ERR);
	ct_none(t->near, l.a.scq);
	ct_none(t->far, l.b.rcq);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_RTS); /* the peer does not notice by itself */
}

static void posts_in_err_are_flushed(struct ct *t)
{
	struct ibv_sge sge = ct_sge(t->near, 0, 64);
	struct ibv_send_wr wr;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_recv(&l.a, 1, TARGET, 1024);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
	for (int i = 2; i < 30; i++) {
		ct_recv(&l.a, i, TARGET, 1024);
		wr = ct_wr(&l, IBV_WR_SEND, i, &sge, 1);
		wr.send_flags = 0;
		ct_post(&l.a, &wr);
	}
	for (int i = 1; i < 30; i++)
		ct_expect(t->near, l.a.rcq, i, IBV_WC_WR_FLUSH_ERR);
	for (int i = 2; i < 30; i++)
		ct_sent(&l, i, IBV_WC_WR_FLUSH_ERR);
	ct_recv(&l.a, 40, TARGET, 1024); /* and so on */
	ct_expect(t->near, l.a.rcq, 40, IBV_WC_WR_FLUSH_ERR);
}

static void flush_from_init(struct ct *t)
{
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	ct_init(&l.a);
	for (int i = 0; i < 5; i++)
		ct_recv(&l.a, i, TARGET, 1024);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
	for (int i = 0; i < 5; i++)
		ct_expect(t->near, l.a.rcq, i, IBV_WC_WR_FLUSH_ERR);
}

/* A flushed queue does not deliver: what the peer sends now goes nowhere. */
static void nothing_arrives_in_err(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.timeout = 10;
	o.retry_cnt = 1;
	ct_link_open(t, &l, &o);
	ct_fill(t->far, TARGET, 1024, 1);
	ct_recv(&l.b, 1, TARGET, 1024);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_ERR), 0);
	ct_send(&l, 2, 0, 64);
	ct_sent(&l, 2, t->type == IBV_QPT_RC ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
	ct_got(&l, 1, IBV_WC_WR_FLUSH_ERR);
	ct_same(t->far, TARGET, 1024, 1);
}

/* The receives of an SRQ belong to all its QPs: they stay; an event says that none is in use. */
static void srq_receives_are_not_flushed(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l1, l2;

	o.srq_b = ct_create_srq(t->far, t->far->pd, 16, 1);
	ct_link_open(t, &l1, &o);
	ct_link_open(t, &l2, &o);
	for (int i = 0; i < 4; i++)
		ct_recv(&l1.b, i, TARGET + i * 1024, 1024);
	CT_EQ(ct_to_state(&l1.b, IBV_QPS_ERR), 0);
	ct_event(t->far, IBV_EVENT_QP_LAST_WQE_REACHED, l1.b.handle);
	ct_none(t->far, l1.b.rcq);
	for (int i = 0; i < 4; i++) {
		ct_send(&l2, i, 0, 64);
		ct_sent(&l2, i, IBV_WC_SUCCESS);
		CT_EQ(ct_got(&l2, i, IBV_WC_SUCCESS).qp_num, l2.b.qpn);
	}
	ct_no_event(t->far);
}

/* The same when the error comes from a request: first the event of the error, then the last WQE. */
static void srq_after_a_bad_request(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr;
	struct ct_link l1, l2;
	enum ibv_event_type type;
	int seen = 0, handle;

	o.srq_b = ct_create_srq(t->far, t->far->pd, 16, 1);
	ct_link_open(t, &l1, &o);
	ct_link_open(t, &l2, &o);
	ct_recv(&l1.b, 5, TARGET, 1024);
	wr = ct_wr(&l1, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	wr.wr.rdma.rkey ^= 0x100;
	ct_post(&l1.a, &wr);
	ct_sent(&l1, 1, IBV_WC_REM_ACCESS_ERR);
	for (int i = 0; i < 2; i++) {
		CT_TRUE(ct_get_async_event(t->far, CT_DEADLINE_MS, &type, &handle));
		CT_EQ(handle, l1.b.handle);
		seen |= type == IBV_EVENT_QP_ACCESS_ERR ? 1 : 0;
		seen |= type == IBV_EVENT_QP_LAST_WQE_REACHED ? 2 : 0;
	}
	CT_EQ(seen, 3);
	ct_send(&l2, 2, 0, 64);
	ct_sent(&l2, 2, IBV_WC_SUCCESS);
	ct_got(&l2, 5, IBV_WC_SUCCESS);
}

/* Both ends fail together, and each flushes its own. */
static void both_ends(struct ct *t)
{
	struct ct_link l, back;

	ct_link_open(t, &l, NULL);
	back = ct_reverse(&l);
	ct_recv(&l.a, 1, TARGET, 16);
	ct_recv(&l.a, 2, TARGET, 16);
	ct_recv(&l.b, 3, TARGET, 16);
	ct_recv(&l.b, 4, TARGET, 16);
	ct_send(&l, 5, 0, 17); /* too long for the receive */
	ct_sent(&l, 5, IBV_WC_REM_INV_REQ_ERR);
	ct_got(&l, 3, IBV_WC_LOC_LEN_ERR);
	ct_got(&l, 4, IBV_WC_WR_FLUSH_ERR);
	ct_got(&back, 1, IBV_WC_WR_FLUSH_ERR);
	ct_got(&back, 2, IBV_WC_WR_FLUSH_ERR);
	ct_send(&l, 6, 0, 8);
	ct_sent(&l, 6, IBV_WC_WR_FLUSH_ERR);
	ct_send(&back, 7, 0, 8);
	ct_sent(&back, 7, IBV_WC_WR_FLUSH_ERR);
}

/* Where sends and receives complete at one CQ, the cause comes before its consequences. */
static void the_cause_comes_first(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);

	o.scq_a = o.rcq_a = ct_create_cq(t->near, 16, 0);
	for (int i = 0; i < 100; i++) {
		struct ibv_sge sge = ct_sge(t->near, 0, 64);
		struct ibv_send_wr wr;
		struct ct_link l;

		ct_link_open(t, &l, &o);
		ct_recv(&l.a, 1, TARGET, 64);
		wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 2, &sge, 1);
		ct_aim(&wr, t->far->mr.addr, t->far->mr.rkey ^ 1);
		ct_post(&l.a, &wr);
		ct_expect(t->near, o.scq_a, 2, IBV_WC_REM_ACCESS_ERR);
		ct_expect(t->near, o.scq_a, 1, IBV_WC_WR_FLUSH_ERR);
		CT_EQ(ct_destroy(t->near, l.a.handle), 0);
		CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	}
}

#define ALL (CT_RC | CT_UC | CT_UD)

const struct ct_case ct_err_flush_cases[] = {
	{ "a flushed QP completes receives in post order", receives_in_post_order, ALL | CT_IB },
	{ "a flushed QP completes sends in post order, unsignalled ones too", sends_in_post_order,
	  CT_RC },
	{ "posts in ERR are accepted and flushed behind the others", posts_in_err_are_flushed,
	  ALL },
	{ "receives posted in INIT are flushed by ERR", flush_from_init, ALL },
	{ "nothing arrives at a QP in ERR", nothing_arrives_in_err, ALL },
	{ "receives of an SRQ are not flushed, LAST_WQE_REACHED says so",
	  srq_receives_are_not_flushed, CT_RC },
	{ "a refused request at a QP with SRQ raises its event and LAST_WQE_REACHED",
	  srq_after_a_bad_request, CT_RC },
	{ "an error flushes both ends, each its own", both_ends, CT_RC },
	{ "what failed is polled before what it flushes", the_cause_comes_first, CT_RC },
	{ 0 },
};

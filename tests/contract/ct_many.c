/* SPDX-License-Identifier: BSD-2-Clause */
/* Many QPs, shared CQs, a QP connected to itself. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

enum { MANY = 70 }; /* more than the bits of a word */

static void many_qps_on_one_cq(struct ct *t)
{
	static struct ct_link l[MANY];
	struct ct_opts o = ct_defaults(t);
	bool seen[MANY] = { false };

	o.cap.max_send_wr = o.cap.max_recv_wr = 4;
	for (int i = 0; i < MANY; i++) {
		ct_link_open(t, &l[i], &o);
		ct_recv(&l[i].b, i, TARGET + i * 1024, 1024);
	}
	ct_fill(t->near, 0, 4096, 0);
	for (int i = 0; i < MANY; i++)
		ct_send(&l[i * 37 % MANY], i * 37 % MANY, 0, 1 + i * 37 % MANY * 5);
	for (int i = 0; i < MANY; i++) {
		struct ibv_wc wc = ct_wait(t->far, t->far->rcq);

		CT_EQ(wc.status, IBV_WC_SUCCESS);
		CT_TRUE(wc.wr_id < MANY && !seen[wc.wr_id]);
		seen[wc.wr_id] = true;
		CT_EQ(wc.qp_num, l[wc.wr_id].b.qpn);
		CT_EQ(wc.byte_len, ct_headroom(&l[0]) + 1 + wc.wr_id * 5);
		ct_same(t->far, TARGET + wc.wr_id * 1024 + ct_headroom(&l[0]), 1 + wc.wr_id * 5, 0);
		CT_EQ(ct_wait(t->near, t->near->scq).status, IBV_WC_SUCCESS);
	}
	ct_none(t->far, t->far->rcq);
}

/* One of many active, again and again: the CQ finds it among the idle ones. */
static void one_busy_among_many(struct ct *t)
{
	static struct ct_link l[MANY];
	struct ct_opts o = ct_defaults(t);

	o.cap.max_send_wr = o.cap.max_recv_wr = 4;
	for (int i = 0; i < MANY; i++)
		ct_link_open(t, &l[i], &o);
	for (int k = 0; k < 200; k++) {
		struct ct_link *busy = &l[k * 13 % MANY];

		ct_recv(&busy->b, k, TARGET, 1024);
		ct_send(busy, k, 0, 16);
		CT_EQ(ct_got(busy, k, IBV_WC_SUCCESS).qp_num, busy->b.qpn);
		CT_EQ(ct_sent(busy, k, IBV_WC_SUCCESS).qp_num, busy->a.qpn);
	}
}

/* RC to itself: one QP is both ends. */
static void to_itself(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct self = *t;
	struct ct_link l;

	self.far = t->near;
	ct_link_create(&self, &l, &o);
	l.b = l.a;
	ct_init(&l.a);
	ct_rtr(&l.a, &l.a, &o);
	ct_rts(&l.a, &o);
	ct_fill(t->near, 0, 500, 1);
	ct_recv(&l.a, 1, TARGET, 500);
	ct_send(&l, 2, 0, 500);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_got(&l, 1, IBV_WC_SUCCESS);
	ct_same(t->near, TARGET, 500, 1);
	if (l.a.type != IBV_QPT_RC)
		return;
	struct ibv_sge sge = ct_sge(t->near, 8192, 500);
	struct ibv_send_wr wr = ct_wr(&l, IBV_WR_RDMA_READ, 3, &sge, 1);

	ct_aim(&wr, t->near->mr.addr + TARGET, t->near->mr.rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 3, IBV_WC_SUCCESS);
	ct_same(t->near, 8192, 500, 1);
}

/* Two QPs of one context. */
static void within_one_context(struct ct *t)
{
	struct ct self = *t;
	struct ct_link l;

	self.near = t->far;
	ct_link_open(&self, &l, NULL);
	ct_usable(&l);
	struct ct_link back = ct_reverse(&l);

	ct_usable(&back);
}

/* The same pair of ends, several connections: each has its own receives. */
static void connections_are_independent(struct ct *t)
{
	struct ct_link l1, l2;

	ct_link_open(t, &l1, NULL);
	ct_link_open(t, &l2, NULL);
	ct_recv(&l1.b, 1, TARGET, 256);
	ct_recv(&l2.b, 2, TARGET + 4096, 256);
	ct_fill(t->near, 0, 100, 1);
	ct_send(&l2, 2, 0, 100);
	ct_sent(&l2, 2, IBV_WC_SUCCESS);
	ct_got(&l2, 2, IBV_WC_SUCCESS);
	ct_same(t->far, TARGET + 4096 + ct_headroom(&l1), 100, 1);
	ct_none(t->far, l1.b.rcq);
	ct_send(&l1, 1, 0, 100);
	ct_sent(&l1, 1, IBV_WC_SUCCESS);
	ct_got(&l1, 1, IBV_WC_SUCCESS);
}

const struct ct_case ct_many_cases[] = {
	{ "70 QPs share one CQ", many_qps_on_one_cq, CT_RC | CT_UC | CT_UD },
	{ "one busy QP among 70 idle ones is served", one_busy_among_many, CT_RC | CT_UD },
	{ "a QP can be connected to itself", to_itself, CT_RC | CT_UC | CT_IB },
	{ "two QPs of one context can be connected", within_one_context, CT_RC | CT_UC | CT_UD },
	{ "connections between the same ends are independent", connections_are_independent,
	  CT_RC | CT_UC | CT_UD },
	{ 0 },
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends of lives: RESET, destroy, dereg, and starting again. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static void exchange(struct ct_link *l, int count)
{
	for (int i = 0; i < count; i++) {
		ct_recv(&l->b, i, TARGET + i * 1024, 1024);
		ct_send(l, i, 0, 16);
	}
}

/* Arrived, not polled: a message on another link came after them. */
static void settle(struct ct_link *l, struct ct_link *other, int count)
{
	exchange(l, count);
	ct_recv(&other->b, 77, TARGET + (1 << 20), 1024);
	ct_send(other, 78, 0, 16);
	ct_expect(other->b.end, other->b.rcq, 77, IBV_WC_SUCCESS);
	ct_expect(other->a.end, other->a.scq, 78, IBV_WC_SUCCESS);
}

static void open_two(struct ct *t, struct ct_link *l, struct ct_link *other)
{
	struct ct_opts o = ct_defaults(t);

	ct_link_open(t, l, &o);
	o.rcq_b = ct_create_cq(t->far, 16, 0);
	o.scq_a = ct_create_cq(t->near, 16, 0);
	ct_link_open(t, other, &o);
}

static void reset_purges_completions(struct ct *t)
{
	struct ct_link l, other;

	open_two(t, &l, &other);
	settle(&l, &other, 5);
	ct_got(&l, 0, IBV_WC_SUCCESS);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
	ct_none(t->far, l.b.rcq);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	ct_none(t->near, l.a.scq);
	ct_usable(&other);
}

static void destroy_purges_completions(struct ct *t)
{
	struct ct_link l, other;

	open_two(t, &l, &other);
	settle(&l, &other, 5);
	CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	ct_none(t->far, l.b.rcq);
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	ct_none(t->near, l.a.scq);
	ct_usable(&other);
}

/* Completions of other QPs in the same CQ stay. */
static void destroy_purges_its_own_only(struct ct *t)
{
	struct ct_link l1, l2;

	ct_link_open(t, &l1, NULL);
	ct_link_open(t, &l2, NULL);
	exchange(&l2, 3);
	exchange(&l1, 3);
	for (int i = 0; i < 6; i++) /* all have been executed */
		CT_EQ(ct_wait(t->near, t->near->scq).status, IBV_WC_SUCCESS);
	CT_EQ(ct_destroy(t->far, l1.b.handle), 0);
	for (int i = 0; i < 3; i++)
		CT_EQ(ct_got(&l2, i, IBV_WC_SUCCESS).qp_num, l2.b.qpn);
	ct_none(t->far, l2.b.rcq);
}

static void receives_are_gone_after_reset(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 5; i++)
		ct_recv(&l.b, i, TARGET, 1024);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	ct_link_connect(&l);
	ct_recv(&l.b, 50, TARGET, 1024);
	ct_send(&l, 1, 0, 16);
	ct_got(&l, 50, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
}

/* What has arrived is in its buffer when dereg_mr returns, and nothing is written later. */
static void dereg_settles(struct ct *t)
{
	static const uint32_t sizes[] = { 1, 8, 28, 29, 64, 200, 256, 257, 1000 };

	for (int i = 0; i < CT_COUNT(sizes); i++) {
		struct ct_link l;
		struct ct_mr mr;
		struct ibv_sge sge;
		struct ibv_recv_wr recv, *bad;

		ct_link_open(t, &l, NULL);
		CT_TRUE(ct_reg_mr(t->far, t->far->pd, TARGET, 4096, CT_ACCESS_ALL, &mr) > 0);
		sge = (struct ibv_sge){ .addr = mr.addr, .length = 2048, .lkey = mr.lkey };
		recv = (struct ibv_recv_wr){ .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
		CT_EQ(ct_post_recv(&l.b, &recv, &bad), 0);
		ct_fill(t->near, 0, sizes[i], i);
		ct_send(&l, 2, 0, sizes[i]);
		ct_sent(&l, 2, IBV_WC_SUCCESS); /* RC: it has arrived */
		CT_EQ(ct_destroy(t->far, mr.handle), 0);
		ct_same(t->far, TARGET + ct_headroom(&l), sizes[i], i);
		ct_fill(t->far, TARGET, 4096, 99); /* the program reuses its memory */
		CT_EQ(ct_got(&l, 1, IBV_WC_SUCCESS).byte_len, ct_headroom(&l) + sizes[i]);
		ct_same(t->far, TARGET, 4096, 99);
	}
}

static void destroy_settles(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_recv(&l.b, 1, TARGET, 1024);
	ct_send(&l, 2, 0, 64);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	ct_fill(t->far, TARGET, 4096, 99);
	ct_none(t->far, l.b.rcq);
	ct_same(t->far, TARGET, 4096, 99);
}

static void restart(struct ct_link *l)
{
	CT_EQ(ct_to_state(&l->a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l->b, IBV_QPS_RESET), 0);
	l->a.psn = (l->a.psn + 1000) & 0xffffff;
	l->b.psn = (l->b.psn + 2000) & 0xffffff;
	ct_link_connect(l);
}

static void reconnect(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 10; i++) {
		ct_usable(&l);
		ct_recv(&l.b, i, TARGET, 1024);
		CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
		CT_EQ(ct_to_state(&l.b, IBV_QPS_ERR), 0);
		ct_got(&l, i, IBV_WC_WR_FLUSH_ERR);
		restart(&l);
	}
	ct_usable(&l);
}

static void reconnect_without_err(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 10; i++) {
		ct_usable(&l);
		restart(&l);
	}
	ct_usable(&l);
}

enum { BURST = 3, BUSY_POLLS = 3000 };

/* While a program polls all the time, packets wait for it to take them in. */
static void poll_busily(struct ct *t, const struct ct_link *l)
{
	struct ibv_wc wc;

	for (int i = 0; i < BUSY_POLLS; i++)
		ct_poll_cq(t->near, l->a.scq, 1, 0, &wc);
}

static void send_burst(struct ct_link *l)
{
	for (int i = 0; i < BURST; i++)
		ct_send(l, i, 0, 8);
}

static void receive_burst(struct ct_link *l)
{
	for (int i = 0; i < BURST; i++)
		ct_recv(&l->b, i, TARGET, 1024);
}

static void burst_is_over(struct ct_link *l)
{
	for (int i = 0; i < BURST; i++) {
		ct_got(l, i, IBV_WC_SUCCESS);
		ct_sent(l, i, IBV_WC_SUCCESS);
	}
}

/* The PSNs are the same: an ACK of the first connection would fit the second one. */
static void reconnect_with_the_same_psns(struct ct *t)
{
	struct ct_link l;

	if (ct_by_packets() && t->two_processes)
		ct_skip("packets may be on their way through a third process");
	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 5; i++) {
		receive_burst(&l);
		send_burst(&l);
		burst_is_over(&l);
		poll_busily(t, &l);
		CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
		CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
		ct_link_connect(&l);
		send_burst(&l);
		ct_none(t->near, l.a.scq);
		receive_burst(&l);
		burst_is_over(&l);
	}
}

/* A QP finds another partner. */
static void connect_to_somebody_else(struct ct *t)
{
	struct ct_link l1, l2, cross;

	ct_link_open(t, &l1, NULL);
	ct_link_open(t, &l2, NULL);
	ct_usable(&l1);
	ct_usable(&l2);
	CT_EQ(ct_to_state(&l1.a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l2.b, IBV_QPS_RESET), 0);
	cross = l1;
	cross.b = l2.b;
	cross.ah_b = l2.ah_b;
	ct_link_connect(&cross);
	ct_usable(&cross);
}

/* The far end of a connection is replaced by a new QP. */
static void peer_is_replaced(struct ct *t)
{
	struct ct_link l, fresh;

	ct_link_open(t, &l, NULL);
	ct_usable(&l);
	CT_EQ(ct_destroy(t->far, l.b.handle), 0);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	ct_link_create(t, &fresh, NULL);
	fresh.a = l.a;
	ct_link_connect(&fresh);
	ct_usable(&fresh);
}

const struct ct_case ct_life_cases[] = {
	{ "RESET purges the unpolled completions of the QP", reset_purges_completions,
	  CT_RC | CT_UC | CT_UD },
	{ "destroy_qp purges the unpolled completions of the QP", destroy_purges_completions,
	  CT_RC | CT_UC | CT_UD },
	{ "destroy_qp leaves the completions of other QPs", destroy_purges_its_own_only,
	  CT_RC | CT_UD },
	{ "RESET forgets posted receives", receives_are_gone_after_reset, CT_RC | CT_UC | CT_UD },
	{ "dereg_mr leaves arrived data in place and nothing is written after it", dereg_settles,
	  CT_RC },
	{ "nothing is written after destroy_qp", destroy_settles, CT_RC },
	{ "a connection can be made again after ERR", reconnect, CT_RC | CT_UC | CT_UD | CT_IB },
	{ "a connection can be made again after RESET", reconnect_without_err,
	  CT_RC | CT_UC | CT_UD },
	{ "ACKs of a connection mean nothing to the next one with the same PSNs",
	  reconnect_with_the_same_psns, CT_RC },
	{ "a QP can be connected to another QP", connect_to_somebody_else, CT_RC | CT_UC },
	{ "the peer of a connection can be replaced", peer_is_replaced, CT_RC | CT_UC },
	{ 0 },
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* A CQ is a FIFO: what completed first is polled first, whichever queue it completed in. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

enum { LINKS_MAX = 24, MESSAGES = 60, ROOM = 256 };

struct fifo {
	struct ct *t;
	struct ct_link l[LINKS_MAX];
	int links, cq;
	uint32_t draws;
	uint64_t ids[2 * MESSAGES]; /* of what completed at cq, in this order */
	int count;
};

static uint32_t draw(struct fifo *f, uint32_t below)
{
	f->draws = f->draws * 1103515245 + 12345;
	return (f->draws >> 16) % below;
}

static void add(struct fifo *f, struct ct_opts *o)
{
	o->rcq_b = f->cq;
	ct_link_open(f->t, &f->l[f->links++], o);
}

/* The message has arrived when its send completes, and only then the next one is sent. */
static void deliver(struct fifo *f, struct ct_link *l, uint32_t size)
{
	uint64_t id = f->count;

	if (!l->b.srq)
		ct_recv(&l->b, id, TARGET + id * 1024, 1024);
	ct_send(l, id, 0, size);
	ct_sent(l, id, IBV_WC_SUCCESS);
	f->ids[f->count++] = l->b.srq ? l->b.qpn : id;
}

static void deliver_some(struct fifo *f, int messages)
{
	static const uint32_t sizes[] = { 8, 20, 100, 900 };

	for (int i = 0; i < messages; i++)
		deliver(f, &f->l[draw(f, f->links)], sizes[draw(f, CT_COUNT(sizes))]);
}

/* Several at a time: one poll may bring completions of several queues. */
static void polled_in_order(struct fifo *f)
{
	struct ibv_wc wc[2 * MESSAGES];

	for (int at = 0, got; at < f->count; at += got) {
		got = 1 + (int)draw(f, 7);
		got = got < f->count - at ? got : f->count - at;
		CT_EQ(ct_poll_cq(f->t->far, f->cq, got, CT_DEADLINE_MS, wc), got);
		for (int i = 0; i < got; i++) {
			CT_EQ(wc[i].status, IBV_WC_SUCCESS);
			CT_EQ(wc[i].wr_id < ROOM ? wc[i].wr_id : wc[i].qp_num, f->ids[at + i]);
		}
	}
	f->count = 0;
	ct_none(f->t->far, f->cq);
}

static void begin(struct fifo *f, struct ct *t, int cqe)
{
	*f = (struct fifo){ .t = t, .draws = 1 };
	f->cq = ct_create_cq(t->far, cqe, 0);
}

static void receives_of(struct ct *t, int links)
{
	struct ct_opts o = ct_defaults(t);
	struct fifo f;

	begin(&f, t, CT_CQE);
	while (f.links < links)
		add(&f, &o);
	for (int round = 0; round < 4; round++) {
		deliver_some(&f, MESSAGES);
		polled_in_order(&f);
	}
}

static void of_two_qps(struct ct *t)
{
	receives_of(t, 2);
}

static void of_few_qps(struct ct *t)
{
	receives_of(t, 7);
}

static void of_many_qps(struct ct *t)
{
	receives_of(t, LINKS_MAX);
}

static void post_shared(struct fifo *f, int srq, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_sge sge = ct_sge(f->t->far, TARGET + i * 1024, 1024);
		struct ibv_recv_wr recv = { .wr_id = ROOM + i, .sg_list = &sge, .num_sge = 1 },
				   *bad;

		CT_EQ(ct_post_srq_recv(f->t->far, srq, &recv, &bad), 0);
	}
}

/* QPs with an SRQ, with another one, and with receives of their own. */
static void of_srqs(struct ct *t)
{
	int srq[2] = { ct_create_srq(t->far, t->far->pd, 128, 1),
		       ct_create_srq(t->far, t->far->pd, 128, 1) };
	struct ct_opts o = ct_defaults(t);
	struct fifo f;

	begin(&f, t, CT_CQE);
	for (int i = 0; i < 9; i++) {
		o.srq_b = i % 3 < 2 ? srq[i % 3] : 0;
		add(&f, &o);
	}
	for (int round = 0; round < 2; round++) {
		post_shared(&f, srq[0], 60);
		post_shared(&f, srq[1], 60);
		deliver_some(&f, MESSAGES);
		polled_in_order(&f);
	}
}

/* A CQ with one queue gets another one while completions wait. */
static void of_qps_that_come_late(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct fifo f;

	begin(&f, t, CT_CQE);
	while (f.links < 20) {
		add(&f, &o);
		deliver_some(&f, 3);
	}
	polled_in_order(&f);
}

static void after_resize_and_destroy(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct fifo f;

	begin(&f, t, 200);
	while (f.links < 12)
		add(&f, &o);
	deliver_some(&f, MESSAGES);
	CT_EQ(ct_resize_cq(t->far, f.cq, 400), 0);
	deliver_some(&f, MESSAGES);
	polled_in_order(&f);
	while (f.links > 3) {
		struct ct_link *last = &f.l[--f.links];

		CT_EQ(ct_destroy(t->far, last->b.handle), 0);
		CT_EQ(ct_destroy(t->near, last->a.handle), 0);
		deliver_some(&f, 5);
		polled_in_order(&f);
	}
}

/*
 * The first send of a link may wait for the peer. A thread of the library then executes it, and the
 * peer may see the message before that thread has completed the send.
 */
static void open_both_ways(struct fifo *f, struct ct_opts *o)
{
	struct ct_link *l = &f->l[f->links], back;

	add(f, o);
	back = ct_reverse(l);
	ct_recv(&l->a, 7, 1 << 20, 1024);
	ct_send(&back, 8, 0, 8);
	ct_expect(f->t->near, l->a.rcq, 7, IBV_WC_SUCCESS);
	ct_expect(f->t->far, f->cq, 8, IBV_WC_SUCCESS);
}

/*
 * On one host the posting thread executes later sends, and a send has completed when the post
 * returns: its place among the receives is known.
 */
static void sends_among_receives(struct ct *t, int links)
{
	struct ct_opts o = ct_defaults(t);
	struct fifo f;

	if (ct_by_packets())
		ct_skip("an ACK may be later than what the peer sends after the message");
	begin(&f, t, CT_CQE);
	o.scq_b = f.cq;
	while (f.links < links)
		open_both_ways(&f, &o);
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < MESSAGES; i++) {
			struct ct_link *l = &f.l[draw(&f, f.links)], back = ct_reverse(l);

			if (draw(&f, 2)) {
				deliver(&f, l, 8);
				continue;
			}
			ct_recv(&l->a, 7, 1 << 20, 1024);
			ct_send(&back, f.count, 0, 8);
			ct_expect(t->near, l->a.rcq, 7, IBV_WC_SUCCESS);
			f.ids[f.count] = f.count;
			f.count++;
		}
		polled_in_order(&f);
	}
}

static void sends_of_one_qp(struct ct *t)
{
	sends_among_receives(t, 1);
}

static void sends_of_some_qps(struct ct *t)
{
	sends_among_receives(t, 3);
}

static void sends_of_many_qps(struct ct *t)
{
	sends_among_receives(t, LINKS_MAX);
}

/* A second QP comes while sends and receives of the first wait. */
static void sends_when_a_qp_comes_late(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link back;
	struct fifo f;

	if (ct_by_packets())
		ct_skip("an ACK may be later than what the peer sends after the message");
	begin(&f, t, CT_CQE);
	o.scq_b = f.cq;
	open_both_ways(&f, &o);
	back = ct_reverse(&f.l[0]);
	for (int i = 0; i < 10; i++) {
		deliver(&f, &f.l[0], 8);
		ct_recv(&f.l[0].a, 7, 1 << 20, 1024);
		ct_send(&back, f.count, 0, 8);
		ct_expect(t->near, f.l[0].a.rcq, 7, IBV_WC_SUCCESS);
		f.ids[f.count] = f.count;
		f.count++;
		if (i == 5)
			add(&f, &o);
		if (i >= 5)
			deliver(&f, &f.l[1], 8);
	}
	polled_in_order(&f);
}

/* Completions with times are in the order of the times, and of what happened. */
/* Completions wait in several queues, and receives of one are flushed behind them. */
static void polls_bring_no_more_than_asked_for(struct ct *t)
{
	enum { LINKS = 4, BEFORE = 24, FLUSHED = 5 };
	struct ct_opts o = ct_defaults(t);
	struct ibv_wc wc;
	struct fifo f;

	begin(&f, t, 4 * BEFORE);
	for (int i = 0; i < LINKS; i++)
		add(&f, &o);
	deliver_some(&f, BEFORE);
	for (int i = 0; i < LINKS; i++)
		deliver(&f, &f.l[i], 8);
	for (int i = 0; i < FLUSHED; i++)
		ct_recv(&f.l[0].b, ROOM, TARGET, 8);
	CT_EQ(ct_to_state(&f.l[0].b, IBV_QPS_ERR), 0);
	for (int at = 0; at < BEFORE + LINKS; at++) {
		CT_EQ(ct_poll_cq(t->far, f.cq, 1, CT_DEADLINE_MS, &wc), 1);
		CT_EQ(wc.wr_id, f.ids[at]);
		CT_EQ(wc.status, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < FLUSHED; i++) {
		CT_EQ(ct_poll_cq(t->far, f.cq, 1, CT_DEADLINE_MS, &wc), 1);
		CT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	ct_none(t->far, f.cq);
}

static void with_times(struct ct *t)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = CT_CQE,
					    .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ct_context(t->near), &attr);
	struct ct_opts o = ct_defaults(t);
	struct ct_link l[4];
	uint64_t last = 0;

	CT_TRUE(cq != NULL);
	o.rcq_a = ct_adopt_cq(t->near, ibv_cq_ex_to_cq(cq));
	for (int i = 0; i < CT_COUNT(l); i++) {
		ct_link_open(t, &l[i], &o);
		l[i] = ct_reverse(&l[i]);
	}
	for (int i = 0; i < MESSAGES; i++) {
		struct ct_link *to = &l[i * 7 % 5 % CT_COUNT(l)];

		ct_recv(&to->b, i, TARGET, 64);
		ct_send(to, i, 0, 8);
		ct_sent(to, i, IBV_WC_SUCCESS);
	}
	CT_EQ(ct_start_poll(cq, &poll), 0);
	for (int i = 0; i < MESSAGES; i++) {
		CT_EQ(cq->wr_id, i);
		CT_TRUE(ibv_wc_read_completion_ts(cq) >= last);
		last = ibv_wc_read_completion_ts(cq);
		if (i + 1 < MESSAGES)
			CT_EQ(ibv_next_poll(cq), 0);
	}
	ibv_end_poll(cq);
}

const struct ct_case ct_fifo_cases[] = {
	{ "a CQ polls receives of two QPs in the order of their completion", of_two_qps, CT_RC },
	{ "a CQ polls receives of few QPs in the order of their completion", of_few_qps,
	  CT_RC | CT_IB },
	{ "a CQ polls receives of many QPs in the order of their completion", of_many_qps, CT_RC },
	{ "a CQ polls receives of SRQs in the order of their completion", of_srqs, CT_RC },
	{ "a CQ keeps the order when QPs come while completions wait", of_qps_that_come_late,
	  CT_RC },
	{ "a CQ keeps the order when it is resized and QPs go", after_resize_and_destroy, CT_RC },
	{ "a CQ polls the sends and receives of one QP in order", sends_of_one_qp, CT_RC },
	{ "a CQ polls the sends and receives of some QPs in order", sends_of_some_qps, CT_RC },
	{ "a CQ polls the sends and receives of many QPs in order", sends_of_many_qps, CT_RC },
	{ "a CQ keeps the order of one QP when another one comes", sends_when_a_qp_comes_late,
	  CT_RC },
	{ "a CQ with times polls in the order of the times", with_times, CT_RC },
	{ "polls bring no more than was asked for, flushed receives included",
	  polls_bring_no_more_than_asked_for, CT_RC },
	{ 0 },
};

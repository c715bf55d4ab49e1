/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A NIC works by itself. A program that sends datagrams all the time, so that its polls always find
 * something, hears of its other connections as soon as any other program does.
 */
#include "ct.h"

enum {
	TIMEOUT = 12, /* 16.8 ms ... */
	RETRIES = 7,  /* ... eight times */
	BATCH = 8,
	POSTS_MANY = 100000,
	SECONDS_MANY = 10, /* a program that posts so much for so long has waited in vain */
};

struct noise {
	struct ct_link victim, sink; /* nobody answers; nobody listens */
	int cq;                      /* of the noise; the victim has it as well, or its own */
	struct ibv_cq_ex *ex;        /* the victim's, if it is an extended one */
	long posts;
	double start_s;
};

static void open_near(struct ct *t, struct ct_link *l, struct ct_opts *o)
{
	ct_link_create(t, l, o);
	ct_init(&l->a);
	ct_rtr(&l->a, &l->b, o);
	ct_rts(&l->a, o);
}

static void open_noise(struct ct *t, struct noise *n, int victim_cq)
{
	struct ct_opts o = ct_defaults(t);

	n->start_s = ct_now_s();
	o.timeout = TIMEOUT;
	o.retry_cnt = RETRIES;
	o.scq_a = victim_cq;
	open_near(t, &n->victim, &o);
	o.type = IBV_QPT_UC;
	o.scq_a = n->cq;
	open_near(t, &n->sink, &o);
}

static void make_noise(struct noise *n)
{
	struct ibv_sge sge = ct_sge(n->sink.a.end, 0, 500);
	struct ibv_send_wr *bad, wr = ct_wr(&n->sink, IBV_WR_SEND, 7, &sge, 1);

	for (int i = 0; i < BATCH; i++)
		n->posts += !ibv_post_send(ct_object(n->sink.a.end, n->sink.a.handle), &wr, &bad);
	if (n->posts > POSTS_MANY && ct_now_s() - n->start_s > SECONDS_MANY)
		ct_fail("%ld datagrams went out, and nobody noticed the silence of the peer",
			n->posts);
}

static bool has_failed(uint64_t wr_id, enum ibv_wc_status status)
{
	if (wr_id != 1)
		return false;
	CT_EQ(status, IBV_WC_RETRY_EXC_ERR);
	return true;
}

static bool poll_plain(struct noise *n, int cq)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(ct_object(n->sink.a.end, cq), CT_COUNT(wc), wc);
	bool failed = false;

	CT_TRUE(count >= 0);
	for (int i = 0; i < count; i++)
		failed |= has_failed(wc[i].wr_id, wc[i].status);
	return failed;
}

/* One batch does not end while there is something. */
static bool poll_extended(struct noise *n)
{
	struct ibv_poll_cq_attr attr = { 0 };
	bool failed = false;

	if (ibv_start_poll(n->ex, &attr))
		return false;
	do {
		failed |= has_failed(n->ex->wr_id, n->ex->status);
		make_noise(n);
	} while (!failed && !ibv_next_poll(n->ex));
	ibv_end_poll(n->ex);
	return failed;
}

static void in_the_same_cq(struct ct *t)
{
	struct noise n = { .cq = ct_create_cq(t->near, CT_CQE, 0) };

	open_noise(t, &n, n.cq);
	ct_send(&n.victim, 1, 0, 64);
	do
		make_noise(&n);
	while (!poll_plain(&n, n.cq));
}

static void in_another_cq(struct ct *t)
{
	struct noise n = { .cq = ct_create_cq(t->near, CT_CQE, 0) };
	int victim_cq = ct_create_cq(t->near, CT_CQE, 0), turn = 0;

	open_noise(t, &n, victim_cq);
	ct_send(&n.victim, 1, 0, 64);
	do {
		make_noise(&n);
		poll_plain(&n, n.cq);
		/* Once in a while: it is an empty poll. */
	} while (++turn % 1024 || !poll_plain(&n, victim_cq));
}

static void in_an_extended_cq(struct ct *t)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = CT_CQE };
	struct noise n = { .ex = ibv_create_cq_ex(ct_context(t->near), &attr) };

	CT_TRUE(n.ex != NULL);
	n.cq = ct_adopt_cq(t->near, ibv_cq_ex_to_cq(n.ex));
	open_noise(t, &n, n.cq);
	ct_send(&n.victim, 1, 0, 64);
	do
		make_noise(&n);
	while (!poll_extended(&n));
}

const struct ct_case ct_progress_cases[] = {
	{ "silence is noticed while every poll finds something", in_the_same_cq, CT_RC },
	{ "silence is noticed while another CQ is polled", in_another_cq, CT_RC },
	{ "silence is noticed inside a batch that does not end", in_an_extended_cq, CT_RC },
	{ 0 },
};

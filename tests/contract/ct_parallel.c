/* SPDX-License-Identifier: BSD-2-Clause */
/* Both ends, and several threads of each, at the same time. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20, WORD = 6 << 20;

static void open_own_cq(struct ct *t, struct ct_link *l, int srq)
{
	struct ct_opts o = ct_defaults(t);

	o.scq_a = ct_create_cq(t->near, 128, 0); /* a hammer polls alone */
	o.srq_b = srq;
	ct_link_open(t, l, &o);
}

/* Two threads here, two threads of the far end over loopback: one word, no addition lost. */
static void atomics(struct ct *t)
{
	enum { THREADS = 4, ADDS = 500 };
	struct ct far_side = *t;
	struct ct_link l[THREADS];
	int hammer[THREADS];

	far_side.near = t->far;
	ct_poke(t->far, WORD, 0);
	for (int i = 0; i < THREADS; i++)
		open_own_cq(i % 2 ? &far_side : t, &l[i], 0);
	for (int i = 0; i < THREADS; i++) {
		struct ibv_sge sge = ct_sge(l[i].a.end, i * 64, 8);
		struct ibv_send_wr wr = ct_wr(&l[i], IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &sge, 1);

		ct_aim(&wr, t->far->mr.addr + WORD, t->far->mr.rkey);
		wr.wr.atomic.compare_add = 1;
		hammer[i] = ct_hammer_start(&l[i].a, &wr, ADDS, 8);
	}
	for (int i = 0; i < THREADS; i++)
		CT_EQ(ct_hammer_join(l[i].a.end, hammer[i]), ADDS);
	CT_EQ(ct_peek(t->far, WORD), THREADS * ADDS);
}

/* Several senders fill one SRQ while its owner takes and reposts: each message exactly once. */
static void senders_of_an_srq(struct ct *t)
{
	enum { SENDERS = 3, MESSAGES = 300, RECEIVES = 16 };
	int srq = ct_create_srq(t->far, t->far->pd, 64, 1);
	int hammer[SENDERS], seen[SENDERS] = { 0 };
	struct ct_link l[SENDERS];

	for (int i = 0; i < SENDERS; i++)
		open_own_cq(t, &l[i], srq);
	for (int i = 0; i < RECEIVES; i++)
		ct_recv(&l[0].b, i, TARGET + i * 1024, 1024);
	for (int i = 0; i < SENDERS; i++) { /* a size and a pattern of its own tells each apart */
		struct ibv_sge sge = ct_sge(t->near, i * 4096, 20 + i * 150);
		struct ibv_send_wr wr = ct_wr(&l[i], IBV_WR_SEND, 0, &sge, 1);

		ct_fill(t->near, i * 4096, 20 + i * 150, i);
		hammer[i] = ct_hammer_start(&l[i].a, &wr, MESSAGES, 8);
	}
	for (int n = 0; n < SENDERS * MESSAGES; n++) {
		struct ibv_wc wc = ct_wait(t->far, t->far->rcq);
		int from = (wc.byte_len - 20) / 150;

		CT_EQ(wc.status, IBV_WC_SUCCESS);
		CT_TRUE(wc.wr_id < RECEIVES && from < SENDERS);
		CT_EQ(wc.qp_num, l[from].b.qpn);
		ct_same(t->far, TARGET + wc.wr_id * 1024, 20 + from * 150, from);
		seen[from]++;
		ct_recv(&l[0].b, wc.wr_id, TARGET + wc.wr_id * 1024, 1024);
	}
	for (int i = 0; i < SENDERS; i++) {
		CT_EQ(ct_hammer_join(t->near, hammer[i]), MESSAGES);
		CT_EQ(seen[i], MESSAGES);
	}
	ct_none(t->far, t->far->rcq);
}

/* WRITEs one way, READs the other way, on one connection. */
static void both_directions(struct ct *t)
{
	enum { ROUNDS = 500 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, back;
	struct ibv_send_wr write, read;
	struct ibv_sge from, to;
	int writer, reader;

	o.scq_a = ct_create_cq(t->near, 128, 0);
	o.scq_b = ct_create_cq(t->far, 128, 0);
	ct_link_open(t, &l, &o);
	back = ct_reverse(&l);
	from = ct_sge(t->near, 0, 5000);
	write = ct_wr(&l, IBV_WR_RDMA_WRITE, 0, &from, 1);
	ct_aim(&write, t->far->mr.addr + TARGET, t->far->mr.rkey);
	to = ct_sge(t->far, 65536, 5000);
	read = ct_wr(&back, IBV_WR_RDMA_READ, 0, &to, 1);
	ct_aim(&read, t->near->mr.addr, t->near->mr.rkey);
	ct_fill(t->near, 0, 5000, 1);
	writer = ct_hammer_start(&l.a, &write, ROUNDS, 16);
	reader = ct_hammer_start(&back.a, &read, ROUNDS, 16);
	CT_EQ(ct_hammer_join(t->near, writer), ROUNDS);
	CT_EQ(ct_hammer_join(t->far, reader), ROUNDS);
	ct_same(t->far, TARGET, 5000, 1);
	ct_same(t->far, 65536, 5000, 1);
}

/* The message comes while the receiver arms, polls or falls asleep: it never sleeps too long. */
static void race_with_sleep(struct ct *t, int receives, int depth)
{
	enum { MESSAGES = 3000 };
	struct ct_opts o = ct_defaults(t);
	int channel = ct_create_channel(t->far), hammer;
	struct ibv_sge from = ct_sge(t->near, 0, 16), to = ct_sge(t->far, TARGET, 256);
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 };
	struct ibv_send_wr wr;
	struct ct_link l;

	o.scq_a = ct_create_cq(t->near, 128, 0);
	o.rcq_b = ct_create_cq(t->far, 128, channel);
	ct_link_open(t, &l, &o);
	for (int i = 0; i < receives; i++)
		ct_recv(&l.b, i, TARGET, 256);
	ct_sleeper_start(&l.b, channel, &recv, MESSAGES);
	wr = ct_wr(&l, IBV_WR_SEND, 0, &from, 1);
	hammer = ct_hammer_start(&l.a, &wr, MESSAGES, depth);
	CT_EQ(ct_sleeper_join(t->far), MESSAGES);
	CT_EQ(ct_hammer_join(t->near, hammer), MESSAGES);
}

static void no_wakeup_is_lost(struct ct *t)
{
	race_with_sleep(t, 32, 1);
	race_with_sleep(t, 32, 4);
}

/* The same with hardly a receive: the sender waits, and is woken by each that is posted. */
static void no_receive_is_overlooked(struct ct *t)
{
	race_with_sleep(t, 1, 8);
}

/* The owner destroys and remakes an MR under fire: each WRITE succeeds or is refused, none strays.
 */
static void dereg_under_fire(struct ct *t)
{
	enum { ROUNDS = 20 };

	for (int i = 0; i < ROUNDS; i++) {
		struct ct_link l;
		struct ct_mr mr;
		struct ibv_sge sge = ct_sge(t->near, 0, 3000);
		struct ibv_send_wr wr;
		int hammer;

		open_own_cq(t, &l, 0);
		CT_TRUE(ct_reg_mr(t->far, t->far->pd, TARGET, 3000, CT_ACCESS_ALL, &mr) > 0);
		wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 0, &sge, 1);
		ct_aim(&wr, mr.addr, mr.rkey);
		ct_fill(t->near, 0, 3000, i);
		hammer = ct_hammer_start(&l.a, &wr, 2000, 16);
		CT_EQ(ct_destroy(t->far, mr.handle), 0);
		ct_fill(t->far, TARGET, 3000, 99); /* from now on the memory is the owner's */
		CT_TRUE(ct_hammer_join(t->near, hammer) <= 2000);
		ct_same(t->far, TARGET, 3000, 99);
	}
}

/* The same with the QP: what is destroyed does not write any more. */
static void destroy_under_fire(struct ct *t)
{
	enum { ROUNDS = 5 };

	for (int i = 0; i < ROUNDS; i++) {
		struct ct_opts o = ct_defaults(t);
		struct ct_link l;
		struct ibv_sge sge = ct_sge(t->near, 0, 3000);
		struct ibv_send_wr wr;
		int hammer;

		o.timeout = 8;
		o.retry_cnt = 1;
		o.scq_a = ct_create_cq(t->near, 128, 0);
		ct_link_open(t, &l, &o);
		wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 0, &sge, 1);
		ct_aim(&wr, t->far->mr.addr + TARGET, t->far->mr.rkey);
		ct_fill(t->near, 0, 3000, i);
		hammer = ct_hammer_start(&l.a, &wr, 2000, 16);
		CT_EQ(ct_destroy(t->far, l.b.handle), 0);
		ct_fill(t->far, TARGET, 3000, 99);
		CT_TRUE(ct_hammer_join(t->near, hammer) <= 2000);
		ct_same(t->far, TARGET, 3000, 99);
	}
}

const struct ct_case ct_parallel_cases[] = {
	{ "atomics of several threads of both ends all count", atomics, CT_RC },
	{ "several senders of one SRQ deliver each message exactly once", senders_of_an_srq,
	  CT_RC },
	{ "WRITEs and READs cross on one connection", both_directions, CT_RC },
	{ "a sleeping receiver misses no message", no_wakeup_is_lost, CT_RC },
	{ "a waiting sender overlooks no receive", no_receive_is_overlooked, CT_RC },
	{ "no WRITE strays after dereg_mr", dereg_under_fire, CT_RC },
	{ "no WRITE strays after destroy_qp", destroy_under_fire, CT_RC },
	{ 0 },
};

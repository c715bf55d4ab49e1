/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of completions and of effects. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static const enum ibv_wr_opcode mix[] = { IBV_WR_SEND,          IBV_WR_RDMA_READ,
					  IBV_WR_RDMA_WRITE,    IBV_WR_ATOMIC_FETCH_AND_ADD,
					  IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM };

static bool takes_a_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Whatever they are and however long they take, WRs of a queue complete in post order. */
static void sends_complete_in_post_order(struct ct *t)
{
	enum { COUNT = 60 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	int receives = 0;

	ct_link_open(t, &l, &o);
	for (int i = 0; i < COUNT; i++) {
		enum ibv_wr_opcode opcode = mix[i * 5 % CT_COUNT(mix)];
		uint32_t size = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : i % 3 ? i : 100000;
		struct ibv_sge sge = ct_sge(t->near, 0, size);
		struct ibv_send_wr wr = ct_wr(&l, opcode, i, &sge, 1);

		if (takes_a_receive(opcode))
			ct_recv(&l.b, receives++, TARGET, 100000);
		if (opcode != IBV_WR_SEND && opcode != IBV_WR_SEND_WITH_IMM)
			ct_aim(&wr, t->far->mr.addr + (1 << 20), t->far->mr.rkey);
		ct_post(&l.a, &wr);
	}
	for (int i = 0; i < COUNT; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
	for (int i = 0; i < receives; i++)
		ct_got(&l, i, IBV_WC_SUCCESS);
}

static void messages_arrive_in_order(struct ct *t)
{
	enum { ROUNDS = 8, BATCH = 60 };
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BATCH; i++)
			ct_recv(&l.b, i, TARGET + i * 1024, 1024);
		for (int i = 0; i < BATCH; i++) {
			struct ibv_sge sge = ct_sge(t->near, 0, i * 16);
			struct ibv_send_wr wr = ct_wr(&l, IBV_WR_SEND_WITH_IMM, i, &sge, 1);

			wr.imm_data = i;
			ct_post(&l.a, &wr);
		}
		for (int i = 0; i < BATCH; i++) {
			struct ibv_wc wc = ct_got(&l, i, IBV_WC_SUCCESS);

			CT_EQ(wc.imm_data, i);
			CT_EQ(wc.byte_len, ct_headroom(&l) + i * 16);
		}
		for (int i = 0; i < BATCH; i++)
			ct_sent(&l, i, IBV_WC_SUCCESS);
	}
}

/* A fenced WR starts after earlier READs and atomics have put their data in place. */
static void fence(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 50; i++) {
		uint32_t size = 8 + i * 777;
		struct ibv_sge to = ct_sge(t->near, 0, size);
		struct ibv_send_wr read = ct_wr(&l, IBV_WR_RDMA_READ, 1, &to, 1);
		struct ibv_send_wr send = ct_wr(&l, IBV_WR_SEND, 2, &to, 1);

		ct_aim(&read, t->far->mr.addr, t->far->mr.rkey);
		read.next = &send;
		read.send_flags = 0;
		send.send_flags |= IBV_SEND_FENCE;
		ct_fill(t->far, 0, size, i);
		ct_recv(&l.b, i, TARGET, size);
		ct_post(&l.a, &read);
		ct_sent(&l, 2, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
		ct_same(t->far, TARGET, size, i); /* what the READ fetched came back */
	}
}

/* More READs than may be outstanding wait for each other, and nothing is lost. */
static void reads_beyond_the_limit_wait(struct ct *t)
{
	enum { COUNT = 60 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.max_rd_atomic = 1;
	o.max_dest_rd_atomic = 1;
	ct_link_open(t, &l, &o);
	ct_fill(t->far, 0, COUNT * 1000, 1);
	for (int i = 0; i < COUNT; i++)
		ct_do(&l, IBV_WR_RDMA_READ, i, i * 1000, 1000);
	for (int i = 0; i < COUNT; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
	ct_same(t->near, 0, COUNT * 1000, 1);
}

/* The last of many silent WRs speaks for all. */
static void a_signalled_completion_speaks_for_all_before_it(struct ct *t)
{
	enum { COUNT = 50 };
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_fill(t->near, 0, COUNT * 2000, 3);
	for (int i = 0; i < COUNT; i++) {
		struct ibv_sge sge = ct_sge(t->near, i * 2000, 2000);
		struct ibv_send_wr wr = ct_wr(&l, IBV_WR_RDMA_WRITE, i, &sge, 1);

		wr.send_flags = i == COUNT - 1 ? IBV_SEND_SIGNALED : 0;
		ct_aim(&wr, t->far->mr.addr + TARGET + i * 2000, t->far->mr.rkey);
		ct_post(&l.a, &wr);
	}
	ct_sent(&l, COUNT - 1, IBV_WC_SUCCESS);
	ct_same(t->far, TARGET, COUNT * 2000, 3);
}

const struct ct_case ct_order_cases[] = {
	{ "WRs of a send queue complete in post order", sends_complete_in_post_order,
	  CT_RC | CT_IB },
	{ "messages arrive in the order they were sent", messages_arrive_in_order,
	  CT_RC | CT_UC | CT_UD },
	{ "a fenced WR waits for earlier READs", fence, CT_RC },
	{ "READs beyond max_rd_atomic wait for each other", reads_beyond_the_limit_wait, CT_RC },
	{ "a signalled WRITE completes after all before it",
	  a_signalled_completion_speaks_for_all_before_it, CT_RC },
	{ 0 },
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: lists, bad_wr, what is refused at once, and when slots become free. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

/* A list of `count` SENDs; `sge` and `wr` have room for them. */
static void make_list(struct ct_link *l, struct ibv_send_wr *wr, struct ibv_sge *sge, int count)
{
	for (int i = 0; i < count; i++) {
		sge[i] = ct_sge(l->a.end, i * 64, 8 + i);
		wr[i] = ct_wr(l, IBV_WR_SEND, i, &sge[i], 1);
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
	}
}

static void a_list_is_posted_in_order(struct ct *t)
{
	enum { COUNT = 20 };
	struct ibv_recv_wr recv[COUNT], *bad_recv;
	struct ibv_send_wr wr[COUNT];
	struct ibv_sge sge[COUNT], to[COUNT];
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	make_list(&l, wr, sge, COUNT);
	for (int i = 0; i < COUNT; i++) {
		to[i] = ct_sge(t->far, TARGET + i * 128, 128);
		recv[i] = (struct ibv_recv_wr){ .wr_id = i,
						.sg_list = &to[i],
						.num_sge = 1,
						.next = i + 1 < COUNT ? &recv[i + 1] : NULL };
	}
	ct_fill(t->near, 0, COUNT * 64, 1);
	CT_EQ(ct_post_recv(&l.b, recv, &bad_recv), 0);
	ct_post(&l.a, wr);
	for (int i = 0; i < COUNT; i++) {
		ct_sent(&l, i, IBV_WC_SUCCESS);
		CT_EQ(ct_got(&l, i, IBV_WC_SUCCESS).byte_len, ct_headroom(&l) + 8 + i);
	}
}

/* Whatever makes a WR bad: those before it are posted, from it on nothing is. */
static void check_bad_in_the_middle(struct ct *t,
				    void (*spoil)(struct ct_link *, struct ibv_send_wr *))
{
	struct ibv_send_wr wr[5], *bad = NULL;
	struct ibv_sge sge[5];
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	make_list(&l, wr, sge, 5);
	for (int i = 0; i < 5; i++)
		ct_recv(&l.b, i, TARGET + i * 256, 256);
	spoil(&l, &wr[2]);
	CT_EQ(ct_post_send(&l.a, wr, &bad), EINVAL);
	CT_TRUE(bad == &wr[2]);
	ct_sent(&l, 0, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 0, IBV_WC_SUCCESS);
	ct_got(&l, 1, IBV_WC_SUCCESS);
	wr[4].wr_id = 44; /* the queue goes on as if the rest had never been there */
	ct_post(&l.a, &wr[4]);
	ct_sent(&l, 44, IBV_WC_SUCCESS);
	ct_got(&l, 2, IBV_WC_SUCCESS);
	ct_none(t->near, l.a.scq);
	ct_none(t->far, l.b.rcq);
}

static void spoil_sges(struct ct_link *l, struct ibv_send_wr *wr)
{
	static struct ibv_sge sge[CT_SGE_MAX * 2];

	wr->sg_list = sge;
	wr->num_sge = l->a.cap.max_send_sge + 1;
}

static void spoil_inline(struct ct_link *l, struct ibv_send_wr *wr)
{
	wr->sg_list->length = l->a.cap.max_inline_data + 1;
	wr->send_flags |= IBV_SEND_INLINE;
}

static void spoil_opcode(struct ct_link *l, struct ibv_send_wr *wr)
{
	wr->opcode = 99;
}

static void too_many_sges(struct ct *t)
{
	check_bad_in_the_middle(t, spoil_sges);
}

static void too_long_inline(struct ct *t)
{
	check_bad_in_the_middle(t, spoil_inline);
}

static void unknown_opcode(struct ct *t)
{
	check_bad_in_the_middle(t, spoil_opcode);
}

/* Gaps of the enumeration, opcodes that no device of ours has, and numbers behind the last one. */
static void no_opcodes(struct ct *t)
{
	static const unsigned values[] = {
		IBV_WR_TSO,         IBV_WR_DRIVER1,      12,        13,        14, 16,
		0x80 | IBV_WR_SEND, 0x100 | IBV_WR_SEND, INT32_MAX, UINT32_MAX
	};
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < CT_COUNT(values); i++) {
		struct ibv_send_wr wr, *bad = NULL;
		struct ibv_sge sge;

		make_list(&l, &wr, &sge, 1);
		wr.opcode = values[i];
		CT_EQ(ct_post_send(&l.a, &wr, &bad), EINVAL);
		CT_TRUE(bad == &wr);
	}
	ct_none(t->near, l.a.scq);
}

static void bad_receive_in_the_middle(struct ct *t)
{
	struct ibv_sge sge[CT_SGE_MAX * 2];
	struct ibv_recv_wr recv[3], *bad = NULL;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < CT_COUNT(sge); i++)
		sge[i] = ct_sge(t->far, TARGET, 256);
	for (int i = 0; i < 3; i++)
		recv[i] = (struct ibv_recv_wr){ .wr_id = i,
						.sg_list = sge,
						.num_sge = 1,
						.next = i < 2 ? &recv[i + 1] : NULL };
	recv[1].num_sge = l.b.cap.max_recv_sge + 1;
	CT_EQ(ct_post_recv(&l.b, recv, &bad), EINVAL);
	CT_TRUE(bad == &recv[1]);
	ct_recv(&l.b, 7, TARGET, 256);
	ct_send(&l, 1, 0, 8);
	ct_send(&l, 2, 0, 8);
	ct_got(&l, 0, IBV_WC_SUCCESS);
	ct_got(&l, 7, IBV_WC_SUCCESS);
}

/* The queue holds what create_qp granted, and one WR more is refused. */
static void full_send_queue(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr, *bad = NULL;
	struct ct_link l;
	uint32_t depth;

	o.cap.max_send_wr = 10;
	o.cap.max_recv_wr = 256;
	ct_link_open(t, &l, &o);
	depth = l.a.cap.max_send_wr;
	CT_TRUE(depth <= 256);
	wr = ct_wr(&l, IBV_WR_SEND, 0, &sge, 1);
	for (uint32_t i = 0; i < depth; i++) {
		ct_recv(&l.b, i, TARGET, 256);
		wr.wr_id = i;
		ct_post(&l.a, &wr);
	}
	CT_EQ(ct_post_send(&l.a, &wr, &bad), ENOMEM);
	CT_TRUE(bad == &wr);
	ct_sent(&l, 0, IBV_WC_SUCCESS); /* one polled, one free */
	ct_recv(&l.b, depth, TARGET, 256);
	wr.wr_id = depth;
	ct_post(&l.a, &wr);
	CT_EQ(ct_post_send(&l.a, &wr, &bad), ENOMEM);
	for (uint32_t i = 1; i <= depth; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
}

static void full_receive_queue(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_sge sge;
	struct ibv_recv_wr recv, *bad = NULL;
	struct ct_link l;

	o.cap.max_recv_wr = 10;
	ct_link_open(t, &l, &o);
	for (uint32_t i = 0; i < l.b.cap.max_recv_wr; i++)
		ct_recv(&l.b, i, TARGET, 256);
	sge = ct_sge(t->far, TARGET, 256);
	recv = (struct ibv_recv_wr){ .wr_id = 99, .sg_list = &sge, .num_sge = 1 };
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), ENOMEM);
	CT_TRUE(bad == &recv);
	ct_send(&l, 1, 0, 8);
	ct_got(&l, 0, IBV_WC_SUCCESS);
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), 0);
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), ENOMEM);
}

static void unsignalled(struct ct *t)
{
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 60; i++) {
		ct_recv(&l.b, i, TARGET, 256);
		wr = ct_wr(&l, IBV_WR_SEND, i, &sge, 1);
		wr.send_flags = i % 10 == 9 ? IBV_SEND_SIGNALED : 0;
		ct_post(&l.a, &wr);
	}
	for (int i = 0; i < 60; i++)
		ct_got(&l, i, IBV_WC_SUCCESS);
	for (int i = 9; i < 60; i += 10)
		ct_sent(&l, i, IBV_WC_SUCCESS);
	ct_none(t->near, l.a.scq);
}

static void sq_sig_all(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr;
	struct ct_link l;

	o.sq_sig_all = true;
	ct_link_open(t, &l, &o);
	for (int i = 0; i < 10; i++) {
		ct_recv(&l.b, i, TARGET, 256);
		wr = ct_wr(&l, IBV_WR_SEND, i, &sge, 1);
		wr.send_flags = 0;
		ct_post(&l.a, &wr);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
}

/* A slot is free when its completion, or that of a later WR, has been polled. Not before. */
static void never_signalling_runs_dry(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr, *bad;
	struct ct_link l;

	o.cap.max_send_wr = 8;
	o.cap.max_recv_wr = 256;
	ct_link_open(t, &l, &o);
	wr = ct_wr(&l, IBV_WR_SEND, 1, &sge, 1);
	wr.send_flags = 0;
	for (uint32_t i = 0; i < l.a.cap.max_send_wr; i++) {
		ct_recv(&l.b, i, TARGET, 256);
		ct_post(&l.a, &wr);
		ct_got(&l, i, IBV_WC_SUCCESS); /* it has been executed, and still holds its slot */
	}
	CT_EQ(ct_post_send(&l.a, &wr, &bad), ENOMEM);
	ct_none(t->near, l.a.scq);
	CT_EQ(ct_post_send(&l.a, &wr, &bad), ENOMEM);
}

static void one_completion_frees_all_before_it(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr;
	struct ct_link l;

	o.cap.max_send_wr = 8;
	o.cap.max_recv_wr = 256;
	ct_link_open(t, &l, &o);
	wr = ct_wr(&l, IBV_WR_SEND, 1, &sge, 1);
	for (int round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < l.a.cap.max_send_wr; i++) {
			ct_recv(&l.b, i, TARGET, 256);
			wr.send_flags = i == l.a.cap.max_send_wr - 1 ? IBV_SEND_SIGNALED : 0;
			ct_post(&l.a, &wr);
		}
		ct_sent(&l, 1, IBV_WC_SUCCESS);
		for (uint32_t i = 0; i < l.a.cap.max_send_wr; i++)
			ct_got(&l, i, IBV_WC_SUCCESS);
	}
}

static int try_send(struct ct_link *l)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, 8);
	struct ibv_send_wr wr = ct_wr(l, IBV_WR_SEND, 1, &sge, 1), *bad = NULL;
	int ret = ct_post_send(&l->a, &wr, &bad);

	CT_TRUE(!ret || bad == &wr);
	return ret;
}

static int try_recv(struct ct_link *l)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, 8);
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	int ret = ct_post_recv(&l->a, &wr, &bad);

	CT_TRUE(!ret || bad == &wr);
	return ret;
}

static void state_decides(struct ct *t)
{
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	CT_EQ(try_send(&l), EINVAL); /* RESET */
	CT_EQ(try_recv(&l), EINVAL);
	ct_init(&l.a);
	CT_EQ(try_send(&l), EINVAL);
	CT_EQ(try_recv(&l), 0);
	ct_rtr(&l.a, &l.b, &l.o);
	CT_EQ(try_send(&l), EINVAL);
	CT_EQ(try_recv(&l), 0);
	ct_rts(&l.a, &l.o);
	CT_EQ(try_recv(&l), 0);
	CT_EQ(try_send(&l), 0);
}

#define ALL (CT_RC | CT_UC | CT_UD)

static void nothing_is_posted_with_success(struct ct *t)
{
	struct ct_link l;
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv;

	ct_link_open(t, &l, NULL);
	ct_usable(&l);
	CT_EQ(ibv_post_send(ct_object(t->near, l.a.handle), NULL, &bad_send), 0);
	CT_EQ(ibv_post_recv(ct_object(t->near, l.a.handle), NULL, &bad_recv), 0);
	ct_usable(&l);
}

const struct ct_case ct_post_cases[] = {
	{ "a list of WRs is posted in order", a_list_is_posted_in_order, ALL },
	{ "an empty list is posted with success", nothing_is_posted_with_success, ALL },
	{ "too many SGEs are EINVAL, bad_wr says which WR", too_many_sges, ALL },
	{ "inline data beyond the limit is EINVAL, bad_wr says which WR", too_long_inline, ALL },
	{ "an unknown opcode is EINVAL, bad_wr says which WR", unknown_opcode, ALL },
	{ "values that are no opcodes are EINVAL, near others and far from them", no_opcodes, ALL },
	{ "a bad receive in a list is EINVAL, bad_wr says which WR", bad_receive_in_the_middle,
	  ALL },
	{ "a full send queue is ENOMEM, a polled completion makes room", full_send_queue, ALL },
	{ "a full receive queue is ENOMEM, a completion makes room", full_receive_queue, ALL },
	{ "an unsignalled WR completes silently", unsignalled, ALL },
	{ "sq_sig_all signals every WR", sq_sig_all, ALL },
	{ "a program that never signals runs into ENOMEM", never_signalling_runs_dry, ALL },
	{ "a polled completion frees all WRs before it", one_completion_frees_all_before_it, ALL },
	{ "posts are refused in states that do not take them", state_decides, ALL },
	{ 0 },
};

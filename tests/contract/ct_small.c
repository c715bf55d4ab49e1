/* SPDX-License-Identifier: BSD-2-Clause */
/* Small messages: lists of them, of every size and cut, to queues of one sender and of many. */
#include "ct.h"

enum { ROOM = 512, LIST = 16, RECEIVES = 64 };

static const uint64_t TARGET = 4 << 20;
/* Around what rides in a cell, in a stamped cell, and behind it, with a GRH and without. */
static const uint32_t sizes[] = { 0,  1,  7,   8,   9,   15,  16,  17,  23,  24,  25,  39,
				  40, 64, 128, 215, 216, 217, 218, 255, 256, 257, 258, 300 };

/* The link of a case: b's receives are its own, or those of an SRQ. */
static void open_link(struct ct *t, struct ct_link *l, bool shared)
{
	struct ct_opts o = ct_defaults(t);

	if (shared)
		o.srq_b = ct_create_srq(t->far, t->far->pd, RECEIVES, 1);
	ct_link_open(t, l, &o);
}

static void post_receive(const struct ct_link *l, uint64_t wr_id)
{
	struct ibv_sge sge = ct_sge(l->b.end, TARGET + wr_id % RECEIVES * ROOM, ROOM);
	struct ibv_recv_wr recv = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CT_EQ(l->b.srq ? ct_post_srq_recv(l->b.end, l->b.srq, &recv, &bad)
		       : ct_post_recv(&l->b, &recv, &bad),
	      0);
}

/* Cuts a message into `count` elements, which lie one after the other. */
static int cut(const struct ct_end *e, uint64_t offset, uint32_t length, int count,
	       struct ibv_sge *sge)
{
	for (int i = 0; i < count; i++) {
		uint32_t part = i + 1 < count ? length / (uint32_t)count : length;

		sge[i] = ct_sge(e, offset, part);
		offset += part;
		length -= part;
	}
	return count;
}

struct list {
	struct ibv_send_wr wr[LIST];
	struct ibv_sge sge[LIST][6];
};

/* Message i of a list has other elements, flags and opcode than its neighbours; the last one is
 * signalled. */
static void list_make(const struct ct_link *l, struct list *list, uint32_t length)
{
	for (int i = 0; i < LIST; i++) {
		int elements = length ? i % ((int)l->a.cap.max_send_sge < 6 ? 1 : 6) + 1 : i % 2;
		enum ibv_wr_opcode opcode = i % 3 == 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;

		list->wr[i] =
			ct_wr(l, opcode, (uint64_t)i, list->sge[i],
			      cut(l->a.end, (uint64_t)i * ROOM, length, elements, list->sge[i]));
		list->wr[i].imm_data = (uint32_t)i;
		list->wr[i].send_flags = i + 1 == LIST ? IBV_SEND_SIGNALED : 0;
		if (i % 5 == 2 && length <= l->a.cap.max_inline_data)
			list->wr[i].send_flags |= IBV_SEND_INLINE;
		list->wr[i].next = i + 1 < LIST ? &list->wr[i + 1] : NULL;
	}
}

static void expect_message(const struct ct_link *l, int i, uint64_t wr_id, uint32_t length)
{
	struct ibv_wc wc = ct_got(l, wr_id, IBV_WC_SUCCESS);

	CT_EQ(wc.byte_len, length + ct_headroom(l));
	CT_EQ(!!(wc.wc_flags & IBV_WC_WITH_IMM), i % 3 == 1);
	if (i % 3 == 1)
		CT_EQ(wc.imm_data, (uint32_t)i);
	ct_same(l->b.end, TARGET + wr_id % RECEIVES * ROOM + ct_headroom(l), length, i);
}

static void check_lists(struct ct *t, bool shared)
{
	struct list list;
	struct ct_link l;
	uint64_t posted = 0, got = 0;

	open_link(t, &l, shared);
	for (int n = 0; n < CT_COUNT(sizes); n++) {
		while (posted < got + LIST)
			post_receive(&l, posted++);
		for (int i = 0; i < LIST; i++)
			ct_fill(t->near, (uint64_t)i * ROOM, sizes[n], i);
		list_make(&l, &list, sizes[n]);
		ct_post(&l.a, list.wr);
		ct_sent(&l, LIST - 1, IBV_WC_SUCCESS);
		for (int i = 0; i < LIST; i++)
			expect_message(&l, i, got++, sizes[n]);
	}
}

static void lists_to_an_own_queue(struct ct *t)
{
	check_lists(t, false);
}

static void lists_to_an_srq(struct ct *t)
{
	check_lists(t, true);
}

/* The first part of the list finds receives, the rest waits for them. */
static void check_list_that_waits(struct ct *t, bool shared)
{
	struct list list;
	struct ct_link l;

	open_link(t, &l, shared);
	for (uint64_t i = 0; i < 5; i++)
		post_receive(&l, i);
	for (int i = 0; i < LIST; i++)
		ct_fill(t->near, (uint64_t)i * ROOM, 8, i);
	list_make(&l, &list, 8);
	ct_post(&l.a, list.wr);
	for (int i = 0; i < 5; i++)
		expect_message(&l, i, (uint64_t)i, 8);
	ct_none(t->near, l.a.scq);
	for (uint64_t i = 5; i < LIST; i++)
		post_receive(&l, i);
	for (int i = 5; i < LIST; i++)
		expect_message(&l, i, (uint64_t)i, 8);
	ct_sent(&l, LIST - 1, IBV_WC_SUCCESS);
}

static void a_list_waits_for_an_own_queue(struct ct *t)
{
	check_list_that_waits(t, false);
}

static void a_list_waits_for_an_srq(struct ct *t)
{
	check_list_that_waits(t, true);
}

/* Each sender passes receives that the other one took. */
static void senders_take_turns(struct ct *t)
{
	enum { LINKS = 3, ROUNDS = 40 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l[LINKS];
	uint64_t posted = 0, got = 0;

	o.srq_b = ct_create_srq(t->far, t->far->pd, RECEIVES, 1);
	for (int i = 0; i < LINKS; i++)
		ct_link_open(t, &l[i], &o);
	for (int round = 0; round < ROUNDS; round++) {
		struct ct_link *link = &l[round * round % LINKS];
		int count = 1 + round * 7 % 23; /* some more than a sender passes at once */

		while (posted < got + RECEIVES)
			post_receive(&l[0], posted++);
		for (int i = 0; i < count; i++) {
			ct_fill(t->near, 0, 24, (unsigned)(round + i));
			ct_send(link, (uint64_t)i, 0, 24);
			ct_sent(link, (uint64_t)i, IBV_WC_SUCCESS);
			CT_EQ(ct_got(link, got, IBV_WC_SUCCESS).qp_num, link->b.qpn);
			ct_same(t->far, TARGET + got++ % RECEIVES * ROOM + ct_headroom(link), 24,
				(unsigned)(round + i));
		}
	}
}

/* A message that is longer than its receive is an error, or dropped, however small it is. */
static void a_receive_that_is_too_short(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	struct ibv_recv_wr recv = { .wr_id = 7, .num_sge = 1 }, *bad;
	struct ibv_sge sge;

	o.srq_b = ct_create_srq(t->far, t->far->pd, RECEIVES, 1);
	ct_link_open(t, &l, &o);
	post_receive(&l, 0);
	ct_send(&l, 0, 0, 8); /* from now on the link is bound */
	ct_sent(&l, 0, IBV_WC_SUCCESS);
	ct_got(&l, 0, IBV_WC_SUCCESS);
	sge = ct_sge(t->far, TARGET, 8 + ct_headroom(&l));
	recv.sg_list = &sge;
	CT_EQ(ct_post_srq_recv(t->far, o.srq_b, &recv, &bad), 0);
	ct_send(&l, 1, 0, 9);
	if (t->type == IBV_QPT_RC) {
		ct_sent(&l, 1, IBV_WC_REM_INV_REQ_ERR);
		ct_got(&l, 7, IBV_WC_LOC_LEN_ERR);
		return;
	}
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_none(t->far, l.b.rcq);
	ct_send(&l, 2, 0, 8);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_got(&l, 7, IBV_WC_SUCCESS);
}

/* --- messages of some KB, which may ride once there were enough of them --- */

enum { KB_ROOM = 16384, KB_RECEIVES = 100 };

static uint32_t kb_length(int i)
{
	static const uint32_t lengths[] = { 4096, 257, 8192, 8191, 8193, 1000, 256, 5000 };

	return lengths[i % CT_COUNT(lengths)];
}

/* As many as are posted wait for the poll: more than ride at the same time. */
static void kb_burst(const struct ct_link *l, int first)
{
	for (int i = 0; i < KB_RECEIVES; i++)
		ct_recv(&l->b, (uint64_t)i, TARGET + (uint64_t)i * KB_ROOM, KB_ROOM);
	for (int i = 0; i < KB_RECEIVES; i++) {
		ct_fill(l->a.end, 0, KB_ROOM, (unsigned)(first + i));
		ct_send(l, (uint64_t)i, 0, kb_length(i));
		ct_sent(l, (uint64_t)i, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < KB_RECEIVES; i++) {
		CT_EQ(ct_got(l, (uint64_t)i, IBV_WC_SUCCESS).byte_len, kb_length(i));
		ct_same(l->b.end, TARGET + (uint64_t)i * KB_ROOM, kb_length(i), first + i);
	}
}

/* One at a time, and a region that ends while messages in it are not polled yet. */
static void kb_region_ends(struct ct *t, const struct ct_link *l)
{
	struct ct_mr mr;
	struct ibv_sge sge;
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;

	mr.handle = ct_reg_mr(t->far, t->far->pd, TARGET, KB_ROOM, CT_ACCESS_ALL, &mr);
	sge = (struct ibv_sge){ mr.addr, KB_ROOM, mr.lkey };
	CT_EQ(ct_post_recv(&l->b, &recv, &bad), 0);
	ct_fill(t->near, 0, 4096, 77);
	ct_send(l, 0, 0, 4096);
	ct_sent(l, 0, IBV_WC_SUCCESS);
	CT_EQ(ct_destroy(t->far, mr.handle), 0);
	ct_same(t->far, TARGET, 4096, 77);
	ct_got(l, 0, IBV_WC_SUCCESS);
}

static void messages_of_some_kb(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.cap.max_recv_wr = KB_RECEIVES;
	ct_link_open(t, &l, &o);
	for (int burst = 0; burst < 4; burst++)
		kb_burst(&l, burst * 7);
	kb_region_ends(t, &l);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
	ct_link_connect(&l);
	for (int burst = 0; burst < 2; burst++)
		kb_burst(&l, burst * 11);
}

const struct ct_case ct_small_cases[] = {
	{ "lists of small sends arrive whole and in order", lists_to_an_own_queue,
	  CT_RC | CT_UC | CT_UD | CT_IB },
	{ "lists of small sends to an SRQ arrive whole and in order", lists_to_an_srq,
	  CT_RC | CT_UC | CT_UD },
	{ "a list of small sends waits for receives in its middle", a_list_waits_for_an_own_queue,
	  CT_RC },
	{ "a list of small sends waits for receives of an SRQ", a_list_waits_for_an_srq, CT_RC },
	{ "senders take turns with the receives of an SRQ", senders_take_turns,
	  CT_RC | CT_UC | CT_UD },
	{ "a small message that does not fit its shared receive", a_receive_that_is_too_short,
	  CT_RC | CT_UD },
	{ "messages of some KB arrive whole, also after RESET", messages_of_some_kb, CT_RC },
	{ 0 },
};

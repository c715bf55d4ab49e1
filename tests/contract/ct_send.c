/* SPDX-License-Identifier: BSD-2-Clause */
/* SEND: every size, inline, immediate data, and what the completions say. */
#include "ct.h"

/* Around every size at which an implementation may switch: inline, cache line, MTU, page. */
static const uint32_t sizes[] = { 0,    1,    7,    8,     27,    28,    29,           32,   63,
				  64,   65,   255,  256,   257,   1023,  1024,         1025, 4095,
				  4096, 4097, 8192, 65535, 65536, 65537, (1 << 20) + 3 };

static const uint64_t TARGET = 4 << 20; /* where receives go: apart from what is sent */

/* One message, checked at both ends. */
static void message(struct ct_link *l, uint32_t size, unsigned seed)
{
	uint32_t headroom = ct_headroom(l);
	struct ibv_wc wc;

	ct_fill(l->a.end, 0, size, seed);
	ct_fill(l->b.end, TARGET, headroom + size, seed + 1);
	ct_recv(&l->b, 1000 + seed, TARGET, headroom + size + 32);
	ct_send(l, seed, 0, size);
	wc = ct_sent(l, seed, IBV_WC_SUCCESS);
	CT_EQ(wc.opcode, IBV_WC_SEND);
	CT_EQ(wc.qp_num, l->a.qpn);
	wc = ct_got(l, 1000 + seed, IBV_WC_SUCCESS);
	CT_EQ(wc.opcode, IBV_WC_RECV);
	CT_EQ(wc.qp_num, l->b.qpn);
	CT_EQ(wc.byte_len, headroom + size);
	CT_TRUE(!(wc.wc_flags & IBV_WC_WITH_IMM));
	ct_same(l->b.end, TARGET + headroom, size, seed);
}

static void every_size(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < CT_COUNT(sizes); i++)
		if (sizes[i] <= ct_message_max(&l))
			message(&l, sizes[i], i);
}

static void beyond_stays_untouched(struct ct *t)
{
	struct ct_link l;
	uint32_t headroom;

	ct_link_open(t, &l, NULL);
	headroom = ct_headroom(&l);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		uint8_t guard[32];

		if (sizes[i] > ct_message_max(&l))
			continue;
		ct_fill(t->near, 0, sizes[i], i);
		for (int k = 0; k < 4; k++)
			ct_poke(t->far, TARGET + headroom + sizes[i] + k * 8, 0xa5a5a5a5a5a5a5a5);
		ct_recv(&l.b, i, TARGET, headroom + sizes[i] + 32);
		ct_send(&l, i, 0, sizes[i]);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
		ct_peek_bytes(t->far, TARGET + headroom + sizes[i], 32, guard);
		for (int k = 0; k < 32; k++)
			CT_EQ(guard[k], 0xa5);
	}
}

static void exact_fit(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		if (sizes[i] > ct_message_max(&l))
			continue;
		ct_fill(t->near, 0, sizes[i], i);
		ct_recv(&l.b, i, TARGET, ct_headroom(&l) + sizes[i]);
		ct_send(&l, i, 0, sizes[i]);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
		ct_same(t->far, TARGET + ct_headroom(&l), sizes[i], i);
	}
}

static void immediate(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		struct ibv_sge sge = ct_sge(t->near, 0, sizes[i]);
		struct ibv_send_wr wr = ct_wr(&l, IBV_WR_SEND_WITH_IMM, i, &sge, 1);
		struct ibv_wc wc;

		if (sizes[i] > ct_message_max(&l))
			continue;
		wr.imm_data = 0xdead0000 + i;
		ct_fill(t->near, 0, sizes[i], i);
		ct_recv(&l.b, 100 + i, TARGET, ct_headroom(&l) + sizes[i]);
		ct_post(&l.a, &wr);
		CT_EQ(ct_sent(&l, i, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
		wc = ct_got(&l, 100 + i, IBV_WC_SUCCESS);
		CT_EQ(wc.opcode, IBV_WC_RECV);
		CT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
		CT_EQ(wc.imm_data, 0xdead0000 + i);
		CT_EQ(wc.byte_len, ct_headroom(&l) + sizes[i]);
		ct_same(t->far, TARGET + ct_headroom(&l), sizes[i], i);
	}
}

/* Inline data is taken when it is posted: the lkey is not looked at, the buffer is free at once. */
static void inline_data(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (uint32_t size = 0; size <= l.a.cap.max_inline_data && size <= 256;
	     size += 1 + size / 4) {
		struct ibv_sge sge = ct_sge(t->near, 0, size);
		struct ibv_send_wr wr = ct_wr(&l, IBV_WR_SEND, size, &sge, 1);

		sge.lkey = 0;
		wr.send_flags |= IBV_SEND_INLINE;
		ct_fill(t->near, 0, size, size);
		ct_recv(&l.b, size, TARGET, ct_headroom(&l) + size);
		ct_post(&l.a, &wr);
		ct_fill(t->near, 0, size, size + 1);
		ct_sent(&l, size, IBV_WC_SUCCESS);
		ct_got(&l, size, IBV_WC_SUCCESS);
		ct_same(t->far, TARGET + ct_headroom(&l), size, size);
	}
}

/* The same while the message still waits for a receive. */
static void inline_data_waits(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge sge = ct_sge(t->near, 0, 40);
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	wr = ct_wr(&l, IBV_WR_SEND, 1, &sge, 1);
	sge.lkey = 0;
	wr.send_flags |= IBV_SEND_INLINE;
	ct_fill(t->near, 0, 40, 1);
	ct_post(&l.a, &wr);
	ct_fill(t->near, 0, 40, 2);
	ct_recv(&l.b, 1, TARGET, 100);
	ct_got(&l, 1, IBV_WC_SUCCESS);
	ct_same(t->far, TARGET, 40, 1);
}

static void no_sge_at_all(struct ct *t)
{
	struct ibv_send_wr wr;
	struct ct_link l;
	struct ibv_wc wc;

	ct_link_open(t, &l, NULL);
	wr = ct_wr(&l, IBV_WR_SEND, 1, NULL, 0);
	ct_recv(&l.b, 2, TARGET, 100);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	wc = ct_got(&l, 2, IBV_WC_SUCCESS);
	CT_EQ(wc.byte_len, ct_headroom(&l));
}

static void both_directions(struct ct *t)
{
	struct ct_link l, back;

	ct_link_open(t, &l, NULL);
	back = ct_reverse(&l);
	for (int i = 0; i < 20; i++) {
		uint32_t size = 1 + i * 41;

		ct_fill(t->near, 0, size, i);
		ct_fill(t->far, 0, size, 100 + i);
		ct_recv(&l.b, i, TARGET, 1024);
		ct_recv(&back.b, i, TARGET, 1024);
		ct_send(&l, i, 0, size);
		ct_send(&back, i, 0, size);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		ct_sent(&back, i, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
		ct_got(&back, i, IBV_WC_SUCCESS);
		ct_same(t->far, TARGET + ct_headroom(&l), size, i);
		ct_same(t->near, TARGET + ct_headroom(&l), size, 100 + i);
	}
}

static void large(struct ct *t, uint64_t size)
{
	struct ct_link l;
	struct ct_mr from, to;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_recv_wr recv, *bad;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->near, t->near->pd, CT_ARENA_BYTES, size, CT_ACCESS_ALL, &from) > 0);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, CT_ARENA_BYTES, size, CT_ACCESS_ALL, &to) > 0);
	ct_fill(t->near, CT_ARENA_BYTES, size, 3);
	sge = (struct ibv_sge){ .addr = to.addr, .length = (uint32_t)size, .lkey = to.lkey };
	recv = (struct ibv_recv_wr){ .wr_id = 2, .sg_list = &sge, .num_sge = 1 };
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), 0);
	sge = (struct ibv_sge){ .addr = from.addr, .length = (uint32_t)size, .lkey = from.lkey };
	wr = ct_wr(&l, IBV_WR_SEND, 1, &sge, 1);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_got(&l, 2, IBV_WC_SUCCESS).byte_len, size);
	ct_same(t->far, CT_ARENA_BYTES, size, 3);
}

static void sixty_four_megabytes(struct ct *t)
{
	large(t, 64 << 20);
}

static void two_gigabytes(struct ct *t)
{
	large(t, 1ull << 31);
}

#define ALL (CT_RC | CT_UC | CT_UD)

const struct ct_case ct_send_cases[] = {
	{ "a SEND of every size arrives intact", every_size, ALL | CT_IB },
	{ "a SEND writes nothing behind its message", beyond_stays_untouched, ALL },
	{ "a SEND that fits the receive exactly arrives", exact_fit, ALL },
	{ "SEND_WITH_IMM carries its immediate data", immediate, ALL | CT_IB },
	{ "inline data is taken at the post, without an lkey", inline_data, ALL | CT_IB },
	{ "inline data is kept while the message waits", inline_data_waits, CT_RC },
	{ "a SEND without SGEs is an empty message", no_sge_at_all, ALL },
	{ "messages cross in both directions", both_directions, ALL | CT_IB },
	{ "a SEND of 64 MB arrives intact", sixty_four_megabytes, CT_RC },
	{ "a SEND of 2 GiB arrives intact", two_gigabytes, CT_RC | CT_HUGE },
	{ 0 },
};

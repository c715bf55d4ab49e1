/* SPDX-License-Identifier: BSD-2-Clause */
/* Scatter and gather: the bytes of a message are one string, however either side cuts it. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

/* Cuts `length` into `count` pieces of odd sizes, one byte apart in memory. */
static int cut(const struct ct_end *e, uint64_t offset, uint32_t length, int count,
	       struct ibv_sge *sge, uint64_t *offsets)
{
	uint32_t left = length;

	for (int i = 0; i < count; i++) {
		uint32_t piece = i == count - 1 ? left : left / (count - i) | 1;

		if (piece > left || i % 5 == 3)
			piece = i == count - 1 ? left : 0; /* empty pieces are legal too */
		sge[i] = ct_sge(e, offset, piece);
		offsets[i] = offset;
		offset += piece + 1;
		left -= piece;
	}
	return count;
}

/* The pieces of a message are filled and compared as one pattern by way of a linear copy. */
static void pieces_move(struct ct_end *e, const struct ibv_sge *sge, const uint64_t *offsets,
			int count, uint64_t linear, bool gather)
{
	for (int i = 0; i < count; i++) {
		for (uint32_t at = 0; at < sge[i].length; at += 8) {
			uint64_t piece = offsets[i] + at, flat = linear + at;
			uint32_t n = sge[i].length - at < 8 ? sge[i].length - at : 8;
			uint64_t from = ct_peek(e, gather ? flat : piece);
			uint64_t to = ct_peek(e, gather ? piece : flat);

			memcpy(&to, &from, n);
			ct_poke(e, gather ? piece : flat, to);
		}
		linear += sge[i].length;
	}
}

static void transfer(struct ct_link *l, uint32_t size, int send_pieces, int recv_pieces)
{
	struct ibv_sge from[CT_SGE_MAX], to[CT_SGE_MAX];
	uint64_t from_at[CT_SGE_MAX], to_at[CT_SGE_MAX];
	uint32_t headroom = ct_headroom(l);
	struct ibv_recv_wr recv = { .wr_id = 2, .sg_list = to, .num_sge = recv_pieces }, *bad;
	struct ibv_send_wr wr;

	cut(l->a.end, 0, size, send_pieces, from, from_at);
	cut(l->b.end, TARGET, headroom + size, recv_pieces, to, to_at);
	ct_fill(l->a.end, 1 << 20, size, size);
	pieces_move(l->a.end, from, from_at, send_pieces, 1 << 20, true);
	CT_EQ(ct_post_recv(&l->b, &recv, &bad), 0);
	wr = ct_wr(l, IBV_WR_SEND, 1, from, send_pieces);
	ct_post(&l->a, &wr);
	ct_sent(l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_got(l, 2, IBV_WC_SUCCESS).byte_len, headroom + size);
	pieces_move(l->b.end, to, to_at, recv_pieces, 1 << 20, false);
	ct_same(l->b.end, (1 << 20) + headroom, size, size);
}

static void open_wide(struct ct *t, struct ct_link *l)
{
	struct ct_opts o = ct_defaults(t);
	int limit = t->near->attr.max_sge < CT_SGE_MAX ? t->near->attr.max_sge : CT_SGE_MAX;

	o.cap.max_send_sge = o.cap.max_recv_sge = limit;
	o.cap.max_send_wr = o.cap.max_recv_wr = 8;
	o.cap.max_inline_data = 128;
	ct_link_open(t, l, &o);
}

static void sends(struct ct *t)
{
	static const uint32_t sizes[] = { 1, 28, 29, 64, 200, 256, 300, 1000 };
	static const int counts[][2] = { { 1, 2 }, { 2, 1 }, { 3, 4 }, { 4, 3 } };
	struct ct_link l;

	open_wide(t, &l);
	for (int i = 0; i < CT_COUNT(sizes); i++)
		for (int k = 0; k < CT_COUNT(counts); k++)
			transfer(&l, sizes[i], counts[k][0], counts[k][1]);
}

static void sends_at_the_limit(struct ct *t)
{
	struct ct_link l;
	int limit;

	open_wide(t, &l);
	limit = t->near->attr.max_sge < CT_SGE_MAX ? t->near->attr.max_sge : CT_SGE_MAX;
	transfer(&l, 1000, limit, 1);
	transfer(&l, 1000, 1, limit);
	transfer(&l, 200, limit, limit);
	transfer(&l, 24, limit, limit - 1);
}

static void inline_gathers(struct ct *t)
{
	struct ibv_sge sge[3];
	struct ibv_send_wr wr;
	struct ct_link l;

	open_wide(t, &l);
	ct_fill(t->near, 0, 60, 1);
	sge[0] = ct_sge(t->near, 0, 13);
	sge[1] = ct_sge(t->near, 13, 0);
	sge[2] = ct_sge(t->near, 13, 47);
	wr = ct_wr(&l, IBV_WR_SEND, 1, sge, 3);
	wr.send_flags |= IBV_SEND_INLINE;
	ct_recv(&l.b, 2, TARGET, 200);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 2, IBV_WC_SUCCESS);
	ct_same(t->far, TARGET + ct_headroom(&l), 60, 1);
}

static void write_gathers(struct ct *t)
{
	struct ibv_sge sge[CT_SGE_MAX];
	uint64_t at[CT_SGE_MAX];
	struct ibv_send_wr wr;
	struct ct_link l;

	open_wide(t, &l);
	for (int count = 2; count <= 32 && count <= t->near->attr.max_sge; count *= 2) {
		cut(t->near, 0, 3001, count, sge, at);
		ct_fill(t->near, 1 << 20, 3001, count);
		pieces_move(t->near, sge, at, count, 1 << 20, true);
		wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, sge, count);
		ct_aim(&wr, t->far->mr.addr + TARGET + 5, t->far->mr.rkey);
		ct_recv(&l.b, 9, 0, 8);
		ct_post(&l.a, &wr);
		ct_sent(&l, 1, IBV_WC_SUCCESS);
		ct_do(&l, IBV_WR_SEND, 2, 0, 0); /* UC: what was written before has arrived now */
		ct_sent(&l, 2, IBV_WC_SUCCESS);
		ct_got(&l, 9, IBV_WC_SUCCESS);
		ct_same(t->far, TARGET + 5, 3001, count);
	}
}

static void read_scatters(struct ct *t)
{
	struct ibv_sge sge[CT_SGE_MAX];
	uint64_t at[CT_SGE_MAX];
	struct ibv_send_wr wr;
	struct ct_link l;

	open_wide(t, &l);
	for (int count = 2; count <= 32 && count <= t->near->attr.max_sge; count *= 2) {
		cut(t->near, 0, 3001, count, sge, at);
		ct_fill(t->far, TARGET + 3, 3001, count);
		wr = ct_wr(&l, IBV_WR_RDMA_READ, 1, sge, count);
		ct_aim(&wr, t->far->mr.addr + TARGET + 3, t->far->mr.rkey);
		ct_post(&l.a, &wr);
		ct_sent(&l, 1, IBV_WC_SUCCESS);
		pieces_move(t->near, sge, at, count, 1 << 20, false);
		ct_same(t->near, 1 << 20, 3001, count);
	}
}

const struct ct_case ct_sge_cases[] = {
	{ "a SEND is gathered and scattered, however either side cuts it", sends,
	  CT_RC | CT_UC | CT_UD },
	{ "as many SGEs as the device reports work on both sides", sends_at_the_limit,
	  CT_RC | CT_UC | CT_UD },
	{ "inline data is gathered", inline_gathers, CT_RC | CT_UC | CT_UD },
	{ "a WRITE is gathered", write_gathers, CT_RC | CT_UC },
	{ "a READ is scattered", read_scatters, CT_RC },
	{ 0 },
};

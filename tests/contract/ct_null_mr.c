/* SPDX-License-Identifier: BSD-2-Clause */
/* Null regions: reads give zeros, writes vanish. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static struct ibv_mr *make(struct ct *t)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(ct_object(t->near, t->near->pd));

	CT_TRUE(mr != NULL);
	return mr;
}

static void object(struct ct *t)
{
	struct ibv_mr *mr = make(t), *other = make(t);
	struct ibv_mw *mw = ibv_alloc_mw(mr->pd, IBV_MW_TYPE_1);

	CT_TRUE(mr->length == SIZE_MAX);
	CT_TRUE(mr->lkey != other->lkey && mr->lkey != t->near->mr.lkey);
	CT_TRUE(mr->pd == ct_object(t->near, t->near->pd));
	CT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
	      IBV_REREG_MR_ERR_INPUT);
	CT_EQ(errno, EINVAL);
	CT_EQ(ibv_dealloc_mw(mw), 0);
	CT_EQ(ibv_dereg_mr(mr), 0);
	CT_EQ(ibv_dereg_mr(other), 0);
}

/* Any address will do: there is nothing behind it. */
static const uint64_t addresses[] = { 0, 8, 0x123456789, UINT64_MAX - (1 << 20) };

/* The message is a piece of real memory, then nothing, then real memory again. */
static void sources(struct ct *t, uint32_t hole)
{
	struct ibv_mr *null = make(t);
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	uint32_t head, length = 20 + hole + 30;

	o.cap.max_send_sge = 3;
	ct_link_open(t, &l, &o);
	head = ct_headroom(&l);
	ct_fill(t->near, 0, 100, 1);
	for (int i = 0; i < CT_COUNT(addresses); i++) {
		struct ibv_sge list[3] = { ct_sge(t->near, 0, 20),
					   { addresses[i], hole, null->lkey },
					   ct_sge(t->near, 20, 30) };
		struct ibv_send_wr wr = ct_wr(&l, IBV_WR_SEND, i, list, 3);
		uint8_t bytes[256];

		ct_fill(t->far, TARGET, length + head, 2);
		ct_recv(&l.b, i, TARGET, length + head);
		ct_post(&l.a, &wr);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		CT_EQ(ct_got(&l, i, IBV_WC_SUCCESS).byte_len, length + head);
		ct_same(t->far, TARGET + head, 20, 1);
		for (uint32_t at = 0; at < hole; at += sizeof(bytes)) {
			uint32_t part = hole - at < sizeof(bytes) ? hole - at : sizeof(bytes);

			ct_peek_bytes(t->far, TARGET + head + 20 + at, part, bytes);
			for (uint32_t k = 0; k < part; k++)
				CT_EQ(bytes[k], 0);
		}
	}
	CT_EQ(ibv_dereg_mr(null), 0);
}

static void zeros(struct ct *t)
{
	sources(t, 10);
	sources(t, 300);
	if (t->type != IBV_QPT_UD)
		sources(t, 70000);
}

/* Of an arriving message only what the real element takes is kept. */
static void sinks(struct ct *t)
{
	static const uint32_t sizes[] = { 8, 24, 100, 1000, 100000 };
	struct ibv_mr *null = make(t);
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, in;
	uint32_t head;

	o.cap.max_recv_sge = 3;
	ct_link_open(t, &l, &o);
	in = ct_reverse(&l);
	head = ct_headroom(&in);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		uint32_t skip = sizes[i] / 2, keep = sizes[i] - skip;
		struct ibv_sge list[3] = { ct_sge(t->near, TARGET, head),
					   { addresses[i % CT_COUNT(addresses)], skip, null->lkey },
					   ct_sge(t->near, TARGET + head, keep) };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = list, .num_sge = 3 }, *bad;

		if (sizes[i] > ct_message_max(&in))
			break;
		ct_fill(t->far, 0, sizes[i], i);
		CT_EQ(ct_post_recv(&in.b, &wr, &bad), 0);
		ct_send(&in, i, 0, sizes[i]);
		ct_sent(&in, i, IBV_WC_SUCCESS);
		ct_got(&in, i, IBV_WC_SUCCESS);
		/* A pattern is told by its offset: compare with the far end's own bytes. */
		for (uint32_t at = 0; at < keep && at < 1000; at++) {
			uint8_t here, there;

			ct_peek_bytes(t->near, TARGET + head + at, 1, &here);
			ct_peek_bytes(t->far, skip + at, 1, &there);
			CT_EQ(here, there);
			at += at < 16 ? 0 : 100;
		}
	}
	CT_EQ(ibv_dereg_mr(null), 0);
}

static void written_then_read_is_zero(struct ct *t)
{
	struct ibv_mr *null = make(t);
	struct ibv_sge sge = { 0, 4096, null->lkey };
	struct ct_link l;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	ct_fill(t->far, TARGET, 4096, 5);
	wr = ct_wr(&l, IBV_WR_RDMA_READ, 1, &sge, 1);
	ct_aim(&wr, t->far->mr.addr + TARGET, t->far->mr.rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 2, &sge, 1);
	ct_aim(&wr, t->far->mr.addr + TARGET, t->far->mr.rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	for (uint64_t at = 0; at < 4096; at += 8)
		CT_EQ(ct_peek(t->far, TARGET + at), 0);
	CT_EQ(ibv_dereg_mr(null), 0);
}

static void atomic_result_vanishes(struct ct *t)
{
	struct ibv_mr *null = make(t);
	struct ibv_sge sge = { 0, 8, null->lkey };
	struct ct_link l;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	ct_poke(t->far, TARGET, 41);
	wr = ct_wr(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, 1);
	ct_aim(&wr, t->far->mr.addr + TARGET, t->far->mr.rkey);
	wr.wr.atomic.compare_add = 1;
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->far, TARGET), 42);
	CT_EQ(ibv_dereg_mr(null), 0);
}

static void long_messages(struct ct *t)
{
	enum { LONG = 100 << 20 };
	struct ibv_mr *null = make(t);
	struct ibv_sge sge = { 0, LONG, null->lkey };
	struct ct_mr far;
	struct ct_link l;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	/* There is no such arena: pieces of it, over and over. */
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, 0, CT_ARENA_BYTES, CT_ACCESS_ALL, &far) > 0);
	sge.length = CT_ARENA_BYTES;
	for (int i = 0; i < LONG / CT_ARENA_BYTES; i++) {
		wr = ct_wr(&l, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i, &sge, 1);
		ct_aim(&wr, far.addr, far.rkey);
		ct_post(&l.a, &wr);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	CT_EQ(ct_peek(t->far, 0), 0);
	CT_EQ(ct_peek(t->far, CT_ARENA_BYTES - 8), 0);
	CT_EQ(ibv_dereg_mr(null), 0);
}

static void no_rkey(struct ct *t)
{
	struct ibv_mr *null = make(t);
	struct ibv_sge sge = ct_sge(t->far, 0, 8);
	struct ct_link l, in;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	wr = ct_wr(&in, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_aim(&wr, 0, null->rkey);
	ct_post(&in.a, &wr);
	ct_sent(&in, 1, IBV_WC_REM_ACCESS_ERR);
	ct_event(t->near, IBV_EVENT_QP_ACCESS_ERR, l.a.handle);
	CT_EQ(ibv_dereg_mr(null), 0);
}

static void gone(struct ct *t)
{
	struct ibv_mr *null = make(t);
	struct ibv_sge sge = { 0, 8, null->lkey };
	struct ct_link l;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	CT_EQ(ibv_dereg_mr(null), 0);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_LOC_PROT_ERR);
}

const struct ct_case ct_null_mr_cases[] = {
	{ "a null MR is an object like others, and cannot be changed", object, CT_SOLO },
	{ "what is sent from a null MR is zeros", zeros, CT_RC | CT_UC | CT_UD },
	{ "what is received into a null MR vanishes", sinks, CT_RC | CT_UC | CT_UD },
	{ "what was read into a null MR does not come back", written_then_read_is_zero, CT_RC },
	{ "the result of an ATOMIC may go into a null MR", atomic_result_vanishes, CT_RC },
	{ "a null MR is as long as any message", long_messages, CT_RC },
	{ "a null MR has no rkey", no_rkey, CT_RC },
	{ "a null MR that is gone is gone", gone, CT_RC },
	{ 0 },
};

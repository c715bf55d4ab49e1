/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMA WRITE and READ. */
#include <sched.h>

#include "ct.h"

static const uint32_t sizes[] = { 0,   1,    7,    8,    28,   32,   64,    255,          256,
				  257, 1023, 1024, 1025, 4096, 4097, 65536, (1 << 20) + 3 };

static const uint64_t TARGET = 4 << 20;

static struct ibv_send_wr aimed(struct ct_link *l, enum ibv_wr_opcode opcode, uint64_t wr_id,
				struct ibv_sge *sge, uint64_t remote_offset)
{
	struct ibv_send_wr wr = ct_wr(l, opcode, wr_id, sge, 1);

	ct_aim(&wr, l->b.end->mr.addr + remote_offset, l->b.end->mr.rkey);
	return wr;
}

/* What was sent before this message has arrived when it has: also on UC. */
static void settle(struct ct_link *l)
{
	ct_recv(&l->b, 0xab, CT_ARENA_BYTES - 64, 64);
	ct_send(l, 0xcd, 0, 0);
	ct_sent(l, 0xcd, IBV_WC_SUCCESS);
	ct_got(l, 0xab, IBV_WC_SUCCESS);
}

static void write_every_size(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		struct ibv_sge sge = ct_sge(t->near, i, sizes[i]);
		struct ibv_send_wr wr = aimed(&l, IBV_WR_RDMA_WRITE, i, &sge, TARGET + 3 * i);

		ct_fill(t->near, i, sizes[i], i);
		ct_fill(t->far, TARGET, 8, 77);
		ct_poke(t->far, TARGET + 3 * i + sizes[i], 0x5a5a5a5a5a5a5a5a);
		ct_post(&l.a, &wr);
		CT_EQ(ct_sent(&l, i, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
		settle(&l);
		ct_same(t->far, TARGET + 3 * i, sizes[i], i);
		CT_EQ(ct_peek(t->far, TARGET + 3 * i + sizes[i]), 0x5a5a5a5a5a5a5a5a);
		ct_none(t->far, l.b.rcq); /* the target is not told */
	}
}

static void write_inline(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge sge = { 0 };
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	sge = ct_sge(t->near, 0, 50);
	sge.lkey = 0;
	wr = aimed(&l, IBV_WR_RDMA_WRITE, 1, &sge, TARGET);
	wr.send_flags |= IBV_SEND_INLINE;
	ct_fill(t->near, 0, 50, 1);
	ct_post(&l.a, &wr);
	ct_fill(t->near, 0, 50, 2);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	settle(&l);
	ct_same(t->far, TARGET, 50, 1);
}

static void write_with_imm(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		struct ibv_sge sge = ct_sge(t->near, 0, sizes[i]);
		struct ibv_send_wr wr = aimed(&l, IBV_WR_RDMA_WRITE_WITH_IMM, i, &sge, TARGET);
		struct ibv_wc wc;

		wr.imm_data = 0xabcd00 + i;
		ct_fill(t->near, 0, sizes[i], i);
		ct_fill(t->far, 64, 64, 50);
		ct_recv(&l.b, 100 + i, 64, 64);
		ct_post(&l.a, &wr);
		CT_EQ(ct_sent(&l, i, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
		wc = ct_got(&l, 100 + i, IBV_WC_SUCCESS);
		CT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
		CT_EQ(wc.imm_data, 0xabcd00 + i);
		CT_EQ(wc.byte_len, sizes[i]);
		ct_same(t->far, TARGET, sizes[i], i);
		ct_same(t->far, 64, 64, 50); /* the buffer of the receive is not used */
	}
}

/* The receive may have no SGE at all: nothing is put into it. */
static void write_with_imm_and_an_empty_receive(struct ct *t)
{
	struct ibv_recv_wr recv = { .wr_id = 5 }, *bad;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), 0);
	ct_fill(t->near, TARGET, 1000, 1);
	ct_do(&l, IBV_WR_RDMA_WRITE_WITH_IMM, 1, TARGET, 1000);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_got(&l, 5, IBV_WC_SUCCESS).byte_len, 1000);
	ct_same(t->far, TARGET, 1000, 1);
}

static void read_every_size(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		struct ibv_sge sge = ct_sge(t->near, 5 * i, sizes[i]);
		struct ibv_send_wr wr = aimed(&l, IBV_WR_RDMA_READ, i, &sge, TARGET + i);
		struct ibv_wc wc;

		ct_fill(t->far, TARGET + i, sizes[i], i);
		ct_poke(t->near, 5 * i + sizes[i], 0x5a5a5a5a5a5a5a5a);
		ct_post(&l.a, &wr);
		wc = ct_sent(&l, i, IBV_WC_SUCCESS);
		CT_EQ(wc.opcode, IBV_WC_RDMA_READ);
		CT_EQ(wc.byte_len, sizes[i]);
		ct_same(t->near, 5 * i, sizes[i], i);
		CT_EQ(ct_peek(t->near, 5 * i + sizes[i]), 0x5a5a5a5a5a5a5a5a);
		ct_none(t->far, l.b.rcq);
	}
}

/* With nothing to touch, the key is not looked at. */
static void zero_length_ignores_the_key(struct ct *t)
{
	struct ibv_send_wr wr;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, NULL, 0);
	ct_aim(&wr, 0, 0xbadbad);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	if (l.a.type == IBV_QPT_RC) {
		wr = ct_wr(&l, IBV_WR_RDMA_READ, 2, NULL, 0);
		ct_aim(&wr, 0, 0xbadbad);
		ct_post(&l.a, &wr);
		ct_sent(&l, 2, IBV_WC_SUCCESS);
	}
	ct_usable(&l);
}

/* The rights of an MR are those of the remote side; an MR without any is enough to send from. */
static void source_needs_no_rights(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->near, t->near->pd, 0, 4096, 0, &mr) > 0);
	ct_fill(t->near, 0, 500, 1);
	sge = (struct ibv_sge){ .addr = mr.addr, .length = 500, .lkey = mr.lkey };
	wr = aimed(&l, IBV_WR_RDMA_WRITE, 1, &sge, TARGET);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	settle(&l);
	ct_same(t->far, TARGET, 500, 1);
}

static void read_sees_an_earlier_write(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 50; i++) {
		uint32_t size = 1 + i * 397;
		struct ibv_sge from = ct_sge(t->near, 0, size), to = ct_sge(t->near, 1 << 20, size);
		struct ibv_send_wr write = aimed(&l, IBV_WR_RDMA_WRITE, 1, &from, TARGET);
		struct ibv_send_wr read = aimed(&l, IBV_WR_RDMA_READ, 2, &to, TARGET);

		write.next = &read;
		ct_fill(t->near, 0, size, i);
		ct_post(&l.a, &write);
		ct_sent(&l, 1, IBV_WC_SUCCESS);
		ct_sent(&l, 2, IBV_WC_SUCCESS);
		ct_same(t->near, 1 << 20, size, i);
	}
}

static void send_comes_after_an_earlier_write(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < 50; i++) {
		uint32_t size = 1 + i * 811;
		struct ibv_sge sge = ct_sge(t->near, 0, size);
		struct ibv_send_wr send = ct_wr(&l, IBV_WR_SEND, 2, NULL, 0);
		struct ibv_send_wr write = aimed(&l, IBV_WR_RDMA_WRITE, 1, &sge, TARGET);

		write.next = &send;
		ct_fill(t->near, 0, size, i);
		ct_recv(&l.b, 3, 0, 64);
		ct_post(&l.a, &write);
		ct_got(&l, 3, IBV_WC_SUCCESS);
		ct_same(t->far, TARGET, size, i);
		ct_sent(&l, 1, IBV_WC_SUCCESS);
		ct_sent(&l, 2, IBV_WC_SUCCESS);
	}
}

/* Many programs poll the last byte of a buffer for the arrival of all of it. */
static void last_byte_is_written_last(struct ct *t)
{
	enum { ROUNDS = 200 };
	static const uint32_t lengths[] = { 9, 64, 100, 1024, 4096, 10000 };
	const uint64_t reply = TARGET + (1 << 20);
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (int i = 0; i < CT_COUNT(lengths); i++) {
		struct ibv_sge sge = ct_sge(t->near, 0, lengths[i]);
		struct ibv_send_wr wr = aimed(&l, IBV_WR_RDMA_WRITE, 1, &sge, TARGET);

		ct_poke(t->far, TARGET + lengths[i] - 8, 0);
		ct_poke(t->far, reply, 0);
		ct_watch_start(t->far, TARGET, lengths[i], reply, ROUNDS);
		for (int round = 1; round <= ROUNDS; round++) {
			for (uint64_t at = 0; at < lengths[i]; at += 8)
				ct_poke(t->near, at, 0x0101010101010101ull * round);
			ct_post(&l.a, &wr);
			ct_sent(&l, 1, IBV_WC_SUCCESS);
			while (ct_peek(t->far, reply) != (uint64_t)round)
				sched_yield();
		}
		CT_EQ(ct_watch_join(t->far), 0);
	}
}

static void sixty_four_megabytes(struct ct *t)
{
	const uint64_t size = 64 << 20;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ct_mr from, to;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->near, t->near->pd, CT_ARENA_BYTES, size, CT_ACCESS_ALL, &from) > 0);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, CT_ARENA_BYTES, size, CT_ACCESS_ALL, &to) > 0);
	ct_fill(t->near, CT_ARENA_BYTES, size, 1);
	sge = (struct ibv_sge){ .addr = from.addr, .length = size, .lkey = from.lkey };
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_aim(&wr, to.addr, to.rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_same(t->far, CT_ARENA_BYTES, size, 1);
	ct_fill(t->far, CT_ARENA_BYTES, size, 2);
	wr.opcode = IBV_WR_RDMA_READ;
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_same(t->near, CT_ARENA_BYTES, size, 2);
}

const struct ct_case ct_rdma_cases[] = {
	{ "a WRITE of every size arrives intact and unnoticed", write_every_size,
	  CT_RC | CT_UC | CT_IB },
	{ "inline data of a WRITE is taken at the post", write_inline, CT_RC | CT_UC },
	{ "WRITE_WITH_IMM writes, and consumes a receive", write_with_imm, CT_RC | CT_UC | CT_IB },
	{ "WRITE_WITH_IMM needs no buffer in the receive", write_with_imm_and_an_empty_receive,
	  CT_RC | CT_UC },
	{ "a READ of every size arrives intact and unnoticed", read_every_size, CT_RC | CT_IB },
	{ "a zero-length WRITE or READ does not look at the key", zero_length_ignores_the_key,
	  CT_RC | CT_UC },
	{ "an MR without rights is good enough to send from", source_needs_no_rights,
	  CT_RC | CT_UC },
	{ "a READ sees an earlier WRITE", read_sees_an_earlier_write, CT_RC },
	{ "when a SEND arrives, an earlier WRITE has arrived", send_comes_after_an_earlier_write,
	  CT_RC | CT_UC },
	{ "the last byte of a WRITE is written last", last_byte_is_written_last, CT_RC },
	{ "a WRITE and a READ of 64 MB arrive intact", sixty_four_megabytes, CT_RC },
	{ 0 },
};

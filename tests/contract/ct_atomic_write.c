/* SPDX-License-Identifier: BSD-2-Clause */
/* ATOMIC_WRITE: 8 aligned bytes, in order, answered like a READ. */
#include "ct.h"

static const uint64_t WORD = 4096, VALUE = 1024;

static struct ibv_send_wr atomic_write(const struct ct_link *l, uint64_t wr_id, struct ibv_sge *sge)
{
	struct ibv_send_wr wr;

	*sge = ct_sge(l->a.end, VALUE + wr_id * 8, 8);
	wr = ct_wr(l, IBV_WR_ATOMIC_WRITE, wr_id, sge, 1);
	wr.wr.rdma.remote_addr = l->b.end->mr.addr + WORD;
	wr.wr.rdma.rkey = l->b.end->mr.rkey;
	return wr;
}

static void run(const struct ct_link *l, uint64_t value)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = atomic_write(l, 1, &sge);
	struct ibv_wc wc;

	ct_poke(l->a.end, VALUE + 8, value);
	ct_post(&l->a, &wr);
	wc = ct_sent(l, 1, IBV_WC_SUCCESS);
	CT_EQ(wc.opcode, IBV_WC_ATOMIC_WRITE);
	CT_EQ(ct_peek(l->b.end, WORD), value);
}

static void writes_a_word(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_poke(t->far, WORD - 8, 0xaaaa);
	ct_poke(t->far, WORD + 8, 0xbbbb);
	run(&l, 0x1122334455667788);
	run(&l, 0);
	run(&l, UINT64_MAX);
	CT_EQ(ct_peek(t->far, WORD - 8), 0xaaaa);
	CT_EQ(ct_peek(t->far, WORD + 8), 0xbbbb);
	ct_usable(&l);
}

/* The value may come inline or from several elements; builders copy it. */
static void value_from_anywhere(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr;
	uint64_t value;

	ct_link_open(t, &l, NULL);
	sge[0] = ct_sge(t->near, 0, 3);
	sge[1] = ct_sge(t->near, 64, 5);
	ct_fill(t->near, 0, 128, 7);
	wr = ct_wr(&l, IBV_WR_ATOMIC_WRITE, 1, sge, 2);
	wr.wr.rdma.remote_addr = t->far->mr.addr + WORD;
	wr.wr.rdma.rkey = t->far->mr.rkey;
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_peek_bytes(t->near, 0, 3, &value);
	ct_peek_bytes(t->near, 64, 5, (char *)&value + 3);
	CT_EQ(ct_peek(t->far, WORD), value);

	wr = atomic_write(&l, 2, sge);
	wr.send_flags |= IBV_SEND_INLINE;
	ct_poke(t->near, VALUE + 16, 4711);
	ct_post(&l.a, &wr);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->far, WORD), 4711);
}

/* WRITE, ATOMIC_WRITE, FETCH_AND_ADD, READ of the same word: each sees what came before. */
static void keeps_its_place(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge sge[4];
	struct ibv_send_wr wr[4];

	ct_link_open(t, &l, NULL);
	for (uint64_t i = 1; i < 50; i++) {
		sge[0] = ct_sge(t->near, 0, 8);
		wr[0] = ct_wr(&l, IBV_WR_RDMA_WRITE, 0, &sge[0], 1);
		ct_aim(&wr[0], t->far->mr.addr + WORD, t->far->mr.rkey);
		wr[1] = atomic_write(&l, 1, &sge[1]);
		sge[2] = ct_sge(t->near, 16, 8);
		wr[2] = ct_wr(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, &sge[2], 1);
		ct_aim(&wr[2], t->far->mr.addr + WORD, t->far->mr.rkey);
		wr[2].wr.atomic.compare_add = 5;
		sge[3] = ct_sge(t->near, 24, 8);
		wr[3] = ct_wr(&l, IBV_WR_RDMA_READ, 3, &sge[3], 1);
		ct_aim(&wr[3], t->far->mr.addr + WORD, t->far->mr.rkey);
		for (int k = 0; k < 3; k++)
			wr[k].next = &wr[k + 1];
		ct_poke(t->near, 0, 1);
		ct_poke(t->near, VALUE + 8, i * 1000);
		ct_post(&l.a, wr);
		for (uint64_t k = 0; k < 4; k++)
			ct_sent(&l, k, IBV_WC_SUCCESS);
		CT_EQ(ct_peek(t->near, 16), i * 1000);
		CT_EQ(ct_peek(t->near, 24), i * 1000 + 5);
	}
}

/* More than may be on their way at once, all to one word: the last one stays. */
static void many_in_a_row(struct ct *t)
{
	enum { WRITES = 40 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.max_rd_atomic = o.max_dest_rd_atomic = 2;
	ct_link_open(t, &l, &o);
	for (uint64_t i = 0; i < WRITES; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = atomic_write(&l, i, &sge);

		ct_poke(t->near, VALUE + i * 8, i + 1);
		ct_post(&l.a, &wr);
	}
	for (uint64_t i = 0; i < WRITES; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->far, WORD), WRITES);
}

static void refused(struct ct *t, struct ct_link *l, struct ibv_send_wr *wr,
		    enum ibv_wc_status status)
{
	uint64_t before = ct_peek(t->far, WORD);

	ct_post(&l->a, wr);
	ct_sent(l, wr->wr_id, status);
	ct_wait_state(&l->a, IBV_QPS_ERR);
	CT_EQ(ct_peek(t->far, WORD), before);
}

static void misaligned(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	wr = atomic_write(&l, 1, &sge);
	wr.wr.rdma.remote_addr += 4;
	refused(t, &l, &wr, IBV_WC_REM_INV_REQ_ERR);
	ct_wait_state(&l.b, IBV_QPS_ERR);
}

static void without_the_right(struct ct *t)
{
	struct ct_link l;
	struct ct_opts o = ct_defaults(t);
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ct_mr mr;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, WORD, 64,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				  IBV_ACCESS_REMOTE_ATOMIC,
			  &mr) > 0);
	wr = atomic_write(&l, 1, &sge);
	wr.wr.rdma.rkey = mr.rkey;
	refused(t, &l, &wr, IBV_WC_REM_ACCESS_ERR);

	o.access_b &= ~IBV_ACCESS_REMOTE_WRITE;
	ct_link_open(t, &l, &o);
	wr = atomic_write(&l, 2, &sge);
	refused(t, &l, &wr, IBV_WC_REM_INV_REQ_ERR);
}

static void outside_of_the_region(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ct_mr mr;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, WORD, 60, CT_ACCESS_ALL, &mr) > 0);
	wr = atomic_write(&l, 1, &sge);
	wr.wr.rdma.rkey = mr.rkey;
	wr.wr.rdma.remote_addr = mr.addr + 56; /* 4 bytes of 8 */
	refused(t, &l, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void not_eight_bytes(struct ct *t)
{
	static const uint32_t lengths[] = { 0, 4, 16 };
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	for (int i = 0; i < CT_COUNT(lengths); i++) {
		struct ct_link l;

		ct_link_open(t, &l, NULL);
		wr = atomic_write(&l, 1, &sge);
		sge.length = lengths[i];
		refused(t, &l, &wr, IBV_WC_LOC_LEN_ERR);
	}
}

static void bad_lkey(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	wr = atomic_write(&l, 1, &sge);
	sge.lkey ^= 0x80;
	refused(t, &l, &wr, IBV_WC_LOC_PROT_ERR);
}

static void not_on_uc(struct ct *t)
{
	struct ct_link l;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	wr = atomic_write(&l, 1, &sge);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_LOC_QP_OP_ERR);
}

const struct ct_case ct_atomic_write_cases[] = {
	{ "ATOMIC_WRITE writes 8 bytes and nothing beside them", writes_a_word, CT_RC | CT_IB },
	{ "the value of an ATOMIC_WRITE may be scattered or inline", value_from_anywhere, CT_RC },
	{ "ATOMIC_WRITE keeps its place between WRITE, atomic and READ", keeps_its_place, CT_RC },
	{ "more ATOMIC_WRITEs than max_rd_atomic wait for their turn", many_in_a_row, CT_RC },
	{ "an ATOMIC_WRITE to a misaligned address is REM_INV_REQ", misaligned, CT_RC },
	{ "an ATOMIC_WRITE needs the remote write right", without_the_right, CT_RC },
	{ "an ATOMIC_WRITE beyond the MR is REM_ACCESS", outside_of_the_region, CT_RC },
	{ "an ATOMIC_WRITE of other than 8 bytes is LOC_LEN", not_eight_bytes, CT_RC },
	{ "an ATOMIC_WRITE with a bad lkey is LOC_PROT", bad_lkey, CT_RC },
	{ "UC has no ATOMIC_WRITE", not_on_uc, CT_UC },
	{ 0 },
};

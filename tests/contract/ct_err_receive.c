/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives that cannot take their message: too short, or a buffer that is not good. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static void send_with(struct ct_link *l, enum ibv_wr_opcode opcode, uint32_t size)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, size);
	struct ibv_send_wr wr[2];

	wr[0] = ct_wr(l, opcode, 1, &sge, 1);
	wr[0].send_flags = l->a.type == IBV_QPT_RC ? 0 : IBV_SEND_SIGNALED;
	wr[0].next = &wr[1];
	wr[1] = ct_wr(l, IBV_WR_SEND, 2, &sge, 1);
	wr[1].sg_list = NULL;
	wr[1].num_sge = 0;
	ct_post(&l->a, wr);
}

static void message_too_long(struct ct *t)
{
	static const uint32_t excess[][2] = { { 0, 1 },      { 8, 9 },     { 28, 29 },
					      { 100, 5000 }, { 256, 257 }, { 4096, 100000 } };
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM };

	for (int i = 0; i < CT_COUNT(excess) * 2; i++) {
		uint32_t room = excess[i / 2][0], size = excess[i / 2][1];
		struct ct_link l, other;

		ct_link_open(t, &l, NULL);
		ct_link_open(t, &other, NULL);
		ct_fill(t->far, TARGET + room, 4096, 1);
		ct_recv(&l.b, 10, TARGET, room);
		ct_recv(&l.b, 11, TARGET, room);
		ct_recv(&l.b, 12, TARGET, room);
		send_with(&l, opcodes[i % 2], size);
		ct_sent(&l, 1, IBV_WC_REM_INV_REQ_ERR);
		ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
		ct_got(&l, 10, IBV_WC_LOC_LEN_ERR);
		ct_got(&l, 11, IBV_WC_WR_FLUSH_ERR);
		ct_got(&l, 12, IBV_WC_WR_FLUSH_ERR);
		ct_same(t->far, TARGET + room, 4096, 1); /* nothing behind the buffer */
		CT_EQ(ct_qp_state(&l.a), IBV_QPS_ERR);
		CT_EQ(ct_qp_state(&l.b), IBV_QPS_ERR);
		ct_no_event(t->far);
		ct_no_event(t->near);
		ct_usable(&other);
	}
}

/* Dropped: the receive is still there for the next message, which fits. */
static void unreliable_message_too_long(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_fill(t->near, 0, 64, 5);
	ct_recv(&l.b, 10, TARGET, ct_headroom(&l) + 64);
	ct_send(&l, 1, 0, 65);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_send(&l, 2, 0, 1000);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_send(&l, 3, 0, 64);
	ct_sent(&l, 3, IBV_WC_SUCCESS);
	CT_EQ(ct_got(&l, 10, IBV_WC_SUCCESS).byte_len, ct_headroom(&l) + 64);
	ct_same(t->far, TARGET + ct_headroom(&l), 64, 5);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_RTS);
	ct_no_event(t->far);
}

/* ---- buffers that are not good --------------------------------------------------------------- */

typedef void (*spoil_fn)(struct ct_end *e, struct ibv_sge *sge);

static void spoil_lkey(struct ct_end *e, struct ibv_sge *sge)
{
	sge->lkey ^= 0x100;
}

static void spoil_pd(struct ct_end *e, struct ibv_sge *sge)
{
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(e, ct_alloc_pd(e), TARGET, 65536, CT_ACCESS_ALL, &mr) > 0);
	sge->lkey = mr.lkey;
}

static void spoil_right(struct ct_end *e, struct ibv_sge *sge)
{
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(e, e->pd, TARGET, 65536, IBV_ACCESS_REMOTE_READ, &mr) > 0);
	sge->lkey = mr.lkey;
}

static void spoil_range(struct ct_end *e, struct ibv_sge *sge)
{
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(e, e->pd, TARGET, sge->length - 1, CT_ACCESS_ALL, &mr) > 0);
	sge->lkey = mr.lkey;
}

/* The message is as long as the receive, so that every byte of the buffer is used. */
static void check(struct ct *t, spoil_fn spoil, uint32_t size)
{
	struct ct_link l, other;
	struct ibv_sge sge;
	struct ibv_recv_wr recv, *bad;

	ct_link_open(t, &l, NULL);
	ct_link_open(t, &other, NULL);
	ct_fill(t->far, TARGET, 4096, 1);
	sge = ct_sge(t->far, TARGET, ct_headroom(&l) + size);
	spoil(t->far, &sge);
	recv = (struct ibv_recv_wr){ .wr_id = 10, .sg_list = &sge, .num_sge = 1 };
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), 0); /* not checked before it is used */
	ct_recv(&l.b, 11, TARGET, 1024);
	send_with(&l, IBV_WR_SEND, size);
	if (t->type == IBV_QPT_RC) {
		ct_sent(&l, 1, IBV_WC_REM_OP_ERR);
		ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
	} else {
		ct_sent(&l, 1, IBV_WC_SUCCESS);
		ct_sent(&l, 2, IBV_WC_SUCCESS);
	}
	ct_got(&l, 10, IBV_WC_LOC_PROT_ERR);
	ct_got(&l, 11, IBV_WC_WR_FLUSH_ERR);
	ct_wait_state(&l.b, IBV_QPS_ERR);
	if (spoil != spoil_range)
		ct_same(t->far, TARGET, 4096, 1);
	ct_usable(&other);
}

static void check_sizes(struct ct *t, spoil_fn spoil)
{
	check(t, spoil, 8);
	check(t, spoil, 28);
	check(t, spoil, 200);
	check(t, spoil, 1000);
}

static void unknown_lkey(struct ct *t)
{
	check_sizes(t, spoil_lkey);
}

static void foreign_pd(struct ct *t)
{
	check_sizes(t, spoil_pd);
}

static void not_writable(struct ct *t)
{
	check_sizes(t, spoil_right);
}

static void out_of_range(struct ct *t)
{
	check_sizes(t, spoil_range);
}

/* The buffer was good when it was posted. */
static void deregistered_after_the_post(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr;
	struct ibv_sge sge;
	struct ibv_recv_wr recv, *bad;

	ct_link_open(t, &l, NULL);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, TARGET, 65536, CT_ACCESS_ALL, &mr) > 0);
	sge = (struct ibv_sge){ .addr = mr.addr, .length = 1024, .lkey = mr.lkey };
	recv = (struct ibv_recv_wr){ .wr_id = 10, .sg_list = &sge, .num_sge = 1 };
	CT_EQ(ct_post_recv(&l.b, &recv, &bad), 0);
	CT_EQ(ct_destroy(t->far, mr.handle), 0);
	ct_fill(t->far, TARGET, 1024, 1);
	ct_send(&l, 1, 0, 8);
	ct_sent(&l, 1, t->type == IBV_QPT_RC ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
	ct_got(&l, 10, IBV_WC_LOC_PROT_ERR);
	ct_wait_state(&l.b, IBV_QPS_ERR);
	ct_same(t->far, TARGET, 1024, 1);
}

#define ALL (CT_RC | CT_UC | CT_UD)

const struct ct_case ct_err_receive_cases[] = {
	{ "a message longer than its receive: REM_INV_REQ_ERR here, LOC_LEN_ERR there",
	  message_too_long, CT_RC | CT_IB },
	{ "an unreliable message longer than its receive is dropped, the receive stays",
	  unreliable_message_too_long, CT_UC | CT_UD },
	{ "a receive with an unknown lkey: REM_OP_ERR here, LOC_PROT_ERR there", unknown_lkey,
	  ALL },
	{ "a receive with an lkey of another PD is LOC_PROT_ERR", foreign_pd, ALL },
	{ "a receive into an MR without local write is LOC_PROT_ERR", not_writable, ALL },
	{ "a receive beyond its MR is LOC_PROT_ERR", out_of_range, ALL },
	{ "a receive whose MR went away is LOC_PROT_ERR", deregistered_after_the_post, ALL },
	{ 0 },
};

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mistakes of the initiator that its own side finds: the WR fails with the status of the mistake,
 * the rest of the queue is flushed, the target does not notice.
 */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

typedef void (*spoil_fn)(struct ct_link *l, struct ibv_send_wr *wr);

/* What the mistake does to the QP: RC goes to ERR; on UC and UD only the send queue stops. */
static void check_fate(struct ct_link *l)
{
	if (l->a.type == IBV_QPT_RC) {
		ct_expect(l->a.end, l->a.rcq, 50, IBV_WC_WR_FLUSH_ERR);
		CT_EQ(ct_qp_state(&l->a), IBV_QPS_ERR);
	} else {
		ct_none(l->a.end, l->a.rcq);
		CT_EQ(ct_qp_state(&l->a), IBV_QPS_SQE);
	}
}

static struct ibv_send_wr spoiled(struct ct_link *l, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
				  spoil_fn spoil)
{
	struct ibv_send_wr wr;

	*sge = ct_sge(l->a.end, 4096, 8);
	wr = ct_wr(l, opcode, 1, sge, 1);
	if (l->a.type != IBV_QPT_UD)
		ct_aim(&wr, l->b.end->mr.addr + TARGET, l->b.end->mr.rkey);
	wr.send_flags = 0; /* an error completes all the same */
	spoil(l, &wr);
	return wr;
}

/* A good SEND, the bad WR, two more: in one list. */
static void check(struct ct *t, enum ibv_wr_opcode opcode, spoil_fn spoil,
		  enum ibv_wc_status status)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, other;
	struct ibv_send_wr wr[4];
	struct ibv_sge sge[4];

	o.cap.max_send_sge = 20;
	ct_link_open(t, &l, &o);
	ct_link_open(t, &other, &o);
	ct_fill(t->far, TARGET, 8192, 1);
	for (int i = 0; i < 4; i++) {
		ct_recv(&l.b, i, i * 1024, 1024);
		sge[i] = ct_sge(t->near, 0, 16);
		wr[i] = i == 1 ? spoiled(&l, opcode, &sge[1], spoil)
			       : ct_wr(&l, IBV_WR_SEND, i, &sge[i], 1);
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	ct_recv(&l.a, 50, 65536, 1024);
	ct_post(&l.a, wr);
	ct_sent(&l, 0, IBV_WC_SUCCESS);
	ct_sent(&l, 1, status);
	ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
	ct_sent(&l, 3, IBV_WC_WR_FLUSH_ERR);
	check_fate(&l);
	ct_got(&l, 0, IBV_WC_SUCCESS);
	ct_none(t->far, l.b.rcq);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_RTS);
	ct_same(t->far, TARGET, 8192, 1);
	ct_no_event(t->near);
	ct_no_event(t->far);
	ct_usable(&other);
}

/* The opcodes that the transport has and that read (or fill) local memory. */
static void check_each(struct ct *t, spoil_fn spoil, enum ibv_wc_status status)
{
	check(t, IBV_WR_SEND, spoil, status);
	check(t, IBV_WR_SEND_WITH_IMM, spoil, status);
	if (t->type == IBV_QPT_UD)
		return;
	check(t, IBV_WR_RDMA_WRITE, spoil, status);
	check(t, IBV_WR_RDMA_WRITE_WITH_IMM, spoil, status);
	if (t->type == IBV_QPT_UC)
		return;
	check(t, IBV_WR_RDMA_READ, spoil, status);
	check(t, IBV_WR_ATOMIC_CMP_AND_SWP, spoil, status);
	check(t, IBV_WR_ATOMIC_FETCH_AND_ADD, spoil, status);
}

/* ---- lkeys ----------------------------------------------------------------------------------- */

static void spoil_lkey(struct ct_link *l, struct ibv_send_wr *wr)
{
	wr->sg_list->lkey ^= 0x2a00;
}

static void spoil_lkey_with_rkey(struct ct_link *l, struct ibv_send_wr *wr)
{
	wr->sg_list->lkey = l->a.end->mr.rkey;
}

static void spoil_pd(struct ct_link *l, struct ibv_send_wr *wr)
{
	struct ct_end *e = l->a.end;
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(e, ct_alloc_pd(e), 0, 65536, CT_ACCESS_ALL, &mr) > 0);
	wr->sg_list->lkey = mr.lkey;
}

static void use_small_mr(struct ct_link *l, struct ibv_send_wr *wr, uint64_t offset)
{
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(l->a.end, l->a.end->pd, offset, 64, CT_ACCESS_ALL, &mr) > 0);
	wr->sg_list->lkey = mr.lkey;
}

static void spoil_end(struct ct_link *l, struct ibv_send_wr *wr)
{
	use_small_mr(l, wr, 4096 + 7 - 64); /* the last byte of eight is outside */
}

static void spoil_start(struct ct_link *l, struct ibv_send_wr *wr)
{
	use_small_mr(l, wr, 4096 + 1); /* the first one is */
}

static void spoil_wrap(struct ct_link *l, struct ibv_send_wr *wr)
{
	wr->sg_list->addr = UINT64_MAX - 3; /* the sum of address and length overflows */
}

static void spoil_dereg(struct ct_link *l, struct ibv_send_wr *wr)
{
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(l->a.end, l->a.end->pd, 0, 65536, CT_ACCESS_ALL, &mr) > 0);
	CT_EQ(ct_destroy(l->a.end, mr.handle), 0);
	wr->sg_list->lkey = mr.lkey;
}

static void spoil_second_sge(struct ct_link *l, struct ibv_send_wr *wr)
{
	static struct ibv_sge sge[2];

	sge[0] = ct_sge(l->a.end, 0, 8);
	sge[1] = ct_sge(l->a.end, 0, 8);
	sge[1].lkey ^= 0x100;
	wr->sg_list = sge;
	wr->num_sge = 2;
}

static void spoil_sink(struct ct_link *l, struct ibv_send_wr *wr)
{
	struct ct_mr mr;

	CT_TRUE(ct_reg_mr(l->a.end, l->a.end->pd, 0, 65536, IBV_ACCESS_REMOTE_READ, &mr) > 0);
	wr->sg_list->lkey = mr.lkey;
}

static void unknown_lkey(struct ct *t)
{
	check_each(t, spoil_lkey, IBV_WC_LOC_PROT_ERR);
}

static void rkey_as_lkey(struct ct *t)
{
	check_each(t, spoil_lkey_with_rkey, IBV_WC_LOC_PROT_ERR);
}

static void foreign_pd(struct ct *t)
{
	check_each(t, spoil_pd, IBV_WC_LOC_PROT_ERR);
}

static void out_of_range(struct ct *t)
{
	check_each(t, spoil_end, IBV_WC_LOC_PROT_ERR);
	check_each(t, spoil_start, IBV_WC_LOC_PROT_ERR);
	check_each(t, spoil_wrap, IBV_WC_LOC_PROT_ERR);
}

static void deregistered(struct ct *t)
{
	check_each(t, spoil_dereg, IBV_WC_LOC_PROT_ERR);
}

static void any_sge(struct ct *t)
{
	check(t, IBV_WR_SEND, spoil_second_sge, IBV_WC_LOC_PROT_ERR);
	if (t->type != IBV_QPT_UD)
		check(t, IBV_WR_RDMA_WRITE, spoil_second_sge, IBV_WC_LOC_PROT_ERR);
	if (t->type == IBV_QPT_RC)
		check(t, IBV_WR_RDMA_READ, spoil_second_sge, IBV_WC_LOC_PROT_ERR);
}

static void sink_not_writable(struct ct *t)
{
	check(t, IBV_WR_RDMA_READ, spoil_sink, IBV_WC_LOC_PROT_ERR);
	check(t, IBV_WR_ATOMIC_FETCH_AND_ADD, spoil_sink, IBV_WC_LOC_PROT_ERR);
	check(t, IBV_WR_ATOMIC_CMP_AND_SWP, spoil_sink, IBV_WC_LOC_PROT_ERR);
}

/* A READ or atomic goes out first: if both sides are wrong, the answer of the target counts. */
static void remote_error_wins(struct ct *t)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (int i = 0; i < CT_COUNT(opcodes); i++) {
		struct ct_link l;
		struct ibv_sge sge = ct_sge(t->near, 0, 8);
		struct ibv_send_wr wr;

		ct_link_open(t, &l, NULL);
		wr = ct_wr(&l, opcodes[i], 1, &sge, 1);
		sge.lkey ^= 0x100;
		ct_aim(&wr, t->far->mr.addr, t->far->mr.rkey ^ 0x100);
		ct_post(&l.a, &wr);
		ct_sent(&l, 1, IBV_WC_REM_ACCESS_ERR);
		ct_event(t->far, IBV_EVENT_QP_ACCESS_ERR, l.b.handle);
	}
}

/* ---- lengths --------------------------------------------------------------------------------- */

static void spoil_length_4(struct ct_link *l, struct ibv_send_wr *wr)
{
	wr->sg_list->length = 4;
}

static void spoil_length_16(struct ct_link *l, struct ibv_send_wr *wr)
{
	wr->sg_list->length = 16;
}

static void atomic_length(struct ct *t)
{
	check(t, IBV_WR_ATOMIC_FETCH_AND_ADD, spoil_length_4, IBV_WC_LOC_LEN_ERR);
	check(t, IBV_WR_ATOMIC_FETCH_AND_ADD, spoil_length_16, IBV_WC_LOC_LEN_ERR);
	check(t, IBV_WR_ATOMIC_CMP_AND_SWP, spoil_length_4, IBV_WC_LOC_LEN_ERR);
	check(t, IBV_WR_ATOMIC_CMP_AND_SWP, spoil_length_16, IBV_WC_LOC_LEN_ERR);
}

static void spoil_message_length(struct ct_link *l, struct ibv_send_wr *wr)
{
	static struct ibv_sge sge[20];
	const uint32_t piece = 144 << 20;
	struct ct_mr mr;
	uint64_t total = 0;

	CT_TRUE(ct_reg_mr(l->a.end, l->a.end->pd, CT_ARENA_BYTES, piece, CT_ACCESS_ALL, &mr) > 0);
	wr->sg_list = sge;
	for (wr->num_sge = 0; total <= l->a.end->port.max_msg_sz; total += piece) {
		CT_TRUE(wr->num_sge < 20);
		sge[wr->num_sge++] = (struct ibv_sge){ mr.addr, piece, mr.lkey };
	}
}

/* The same bytes several times make a message longer than the port carries. */
static void message_too_long(struct ct *t)
{
	if (t->near->port.max_msg_sz > 1u << 31)
		ct_skip("the port carries messages of any length");
	check(t, IBV_WR_SEND, spoil_message_length, IBV_WC_LOC_LEN_ERR);
	check(t, IBV_WR_RDMA_WRITE, spoil_message_length, IBV_WC_LOC_LEN_ERR);
	if (t->type == IBV_QPT_RC)
		check(t, IBV_WR_RDMA_READ, spoil_message_length, IBV_WC_LOC_LEN_ERR);
}

static void spoil_datagram(struct ct_link *l, struct ibv_send_wr *wr)
{
	wr->sg_list->length = ct_message_max(l) + 1;
}

static void datagram_over_the_mtu(struct ct *t)
{
	check(t, IBV_WR_SEND, spoil_datagram, IBV_WC_LOC_LEN_ERR);
	check(t, IBV_WR_SEND_WITH_IMM, spoil_datagram, IBV_WC_LOC_LEN_ERR);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void spoil_address(struct ct_link *l, struct ibv_send_wr *wr)
{
	struct ct_end *e = l->a.end;
	struct ibv_ah_attr attr;
	int ah;

	ct_address(e, l->b.end, &attr);
	ah = ct_create_ah(e, ct_alloc_pd(e), &attr);
	CT_TRUE(ah > 0);
	wr->wr.ud.ah = (struct ibv_ah *)(uintptr_t)ah;
}

static void address_of_another_pd(struct ct *t)
{
	check(t, IBV_WR_SEND, spoil_address, IBV_WC_LOC_QP_OP_ERR);
	check(t, IBV_WR_SEND_WITH_IMM, spoil_address, IBV_WC_LOC_QP_OP_ERR);
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static void spoil_nothing(struct ct_link *l, struct ibv_send_wr *wr)
{
}

static void opcode_of_another_transport(struct ct *t)
{
	static const enum ibv_wr_opcode rc_only[] = { IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (int i = 0; i < CT_COUNT(rc_only); i++)
		check(t, rc_only[i], spoil_nothing, IBV_WC_LOC_QP_OP_ERR);
	if (t->type != IBV_QPT_UD)
		return;
	check(t, IBV_WR_RDMA_WRITE, spoil_nothing, IBV_WC_LOC_QP_OP_ERR);
	check(t, IBV_WR_RDMA_WRITE_WITH_IMM, spoil_nothing, IBV_WC_LOC_QP_OP_ERR);
}

#define ALL (CT_RC | CT_UC | CT_UD)

const struct ct_case ct_err_local_cases[] = {
	{ "an unknown lkey is LOC_PROT_ERR", unknown_lkey, ALL | CT_IB },
	{ "an rkey used as lkey is LOC_PROT_ERR", rkey_as_lkey, ALL | CT_DISTINCT },
	{ "an lkey of another PD is LOC_PROT_ERR", foreign_pd, ALL },
	{ "an SGE beyond its MR is LOC_PROT_ERR", out_of_range, ALL },
	{ "an lkey of the past is LOC_PROT_ERR", deregistered, ALL },
	{ "every SGE is checked", any_sge, ALL },
	{ "a READ or atomic into an MR without local write is LOC_PROT_ERR", sink_not_writable,
	  CT_RC },
	{ "if both sides of a READ or atomic are wrong, the remote error wins", remote_error_wins,
	  CT_RC },
	{ "an atomic whose SGE is not 8 bytes is LOC_LEN_ERR", atomic_length, CT_RC },
	{ "a message over max_msg_sz is LOC_LEN_ERR", message_too_long, CT_RC | CT_UC },
	{ "a datagram over the MTU is LOC_LEN_ERR", datagram_over_the_mtu, CT_UD },
	{ "an address handle of another PD is LOC_QP_OP_ERR", address_of_another_pd,
	  CT_UD | CT_IB },
	{ "an opcode of another transport is accepted and fails with LOC_QP_OP_ERR",
	  opcode_of_another_transport, CT_UC | CT_UD },
	{ 0 },
};

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path MTUs that differ. No end knows the other's: a message that is one packet to both passes, and
 * what is longer breaks off, in the same way on every path.
 */
#include "ct.h"

enum { FROM = 0, TARGET = 65536, ROOM = 32768, RECEIVE = 9, NEXT = 8 };

struct trial {
	enum ibv_mtu a, b;
	enum ibv_wr_opcode opcode;
	uint32_t length;
};

static uint32_t bytes_of(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

static bool passes(const struct trial *trial)
{
	enum ibv_mtu least = trial->a < trial->b ? trial->a : trial->b;

	return trial->a == trial->b || trial->length <= bytes_of(least);
}

static bool consumes(enum ibv_wr_opcode opcode)
{
	return opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ;
}

/*
 * The two ends, from RESET, each with its own path MTU; nothing of before is for this connection.
 */
static void connect_again(struct ct_link *l, const struct trial *trial)
{
	struct ct_opts a = l->o, b = l->o;

	CT_EQ(ct_to_state(&l->a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l->b, IBV_QPS_RESET), 0);
	a.mtu = trial->a;
	b.mtu = trial->b;
	l->a.psn = (l->a.psn + 0x10000) & 0xffffff;
	ct_init(&l->a);
	ct_init(&l->b);
	ct_rtr(&l->b, &l->a, &b);
	ct_rtr(&l->a, &l->b, &a);
	ct_rts(&l->b, &b);
	ct_rts(&l->a, &a);
}

static void post(struct ct_link *l, const struct trial *trial)
{
	const bool reads = trial->opcode == IBV_WR_RDMA_READ;
	struct ibv_sge sge = ct_sge(l->a.end, reads ? TARGET : FROM, trial->length);
	struct ibv_send_wr wr = ct_wr(l, trial->opcode, 1, &sge, 1);

	ct_fill(l->a.end, FROM, ROOM, 1);
	ct_fill(l->a.end, TARGET, ROOM, 2);
	ct_fill(l->b.end, FROM, ROOM, 3);
	ct_fill(l->b.end, TARGET, ROOM, 2);
	ct_recv(&l->b, RECEIVE, TARGET, ROOM);
	if (trial->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || trial->opcode == IBV_WR_SEND_WITH_IMM)
		wr.imm_data = 77;
	ct_aim(&wr, l->b.end->base + (reads ? FROM : TARGET), l->b.end->mr.rkey);
	ct_post(&l->a, &wr);
}

static void passed(struct ct_link *l, const struct trial *trial)
{
	const bool reads = trial->opcode == IBV_WR_RDMA_READ;

	ct_sent(l, 1, IBV_WC_SUCCESS);
	if (consumes(trial->opcode))
		CT_EQ(ct_got(l, RECEIVE, IBV_WC_SUCCESS).byte_len, trial->length);
	else if (l->a.type == IBV_QPT_UC) { /* behind it: it has arrived */
		ct_send(l, NEXT, FROM, 0);
		ct_sent(l, NEXT, IBV_WC_SUCCESS);
		ct_got(l, RECEIVE, IBV_WC_SUCCESS);
	}
	ct_same(reads ? l->a.end : l->b.end, TARGET, trial->length, reads ? 3 : 1);
}

/* The responder of a READ has nothing to complain of: its requester cannot use the answer. */
static void broke_off(struct ct_link *l, const struct trial *trial)
{
	const bool reads = trial->opcode == IBV_WR_RDMA_READ;

	ct_sent(l, 1, reads ? IBV_WC_BAD_RESP_ERR : IBV_WC_REM_INV_REQ_ERR);
	CT_EQ(ct_qp_state(&l->a), IBV_QPS_ERR);
	if (!reads) {
		ct_event(l->b.end, IBV_EVENT_QP_REQ_ERR, l->b.handle);
		ct_wait_state(&l->b, IBV_QPS_ERR);
		ct_got(l, RECEIVE, IBV_WC_WR_FLUSH_ERR);
	} else {
		CT_EQ(ct_qp_state(&l->b), IBV_QPS_RTS);
	}
	ct_same(reads ? l->a.end : l->b.end, TARGET, ROOM, 2);
}

/* UC: nobody is told. The receive is there for the next message. */
static void was_dropped(struct ct_link *l)
{
	ct_sent(l, 1, IBV_WC_SUCCESS);
	ct_send(l, NEXT, FROM, 0);
	ct_sent(l, NEXT, IBV_WC_SUCCESS);
	CT_EQ(ct_got(l, RECEIVE, IBV_WC_SUCCESS).byte_len, 0);
	ct_none(l->b.end, l->b.rcq);
	ct_same(l->b.end, TARGET, ROOM, 2);
}

static void try(struct ct_link *l, const struct trial *trial)
{
	connect_again(l, trial);
	post(l, trial);
	if (passes(trial))
		passed(l, trial);
	else if (l->a.type == IBV_QPT_UC)
		was_dropped(l);
	else
		broke_off(l, trial);
}

static void try_lengths(struct ct_link *l, struct trial trial)
{
	const uint32_t a = bytes_of(trial.a), b = bytes_of(trial.b), large = a > b ? a : b;
	const uint32_t small = a > b ? b : a;
	const uint32_t edges[] = { 0,     1,         small - 1, small,         small + 1,
				   large, large + 1, 2 * large, 3 * large + 1, ROOM };

	for (int i = 0; i < CT_COUNT(edges); i++) {
		if (i && edges[i] <= edges[i - 1])
			continue;
		trial.length = edges[i];
		try(l, &trial);
	}
}

static void every_pair(struct ct *t, enum ibv_wr_opcode opcode)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (enum ibv_mtu a = IBV_MTU_256; a <= IBV_MTU_4096; a++)
		for (enum ibv_mtu b = IBV_MTU_256; b <= IBV_MTU_4096; b++)
			try_lengths(&l, (struct trial){ a, b, opcode, 0 });
}

static void sends(struct ct *t)
{
	every_pair(t, IBV_WR_SEND);
}

static void sends_with_imm(struct ct *t)
{
	every_pair(t, IBV_WR_SEND_WITH_IMM);
}

static void writes(struct ct *t)
{
	every_pair(t, IBV_WR_RDMA_WRITE);
}

static void writes_with_imm(struct ct *t)
{
	every_pair(t, IBV_WR_RDMA_WRITE_WITH_IMM);
}

static void reads(struct ct *t)
{
	every_pair(t, IBV_WR_RDMA_READ);
}

/* What goes in one list is looked at one by one. */
static void lists(struct ct *t)
{
	const struct trial trial = { IBV_MTU_512, IBV_MTU_1024, IBV_WR_RDMA_WRITE, 0 };
	struct ibv_sge sge[3] = { ct_sge(t->near, FROM, 512), ct_sge(t->near, FROM, 513),
				  ct_sge(t->near, FROM, 8) };
	struct ibv_send_wr wr[3];
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	connect_again(&l, &trial);
	for (int i = 0; i < 3; i++) {
		wr[i] = ct_wr(&l, IBV_WR_RDMA_WRITE, i, &sge[i], 1);
		ct_aim(&wr[i], t->far->base + TARGET + i * 4096, t->far->mr.rkey);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	ct_fill(t->near, FROM, 1024, 1);
	ct_fill(t->far, TARGET, ROOM, 2);
	ct_post(&l.a, wr);
	ct_sent(&l, 0, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_REM_INV_REQ_ERR);
	ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
	ct_same(t->far, TARGET, 512, 1);
	CT_TRUE(ct_differs_at(t->far, TARGET + 4096, 1, 1) == 0);
}

const struct ct_case ct_mtu_cases[] = {
	{ "path MTUs that differ: SENDs of one packet pass", sends, CT_RC | CT_UC | CT_IB },
	{ "path MTUs that differ: SENDs with immediate data", sends_with_imm, CT_RC | CT_UC },
	{ "path MTUs that differ: WRITEs of one packet pass", writes, CT_RC | CT_UC },
	{ "path MTUs that differ: WRITEs with immediate data", writes_with_imm, CT_RC | CT_UC },
	{ "path MTUs that differ: READs of one packet pass", reads, CT_RC },
	{ "path MTUs that differ: each of a list for itself", lists, CT_RC },
	{ 0 },
};

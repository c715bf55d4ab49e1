/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters. They are at the near end; the far end lives anywhere. */
#include "abi/verbs.h"
#include "ct.h"

enum {
	SEND = IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
	RECV = IBV_QP_ATTACH_COMP_CNTR_OP_RECV,
	READ = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
	WRITE = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
	REMOTE_READ = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ,
	REMOTE_WRITE = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE,
	BYTES = 3000,
	ROUNDS = 20,
};

static struct ibv_comp_cntr *make(struct ct *t, enum ibv_comp_cntr_type type)
{
	struct ibv_comp_cntr_init_attr attr = { .type = type };
	struct ibv_comp_cntr *cntr = ibv_create_comp_cntr(ct_context(t->near), &attr);

	CT_TRUE(cntr != NULL);
	return cntr;
}

static int attach(struct ct *t, const struct ct_qp *qp, struct ibv_comp_cntr *cntr, uint32_t ops)
{
	struct ibv_qp_attach_comp_cntr_attr attr = { .op_mask = ops };

	return ibv_qp_attach_comp_cntr(ct_object(t->near, qp->handle), cntr, &attr);
}

static uint64_t value(struct ibv_comp_cntr *cntr)
{
	uint64_t now = UINT64_MAX;

	CT_EQ(ibv_read_comp_cntr(cntr, &now), 0);
	return now;
}

static uint64_t errors(struct ibv_comp_cntr *cntr)
{
	uint64_t now = UINT64_MAX;

	CT_EQ(ibv_read_err_comp_cntr(cntr, &now), 0);
	return now;
}

static void drop(struct ct *t, struct ct_link *l, struct ibv_comp_cntr *cntr)
{
	CT_ERROR(ibv_destroy_comp_cntr(cntr), EBUSY);
	CT_EQ(ct_destroy(t->near, l->a.handle), 0);
	CT_EQ(ibv_destroy_comp_cntr(cntr), 0);
}

/* ---- the object ------------------------------------------------------------------------------ */

static void values(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_comp_cntr_init_attr bad[] = { { .comp_mask = 1 },
						 { .flags = 1 },
						 { .type = (enum ibv_comp_cntr_type)2 } };
	struct ibv_comp_cntr_caps caps = { 0 };
	struct ibv_comp_cntr *cntr = make(t, IBV_COMP_CNTR_TYPE_WRS);
	uint64_t now;

	CT_EQ(_ibv_query_comp_cntr_caps(ctx, &caps, sizeof(caps)), 0);
	CT_TRUE(caps.max_value == UINT64_MAX && caps.max_counters >= 1024);
	CT_EQ(caps.supported_qp_attach_ops,
	      SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE);
	for (int i = 0; i < CT_COUNT(bad); i++)
		CT_NULL(ibv_create_comp_cntr(ctx, &bad[i]), EINVAL);
	CT_NULL(ibv_create_comp_cntr(NULL, &bad[0]), EINVAL);

	CT_EQ(value(cntr), 0);
	CT_EQ(ibv_set_comp_cntr(cntr, 10), 0);
	CT_EQ(ibv_inc_comp_cntr(cntr, 5), 0);
	CT_EQ(ibv_set_err_comp_cntr(cntr, 100), 0);
	CT_EQ(ibv_inc_err_comp_cntr(cntr, 1), 0);
	CT_EQ(value(cntr), 15);
	CT_EQ(errors(cntr), 101);
	CT_EQ(ibv_set_comp_cntr(cntr, UINT64_MAX), 0);
	CT_EQ(ibv_inc_comp_cntr(cntr, 1), 0);
	CT_EQ(value(cntr), 0);

	cntr->handle++;
	CT_ERROR(ibv_read_comp_cntr(cntr, &now), EINVAL);
	CT_ERROR(ibv_destroy_comp_cntr(cntr), ENOENT);
	cntr->handle--;
	CT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	CT_ERROR(ibv_destroy_comp_cntr(cntr), ENOENT);
	CT_ERROR(ibv_set_comp_cntr(cntr, 1), EINVAL);
	CT_ERROR(ibv_inc_err_comp_cntr(NULL, 1), EINVAL);
}

static void attaching(struct ct *t)
{
	struct ibv_comp_cntr *cntr = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr *second = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_qp_attach_comp_cntr_attr mask = { .comp_mask = 1, .op_mask = SEND };
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	CT_ERROR(attach(t, &l.a, cntr, 0), EINVAL);
	CT_ERROR(attach(t, &l.a, cntr, SEND | 1 << 10), EOPNOTSUPP);
	CT_ERROR(ibv_qp_attach_comp_cntr(ct_object(t->near, l.a.handle), cntr, &mask), EINVAL);
	CT_ERROR(attach(t, &l.a, NULL, SEND), EINVAL);
	CT_EQ(attach(t, &l.a, cntr, SEND | READ), 0);
	CT_ERROR(attach(t, &l.a, second, READ | WRITE), EBUSY);
	CT_EQ(attach(t, &l.a, second, WRITE), 0);
	CT_EQ(attach(t, &l.a, second, REMOTE_WRITE), 0);
	CT_ERROR(attach(t, &l.a, cntr, REMOTE_READ | REMOTE_WRITE), EBUSY);
	ct_link_connect(&l);
	CT_ERROR(attach(t, &l.a, second, RECV), EINVAL);
	drop(t, &l, cntr);
	CT_EQ(ibv_destroy_comp_cntr(second), 0);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void sends(struct ct *t)
{
	struct ibv_comp_cntr *wrs = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr *bytes = make(t, IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_sge sge = ct_sge(t->near, 0, BYTES);
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	CT_EQ(attach(t, &l.a, wrs, SEND), 0);
	CT_EQ(attach(t, &l.a, bytes, READ | WRITE), 0);
	ct_link_connect(&l);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_send_wr silent = ct_wr(&l, IBV_WR_SEND, i, &sge, 1);

		ct_recv(&l.b, i, 0, BYTES);
		silent.send_flags = 0;
		ct_post(&l.a, &silent);
		ct_got(&l, i, IBV_WC_SUCCESS);
	}
	ct_recv(&l.b, 1, 0, 64);
	ct_send(&l, 1, 0, 8); /* short: not the short way */
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 1, IBV_WC_SUCCESS);
	CT_EQ(value(wrs), ROUNDS + 1);
	CT_EQ(value(bytes), 0);
	ct_do(&l, IBV_WR_RDMA_WRITE, 2, 0, 100);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_do(&l, IBV_WR_RDMA_READ, 3, 0, 1000);
	ct_sent(&l, 3, IBV_WC_SUCCESS);
	CT_EQ(value(bytes), 1100);
	CT_EQ(value(wrs), ROUNDS + 1);
	CT_EQ(errors(wrs) + errors(bytes), 0);
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	CT_EQ(ibv_destroy_comp_cntr(wrs), 0);
	CT_EQ(ibv_destroy_comp_cntr(bytes), 0);
}

static void wait_for(struct ibv_comp_cntr *cntr, uint64_t wanted)
{
	double end_s = ct_now_s() + CT_DEADLINE_MS / 1000.0;

	while (value(cntr) < wanted && ct_now_s() < end_s)
		;
	CT_EQ(value(cntr), wanted);
}

/* A receive counts once, before or after it was polled; its bytes are there before the poll. */
static void receives(struct ct *t)
{
	struct ibv_comp_cntr *wrs = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ct_link l, in;
	uint32_t room;

	ct_link_create(t, &l, NULL);
	in = ct_reverse(&l);
	room = ct_headroom(&l);
	CT_EQ(ct_modify_qp(&l.a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE),
	      0);
	CT_EQ(attach(t, &l.a, wrs, RECV), 0);
	ct_link_connect(&l);
	ct_fill(t->far, 0, 64, 5);
	for (unsigned i = 0; i < ROUNDS; i++) {
		ct_recv(&l.a, i, (1 << 20) + 1024 * i, 512);
		ct_send(&in, i, 0, i & 1 ? 8 : 64);
		ct_sent(&in, i, IBV_WC_SUCCESS);
		wait_for(wrs, i + 1);
		ct_same(t->near, (1 << 20) + 1024 * i + room, i & 1 ? 8 : 64, 5);
		if (i < ROUNDS / 2)
			ct_got(&in, i, IBV_WC_SUCCESS);
		CT_EQ(value(wrs), i + 1);
	}
	for (unsigned i = ROUNDS / 2; i < ROUNDS; i++)
		ct_got(&in, i, IBV_WC_SUCCESS);
	CT_EQ(value(wrs), ROUNDS);
	CT_EQ(ibv_set_comp_cntr(wrs, 7), 0);
	CT_EQ(value(wrs), 7);
	drop(t, &l, wrs);
}

/* Receives that were posted before the counter came are placed, too; unpolled ones stay counted. */
static void early_receives(struct ct *t)
{
	struct ibv_comp_cntr *bytes = make(t, IBV_COMP_CNTR_TYPE_BYTES);
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, in;

	ct_link_create(t, &l, NULL);
	in = ct_reverse(&l);
	ct_init(&l.a);
	ct_init(&l.b);
	ct_recv(&l.a, 1, 1 << 20, 512);
	CT_EQ(attach(t, &l.a, bytes, RECV), 0);
	ct_rtr(&l.a, &l.b, &o);
	ct_rtr(&l.b, &l.a, &o);
	ct_rts(&l.a, &o);
	ct_rts(&l.b, &o);
	ct_fill(t->far, 0, 24, 6);
	ct_send(&in, 1, 0, 24);
	ct_sent(&in, 1, IBV_WC_SUCCESS);
	wait_for(bytes, 24);
	ct_same(t->near, 1 << 20, 24, 6);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	CT_EQ(value(bytes), 24);
	drop(t, &l, bytes);
}

/* ---- receives of an SRQ ---------------------------------------------------------------------- */

enum { SRQ_AT = 1 << 20, SRQ_STEP = 1024, SRQ_BYTES = 40 };

static void post_shared(struct ct *t, int srq, unsigned id)
{
	struct ibv_sge sge = ct_sge(t->near, SRQ_AT + SRQ_STEP * id, 512);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CT_EQ(ct_post_srq_recv(t->near, srq, &wr, &bad), 0);
}

static void arrive(struct ct_link *l, unsigned id)
{
	struct ct_link in = ct_reverse(l);

	ct_send(&in, id, 0, SRQ_BYTES);
	ct_sent(&in, id, IBV_WC_SUCCESS);
}

static void poll_shared(struct ct_link *l, unsigned id)
{
	struct ct_link in = ct_reverse(l);

	CT_EQ(ct_got(&in, id, IBV_WC_SUCCESS).qp_num, l->a.qpn);
}

/* Three QPs, one of them without a counter, which is in use when the others get theirs. */
static void open_shared(struct ct *t, struct ct_link *l, int srq, struct ibv_comp_cntr *wrs,
			struct ibv_comp_cntr *bytes)
{
	struct ct_opts o = ct_defaults(t);

	o.srq_a = srq;
	ct_link_open(t, &l[0], &o);
	for (unsigned i = 0; i < ROUNDS; i++)
		post_shared(t, srq, i);
	arrive(&l[0], 0);
	ct_link_create(t, &l[1], &o);
	ct_link_create(t, &l[2], &o);
	CT_EQ(attach(t, &l[1].a, wrs, RECV), 0);
	CT_EQ(attach(t, &l[2].a, bytes, RECV), 0);
	ct_link_connect(&l[1]);
	ct_link_connect(&l[2]);
	poll_shared(&l[0], 0);
}

/* A receive of an SRQ counts for its QP, once, polled or not; its bytes are there. */
static void shared_receives(struct ct *t)
{
	struct ibv_comp_cntr *wrs = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr *bytes = make(t, IBV_COMP_CNTR_TYPE_BYTES);
	int srq = ct_create_srq(t->near, t->near->pd, ROUNDS, 1);
	struct ct_link l[3];
	uint32_t room;

	ct_fill(t->far, 0, SRQ_BYTES, 8);
	open_shared(t, l, srq, wrs, bytes);
	room = ct_headroom(&l[0]);
	for (unsigned i = 1; i < ROUNDS; i++) {
		uint32_t at = SRQ_AT + SRQ_STEP * i + room;

		arrive(&l[i % 3], i);
		wait_for(wrs, (i + 2) / 3);
		wait_for(bytes, (uint64_t)(i + 1) / 3 * (SRQ_BYTES + room));
		if (i % 3)
			ct_same(t->near, at, SRQ_BYTES, 8);
		if (i < ROUNDS / 2)
			poll_shared(&l[i % 3], i);
	}
	for (unsigned i = ROUNDS / 2; i < ROUNDS - 3; i++)
		poll_shared(&l[i % 3], i);
	CT_EQ(ct_to_state(&l[1].a, IBV_QPS_RESET), 0);
	CT_EQ(ct_destroy(t->near, l[2].a.handle), 0);
	CT_EQ(value(wrs), (ROUNDS + 1) / 3);
	CT_EQ(value(bytes), (uint64_t)ROUNDS / 3 * (SRQ_BYTES + room));
	CT_EQ(errors(wrs) + errors(bytes), 0);
	CT_EQ(ibv_destroy_comp_cntr(bytes), 0);
	drop(t, &l[1], wrs);
}

/* Failed and flushed work requests are errors, one each, also where bytes are counted. */
static void failures(struct ct *t)
{
	struct ibv_comp_cntr *wrs = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr *bytes = make(t, IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_sge sge = ct_sge(t->near, 0, 64);
	struct ct_link l;
	struct ibv_send_wr wr;

	ct_link_create(t, &l, NULL);
	CT_EQ(attach(t, &l.a, wrs, WRITE | RECV), 0);
	CT_EQ(attach(t, &l.a, bytes, SEND), 0);
	ct_link_connect(&l);
	ct_recv(&l.a, 9, 0, 64);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_aim(&wr, t->far->base, ~t->far->mr.rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_REM_ACCESS_ERR);
	ct_send(&l, 2, 0, 64);
	ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
	ct_expect(t->near, l.a.rcq, 9, IBV_WC_WR_FLUSH_ERR);
	CT_EQ(value(wrs) + value(bytes), 0);
	CT_EQ(errors(wrs), 2);
	CT_EQ(errors(bytes), 1);
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	CT_EQ(ibv_destroy_comp_cntr(wrs), 0);
	CT_EQ(ibv_destroy_comp_cntr(bytes), 0);
}

/* ---- operations of the far end --------------------------------------------------------------- */

static void far_does(struct ct_link *in, enum ibv_wr_opcode opcode, uint64_t id, uint32_t length)
{
	ct_do(in, opcode, id, 0, length);
	ct_sent(in, id, IBV_WC_SUCCESS);
}

/* When an operation is complete at the far end, its target has counted it. */
static void remote(struct ct *t)
{
	struct ibv_comp_cntr *writes = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr *reads = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ct_link l, in;

	ct_link_create(t, &l, NULL);
	in = ct_reverse(&l);
	CT_EQ(attach(t, &l.a, writes, REMOTE_WRITE), 0);
	CT_EQ(attach(t, &l.a, reads, REMOTE_READ), 0);
	ct_link_connect(&l);
	for (unsigned i = 0; i < ROUNDS; i++) {
		ct_fill(t->far, 0, BYTES, i);
		far_does(&in, IBV_WR_RDMA_WRITE, i, i * 100);
		CT_EQ(value(writes), 2 * i + 1);
		ct_same(t->near, 0, i * 100, i);
		ct_recv(&l.a, i, 0, 64);
		far_does(&in, IBV_WR_RDMA_WRITE_WITH_IMM, i, BYTES);
		CT_EQ(value(writes), 2 * i + 2);
		ct_expect(t->near, l.a.rcq, i, IBV_WC_SUCCESS);
		far_does(&in, IBV_WR_RDMA_READ, i, i * 100);
		CT_EQ(value(reads), i + 1);
		ct_recv(&l.a, i, 0, 64); /* neither SENDs nor the own operations count */
		far_does(&in, IBV_WR_SEND, i, 64);
		ct_expect(t->near, l.a.rcq, i, IBV_WC_SUCCESS);
		ct_do(&l, IBV_WR_RDMA_WRITE, i, 0, 100);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	CT_EQ(value(writes), 2 * ROUNDS);
	CT_EQ(errors(writes) + errors(reads), 0);
	far_does(&in, IBV_WR_RDMA_WRITE, 1, 8);
	drop(t, &l, writes);
	CT_EQ(value(reads), ROUNDS);
	CT_EQ(ibv_destroy_comp_cntr(reads), 0);
}

/* A list of WRITEs is executed at once; a long READ is asked for in parts. */
static void remote_bytes(struct ct *t)
{
	enum { LONG = 1 << 20, LIST = 16 };
	struct ibv_comp_cntr *bytes = make(t, IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_sge sge = ct_sge(t->far, 0, 100);
	struct ibv_send_wr wr[LIST];
	struct ct_link l, in;

	ct_link_create(t, &l, NULL);
	in = ct_reverse(&l);
	CT_EQ(attach(t, &l.a, bytes, REMOTE_WRITE | REMOTE_READ), 0);
	ct_link_connect(&l);
	far_does(&in, IBV_WR_RDMA_READ, 1, LONG);
	CT_EQ(value(bytes), LONG);
	far_does(&in, IBV_WR_RDMA_WRITE, 2, LONG);
	CT_EQ(value(bytes), 2 * LONG);
	for (int i = 0; i < LIST; i++) {
		wr[i] = ct_wr(&in, IBV_WR_RDMA_WRITE, i, &sge, 1);
		ct_aim(&wr[i], t->near->base, t->near->mr.rkey);
		wr[i].next = i + 1 < LIST ? &wr[i + 1] : NULL;
	}
	ct_post(&in.a, wr);
	for (int i = 0; i < LIST; i++)
		ct_sent(&in, i, IBV_WC_SUCCESS);
	CT_EQ(value(bytes), 2 * LONG + LIST * 100);
	/* The connection ends; the QP, and the counter with it, begins anew. */
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
	ct_link_connect(&l);
	far_does(&in, IBV_WR_RDMA_WRITE, 3, 50);
	CT_EQ(value(bytes), 2 * LONG + LIST * 100 + 50);
	far_does(&in, IBV_WR_RDMA_WRITE, 4, 50); /* not read before the QP is destroyed */
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	CT_EQ(value(bytes), 2 * LONG + LIST * 100 + 100);
	CT_EQ(ibv_destroy_comp_cntr(bytes), 0);
}

static void remote_unreliable(struct ct *t)
{
	struct ibv_comp_cntr *wrs = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ct_link l, in;

	ct_link_create(t, &l, NULL);
	in = ct_reverse(&l);
	CT_EQ(attach(t, &l.a, wrs, REMOTE_WRITE), 0);
	ct_link_connect(&l);
	far_does(&in, IBV_WR_RDMA_WRITE, 1, BYTES);
	wait_for(wrs, 1);
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	CT_EQ(ibv_destroy_comp_cntr(wrs), 0);
}

/* The QP fails, hence one refusal for each. */
static void remote_refused(struct ct *t, enum ibv_wr_opcode opcode, uint32_t op)
{
	struct ibv_comp_cntr *cntr = make(t, IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_comp_cntr *other = make(t, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_sge sge = ct_sge(t->far, 0, 64);
	struct ibv_send_wr wr;
	struct ct_link l, in;

	ct_link_create(t, &l, NULL);
	in = ct_reverse(&l);
	CT_EQ(attach(t, &l.a, cntr, op), 0);
	CT_EQ(attach(t, &l.a, other, (REMOTE_READ | REMOTE_WRITE) & ~op), 0);
	ct_link_connect(&l);
	far_does(&in, opcode, 1, 10);
	wr = ct_wr(&in, opcode, 2, &sge, 1);
	ct_aim(&wr, t->near->base, ~t->near->mr.rkey);
	ct_post(&in.a, &wr);
	ct_sent(&in, 2, IBV_WC_REM_ACCESS_ERR);
	CT_EQ(errors(cntr), 1);
	CT_EQ(value(cntr), 10);
	CT_EQ(value(other) + errors(other), 0);
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	CT_EQ(ibv_destroy_comp_cntr(cntr), 0);
	CT_EQ(ibv_destroy_comp_cntr(other), 0);
}

static void remote_refusals(struct ct *t)
{
	remote_refused(t, IBV_WR_RDMA_WRITE, REMOTE_WRITE);
	remote_refused(t, IBV_WR_RDMA_READ, REMOTE_READ);
}

const struct ct_case ct_comp_cntr_cases[] = {
	{ "a completion counter is set, increased and read, and wraps", values, CT_SOLO },
	{ "one counter per QP and operation, before RTR, until the QP is destroyed", attaching,
	  CT_RC },
	{ "completion counters count silent work requests, by operation", sends, CT_RC },
	{ "completion counters count receives once, polled or not", receives,
	  CT_RC | CT_UC | CT_UD },
	{ "receives that were posted earlier, and those that RESET drops, are counted",
	  early_receives, CT_RC },
	{ "completion counters count an SRQ's receives for their QP", shared_receives,
	  CT_RC | CT_UC | CT_UD },
	{ "failed and flushed work requests count as errors", failures, CT_RC },
	{ "completion counters count READs and WRITEs of the peer", remote, CT_RC },
	{ "completion counters count bytes of the peer, also those before a RESET", remote_bytes,
	  CT_RC },
	{ "completion counters count unreliable WRITEs of the peer", remote_unreliable, CT_UC },
	{ "READs and WRITEs of the peer that are refused count as errors", remote_refusals, CT_RC },
	{ 0 },
};

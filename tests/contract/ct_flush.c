/* SPDX-License-Identifier: BSD-2-Clause */
/* FLUSH: earlier writes become visible to all, or durable; answered like a READ without bytes. */
#include <stdlib.h>

#include "abi/flush.h"
#include "ct.h"

enum { TARGET = 4096, SIZE = 4096, ACCESS = CT_ACCESS_ALL | IBV_ACCESS_FLUSH_GLOBAL };

/* struct ibv_send_wr has no place for a FLUSH: every QP has builders. */
static void with_builders(void)
{
	setenv("VERBENA_TEST_BUILDERS", "1", 1);
}

static struct ct_mr open_flushable(struct ct *t, struct ct_link *l, int qp_access)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_mr mr;

	o.access_b |= qp_access;
	ct_link_open(t, l, &o);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, TARGET, SIZE, ACCESS, &mr) > 0);
	return mr;
}

/* The operands have the places of those of an atomic (ct_builder.c). */
static struct ibv_send_wr flush(const struct ct_link *l, uint64_t wr_id, const struct ct_mr *mr,
				unsigned type, unsigned level)
{
	struct ibv_send_wr wr = ct_wr(l, IBV_WR_FLUSH, wr_id, NULL, 0);

	wr.wr.atomic.remote_addr = mr->addr;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = SIZE;
	wr.wr.atomic.swap = type | level << 8;
	return wr;
}

static void completes(struct ct_link *l, struct ibv_send_wr *wr)
{
	ct_post(&l->a, wr);
	CT_EQ(ct_sent(l, wr->wr_id, IBV_WC_SUCCESS).opcode, IBV_WC_FLUSH);
}

static void fails(struct ct_link *l, struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	ct_post(&l->a, wr);
	ct_sent(l, wr->wr_id, status);
	ct_wait_state(&l->a, IBV_QPS_ERR);
}

static void range_and_region(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr = open_flushable(t, &l, IBV_ACCESS_FLUSH_GLOBAL);
	struct ibv_send_wr wr = flush(&l, 1, &mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);

	completes(&l, &wr);
	wr = flush(&l, 2, &mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
	completes(&l, &wr);
	wr.wr.atomic.remote_addr = 0; /* of a whole region the range does not matter */
	wr.wr.atomic.compare_add = 1ull << 40;
	completes(&l, &wr);
	ct_usable(&l);
}

/* WRITE, FLUSH, FETCH_AND_ADD, FLUSH, READ of one word: each follows those before it. */
static void keeps_its_place(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr = open_flushable(t, &l, IBV_ACCESS_FLUSH_GLOBAL);
	struct ibv_sge sge[3];
	struct ibv_send_wr wr[5];

	for (uint64_t i = 1; i < 30; i++) {
		for (unsigned k = 0; k < 3; k++)
			sge[k] = ct_sge(t->near, 8 * k, 8);
		wr[0] = ct_wr(&l, IBV_WR_RDMA_WRITE, 0, &sge[0], 1);
		wr[1] = flush(&l, 1, &mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		wr[2] = ct_wr(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, &sge[1], 1);
		wr[3] = flush(&l, 3, &mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
		wr[4] = ct_wr(&l, IBV_WR_RDMA_READ, 4, &sge[2], 1);
		for (int k = 0; k < 5; k += 2)
			ct_aim(&wr[k], mr.addr, mr.rkey);
		wr[2].wr.atomic.compare_add = 5;
		for (int k = 0; k < 4; k++)
			wr[k].next = &wr[k + 1];
		ct_poke(t->near, 0, i * 1000);
		ct_post(&l.a, wr);
		for (uint64_t k = 0; k < 5; k++)
			ct_sent(&l, k, IBV_WC_SUCCESS);
		CT_EQ(ct_peek(t->near, 8), i * 1000);
		CT_EQ(ct_peek(t->near, 16), i * 1000 + 5);
		CT_EQ(ct_peek(t->far, TARGET), i * 1000 + 5);
	}
}

/* More than may be on their way at once. */
static void many_in_a_row(struct ct *t)
{
	enum { FLUSHES = 40 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	struct ct_mr mr;

	o.max_rd_atomic = o.max_dest_rd_atomic = 2;
	o.access_b |= IBV_ACCESS_FLUSH_GLOBAL;
	ct_link_open(t, &l, &o);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, TARGET, SIZE, ACCESS, &mr) > 0);
	for (uint64_t i = 0; i < FLUSHES; i++) {
		struct ibv_send_wr wr = flush(&l, i, &mr, IBV_FLUSH_GLOBAL, i & 1);

		ct_post(&l.a, &wr);
	}
	for (uint64_t i = 0; i < FLUSHES; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
	ct_usable(&l);
}

/* The device promises nothing about durable memory, so no region can ask for it. */
static void durable(struct ct *t)
{
	const int persistent = IBV_ACCESS_FLUSH_PERSISTENT;
	struct ct_link l;
	struct ct_mr mr = open_flushable(t, &l, IBV_ACCESS_FLUSH_GLOBAL | persistent), none;
	struct ibv_send_wr wr = flush(&l, 1, &mr, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);

	CT_EQ(ct_reg_mr(t->far, t->far->pd, TARGET, SIZE, ACCESS | persistent, &none), -EINVAL);
	fails(&l, &wr, IBV_WC_REM_ACCESS_ERR);
	ct_wait_state(&l.b, IBV_QPS_ERR);
}

/* One right is there, the other is not. */
static void both_kinds(struct ct *t)
{
	const unsigned both = IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT;
	struct ct_link l;
	struct ct_mr mr =
		open_flushable(t, &l, IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT);
	struct ibv_send_wr wr = flush(&l, 1, &mr, both, IBV_FLUSH_MR);

	fails(&l, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void right_of_the_region(struct ct *t)
{
	struct ct_link l;
	struct ibv_send_wr wr;

	open_flushable(t, &l, IBV_ACCESS_FLUSH_GLOBAL);
	wr = flush(&l, 1, &t->far->mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
	fails(&l, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void right_of_the_qp(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr = open_flushable(t, &l, 0);
	struct ibv_send_wr wr = flush(&l, 1, &mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);

	fails(&l, &wr, IBV_WC_REM_INV_REQ_ERR);
	ct_wait_state(&l.b, IBV_QPS_ERR);
}

static void out_of_bounds(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr = open_flushable(t, &l, IBV_ACCESS_FLUSH_GLOBAL);
	struct ibv_send_wr wr = flush(&l, 1, &mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);

	wr.wr.atomic.remote_addr++;
	fails(&l, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void no_resource(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	struct ibv_send_wr wr;

	o.access_b |= IBV_ACCESS_FLUSH_GLOBAL;
	o.max_dest_rd_atomic = 0;
	ct_link_open(t, &l, &o);
	wr = flush(&l, 1, &t->far->mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	fails(&l, &wr, IBV_WC_REM_INV_REQ_ERR);
}

static void refused(struct ct_link *l, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	CT_EQ(ct_post_send(&l->a, &wr, &bad), EINVAL);
}

/* Nothing of them is posted, and the QP goes on. */
static void no_such_flush(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr = open_flushable(t, &l, IBV_ACCESS_FLUSH_GLOBAL);
	struct ibv_send_wr wr = flush(&l, 1, &mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), *bad;

	refused(&l, flush(&l, 2, &mr, 0, IBV_FLUSH_RANGE));
	refused(&l, flush(&l, 3, &mr, 4, IBV_FLUSH_RANGE));
	refused(&l, flush(&l, 4, &mr, IBV_FLUSH_GLOBAL, 2));
	wr.wr.atomic.compare_add = 1ull << 32; /* the length of a packet has 32 bits */
	refused(&l, wr);
	wr.send_flags |= IBV_SEND_INLINE;
	CT_EQ(ibv_post_send(ct_object(t->near, l.a.handle), &wr, &bad), EINVAL);
	CT_TRUE(bad == &wr);
	ct_none(t->near, t->near->scq);
	wr = flush(&l, 5, &mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	completes(&l, &wr);
}

/* Without builders the opcode is not one of ibv_post_send. */
static void not_by_post_send(struct ct *t)
{
	struct ct_link l;
	struct ct_mr mr = open_flushable(t, &l, IBV_ACCESS_FLUSH_GLOBAL);
	struct ibv_send_wr wr = flush(&l, 1, &mr, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), *bad;

	CT_ERROR(ibv_post_send(ct_object(t->near, l.a.handle), &wr, &bad), EINVAL);
	CT_TRUE(bad == &wr);
	ct_usable(&l);
}

const struct ct_case ct_flush_cases[] = {
	{ "FLUSH of a range and of a region completes as FLUSH", range_and_region, CT_RC | CT_IB,
	  with_builders },
	{ "FLUSH keeps its place in the queue", keeps_its_place, CT_RC, with_builders },
	{ "more FLUSHes than max_rd_atomic complete in order", many_in_a_row, CT_RC,
	  with_builders },
	{ "FLUSH to durable memory is REM_ACCESS_ERR", durable, CT_RC, with_builders },
	{ "FLUSH of both kinds needs both rights", both_kinds, CT_RC, with_builders },
	{ "FLUSH needs the right of the region", right_of_the_region, CT_RC, with_builders },
	{ "FLUSH needs the right of the QP", right_of_the_qp, CT_RC, with_builders },
	{ "FLUSH out of bounds is REM_ACCESS_ERR", out_of_bounds, CT_RC, with_builders },
	{ "FLUSH takes a READ resource of the target", no_resource, CT_RC, with_builders },
	{ "FLUSH of no kind, no level or no length is EINVAL", no_such_flush, CT_RC,
	  with_builders },
	{ "ibv_post_send has no FLUSH", not_by_post_send, CT_RC },
	{ 0 },
};

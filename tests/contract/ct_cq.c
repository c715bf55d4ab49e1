/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: creation, size, resize. */
#include <unistd.h>

#include "ct.h"

static void sizes_are_checked(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_cq *cq;

	CT_NULL(ibv_create_cq(ctx, 0, NULL, NULL, 0), EINVAL);
	CT_NULL(ibv_create_cq(ctx, -1, NULL, NULL, 0), EINVAL);
	CT_NULL(ibv_create_cq(ctx, t->near->attr.max_cqe + 1, NULL, NULL, 0), EINVAL);
	cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	CT_TRUE(cq != NULL);
	CT_TRUE(cq->cqe >= 1);
	CT_EQ(ibv_destroy_cq(cq), 0);
}

static void vectors_are_checked(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);

	CT_EQ(ctx->num_comp_vectors, sysconf(_SC_NPROCESSORS_ONLN));
	for (int i = 0; i < ctx->num_comp_vectors; i++) {
		struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, i);

		CT_TRUE(cq != NULL);
		CT_EQ(ibv_destroy_cq(cq), 0);
	}
	CT_NULL(ibv_create_cq(ctx, 16, NULL, NULL, ctx->num_comp_vectors), EINVAL);
	CT_NULL(ibv_create_cq(ctx, 16, NULL, NULL, -1), EINVAL);
}

static void fields_say_what_was_created(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 100, t, channel, 0);

	CT_TRUE(cq != NULL);
	CT_TRUE(cq->context == ctx && cq->cq_context == t && cq->channel == channel);
	CT_TRUE(cq->cqe >= 100 && cq->cqe <= 400);
	CT_EQ(ibv_destroy_cq(cq), 0);
	CT_EQ(ibv_destroy_comp_channel(channel), 0);
}

static void an_empty_cq_polls_nothing(struct ct *t)
{
	struct ibv_cq *cq = ct_object(t->near, t->near->scq);
	struct ibv_wc wc;

	CT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	CT_EQ(ibv_poll_cq(cq, 0, &wc), 0);
}

static void resize_checks_its_size(struct ct *t)
{
	struct ibv_cq *cq = ibv_create_cq(ct_context(t->near), 16, NULL, NULL, 0);

	CT_TRUE(cq != NULL);
	CT_ERROR(ibv_resize_cq(cq, 0), EINVAL);
	CT_ERROR(ibv_resize_cq(cq, t->near->attr.max_cqe + 1), EINVAL);
	CT_EQ(ibv_resize_cq(cq, 100), 0);
	CT_TRUE(cq->cqe >= 100 && cq->cqe <= 400); /* does not round far up */
	CT_EQ(ibv_resize_cq(cq, 10), 0);
	CT_TRUE(cq->cqe >= 10);
	CT_EQ(ibv_destroy_cq(cq), 0);
}

static void post_sends(struct ct_link *l, int count)
{
	for (int i = 0; i < count; i++) {
		ct_recv(&l->b, i, i * 256, 256);
		ct_send(l, i, i * 256, 8);
	}
}

static void resize_keeps_completions(struct ct *t)
{
	enum { MESSAGES = 10 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.scq_a = ct_create_cq(t->near, 16, 0);
	o.rcq_b = ct_create_cq(t->far, 16, 0);
	ct_link_open(t, &l, &o);
	post_sends(&l, MESSAGES);
	ct_got(&l, 0, IBV_WC_SUCCESS);
	ct_sent(&l, 0, IBV_WC_SUCCESS);
	CT_EQ(ct_resize_cq(t->near, o.scq_a, 300), 0);
	CT_EQ(ct_resize_cq(t->far, o.rcq_b, 300), 0);
	for (int i = 1; i < MESSAGES; i++) {
		ct_sent(&l, i, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
	}
	CT_EQ(ct_resize_cq(t->near, o.scq_a, 16), 0);
	CT_EQ(ct_resize_cq(t->far, o.rcq_b, 16), 0);
	ct_usable(&l);
}

static void resize_below_the_unpolled(struct ct *t)
{
	enum { MESSAGES = 10 };
	struct ibv_qp_attr drain = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.scq_a = ct_create_cq(t->near, 64, 0);
	ct_link_open(t, &l, &o);
	post_sends(&l, MESSAGES);
	for (int i = 0; i < MESSAGES; i++)
		ct_got(&l, i, IBV_WC_SUCCESS);
	ct_sent(&l, 0, IBV_WC_SUCCESS);
	/* A drained queue has completed everything: seen without a poll. */
	CT_EQ(ct_modify_qp(&l.a, &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	ct_event(t->near, IBV_EVENT_SQ_DRAINED, l.a.handle);
	CT_EQ(ct_resize_cq(t->near, o.scq_a, MESSAGES - 2), EINVAL);
	CT_EQ(ct_resize_cq(t->near, o.scq_a, MESSAGES - 1), 0);
	for (int i = 1; i < MESSAGES; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
}

/* One call fetches several, never more than asked for. */
static void poll_fetches_several(struct ct *t)
{
	enum { MESSAGES = 8 };
	struct ibv_wc wc[MESSAGES + 1];
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	post_sends(&l, MESSAGES);
	CT_EQ(ct_poll_cq(t->near, l.a.scq, 3, CT_DEADLINE_MS, wc), 3);
	CT_EQ(wc[0].wr_id, 0);
	CT_EQ(wc[2].wr_id, 2);
	CT_EQ(ct_poll_cq(t->near, l.a.scq, 5, CT_DEADLINE_MS, wc), 5);
	CT_EQ(wc[0].wr_id, 3);
	CT_EQ(wc[4].wr_id, 7);
	ct_none(t->near, l.a.scq);
	CT_EQ(ct_poll_cq(t->far, l.b.rcq, MESSAGES, CT_DEADLINE_MS, wc), MESSAGES);
	CT_EQ(wc[MESSAGES - 1].wr_id, MESSAGES - 1);
	ct_none(t->far, l.b.rcq);
}

/* One CQ may serve both queues of a QP. */
static void one_cq_for_both_queues(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_wc wc;
	struct ct_link l;
	int sends = 0, receives = 0;

	o.scq_a = o.rcq_a = ct_create_cq(t->near, 64, 0);
	ct_link_open(t, &l, &o);
	struct ct_link back = ct_reverse(&l);

	ct_recv(&l.a, 100, 8192, 256);
	ct_recv(&l.b, 200, 8192, 256);
	ct_send(&l, 1, 0, 16);
	ct_send(&back, 2, 0, 16);
	for (int i = 0; i < 2; i++) {
		wc = ct_wait(t->near, o.scq_a);
		CT_EQ(wc.status, IBV_WC_SUCCESS);
		sends += wc.wr_id == 1 && wc.opcode == IBV_WC_SEND;
		receives += wc.wr_id == 100 && wc.opcode == IBV_WC_RECV;
	}
	CT_EQ(sends, 1);
	CT_EQ(receives, 1);
}

const struct ct_case ct_cq_cases[] = {
	{ "a CQ of no entries or too many is EINVAL", sizes_are_checked, CT_SOLO },
	{ "there is a completion vector for each CPU, and no other", vectors_are_checked, CT_SOLO },
	{ "a CQ says what was created and does not round far up", fields_say_what_was_created,
	  CT_SOLO },
	{ "an empty CQ polls nothing", an_empty_cq_polls_nothing, CT_SOLO },
	{ "resize_cq checks its size and does not round far up", resize_checks_its_size, CT_SOLO },
	{ "resize_cq keeps unpolled completions in order", resize_keeps_completions,
	  CT_RC | CT_UD },
	{ "resize_cq below the unpolled completions is EINVAL", resize_below_the_unpolled, CT_RC },
	{ "one poll fetches several completions, no more than asked for", poll_fetches_several,
	  CT_RC | CT_UC | CT_UD },
	{ "one CQ serves both queues of a QP", one_cq_for_both_queues, CT_RC | CT_UC | CT_UD },
	{ 0 },
};

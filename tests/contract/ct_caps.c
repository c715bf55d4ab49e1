/* SPDX-License-Identifier: BSD-2-Clause */
/* What create_qp promises, and what it refuses. */
#include "ct.h"

static struct ibv_qp_init_attr base_init(struct ct *t, enum ibv_qp_type type)
{
	struct ibv_cq *cq = ct_object(t->near, t->near->scq);

	return (struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .cap = { 5, 7, 2, 3, 30 }
	};
}

static struct ibv_pd *pd_of(struct ct *t)
{
	return ct_object(t->near, t->near->pd);
}

static void caps_are_at_least_what_was_asked(struct ct *t)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (int i = 0; i < CT_COUNT(types); i++) {
		struct ibv_qp_init_attr init = base_init(t, types[i]), seen;
		struct ibv_qp *qp = ibv_create_qp(pd_of(t), &init);
		struct ibv_qp_attr attr;

		CT_TRUE(qp != NULL);
		CT_TRUE(init.cap.max_send_wr >= 5 && init.cap.max_recv_wr >= 7);
		CT_TRUE(init.cap.max_send_sge >= 2 && init.cap.max_recv_sge >= 3);
		CT_TRUE(init.cap.max_inline_data >= 30);
		CT_EQ(ibv_query_qp(qp, &attr, IBV_QP_CAP, &seen), 0);
		CT_EQ(memcmp(&attr.cap, &init.cap, sizeof(init.cap)), 0);
		CT_EQ(memcmp(&seen.cap, &init.cap, sizeof(init.cap)), 0);
		CT_TRUE(seen.qp_type == types[i] && seen.send_cq == init.send_cq &&
			seen.recv_cq == init.recv_cq && seen.srq == NULL);
		CT_EQ(attr.qp_state, IBV_QPS_RESET);
		CT_EQ(ibv_destroy_qp(qp), 0);
	}
}

static void fields_say_what_was_created(struct ct *t)
{
	struct ibv_qp_init_attr init = base_init(t, IBV_QPT_UC);
	struct ibv_qp *qp;

	init.qp_context = t;
	qp = ibv_create_qp(pd_of(t), &init);
	CT_TRUE(qp != NULL);
	CT_TRUE(qp->qp_context == t && qp->pd == pd_of(t) && qp->context == ct_context(t->near));
	CT_TRUE(qp->send_cq == init.send_cq && qp->recv_cq == init.recv_cq && !qp->srq);
	CT_EQ(qp->qp_type, IBV_QPT_UC);
	CT_EQ(qp->state, IBV_QPS_RESET);
	CT_EQ(ibv_destroy_qp(qp), 0);
}

static void too_much_is_refused(struct ct *t)
{
	const struct ibv_device_attr *attr = &t->near->attr;
	struct ibv_qp_cap excess[] = {
		{ attr->max_qp_wr + 1, 1, 1, 1, 0 },
		{ 1, attr->max_qp_wr + 1, 1, 1, 0 },
		{ 1, 1, attr->max_sge + 1, 1, 0 },
		{ 1, 1, 1, attr->max_sge + 1, 0 },
		{ 1, 1, 1, 1, 1 << 28 },
	};

	for (int i = 0; i < CT_COUNT(excess); i++) {
		struct ibv_qp_init_attr init = base_init(t, IBV_QPT_RC);

		init.cap = excess[i];
		CT_NULL(ibv_create_qp(pd_of(t), &init), EINVAL);
	}
}

static void limits_are_reachable(struct ct *t)
{
	struct ibv_qp_init_attr init = base_init(t, IBV_QPT_RC);
	struct ibv_qp *qp;

	init.cap = (struct ibv_qp_cap){ t->near->attr.max_qp_wr, t->near->attr.max_qp_wr,
					t->near->attr.max_sge, t->near->attr.max_sge, 0 };
	qp = ibv_create_qp(pd_of(t), &init);
	CT_TRUE(qp != NULL);
	CT_EQ(ibv_destroy_qp(qp), 0);
}

/* Programs find the inline limit by doubling until create_qp refuses. */
static void inline_limit_can_be_searched(struct ct *t)
{
	uint32_t inline_bytes, granted = 0;

	for (inline_bytes = 1; inline_bytes < 1 << 28; inline_bytes *= 2) {
		struct ibv_qp_init_attr init = base_init(t, IBV_QPT_RC);
		struct ibv_qp *qp;

		init.cap.max_inline_data = inline_bytes;
		qp = ibv_create_qp(pd_of(t), &init);
		if (!qp)
			break;
		CT_TRUE(init.cap.max_inline_data >= inline_bytes);
		granted = inline_bytes;
		CT_EQ(ibv_destroy_qp(qp), 0);
	}
	CT_TRUE(granted >= 32);
	CT_TRUE(inline_bytes < 1 << 28);
}

static void unknown_types_are_refused(struct ct *t)
{
	struct ibv_qp_init_attr init = base_init(t, 77);

	errno = 0;
	CT_TRUE(ibv_create_qp(pd_of(t), &init) == NULL);
	CT_TRUE(errno == EINVAL || errno == EOPNOTSUPP);
}

static void numbers_are_unique_and_fresh(struct ct *t)
{
	enum { ROUNDS = 32 };
	uint32_t seen[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_qp_init_attr init = base_init(t, IBV_QPT_RC);
		struct ibv_qp *qp = ibv_create_qp(pd_of(t), &init);

		CT_TRUE(qp != NULL);
		seen[i] = qp->qp_num;
		CT_TRUE(qp->qp_num > 1 && qp->qp_num < 0xffffff);
		for (int j = 0; j < i; j++)
			CT_TRUE(seen[i] != seen[j]);
		CT_EQ(ibv_destroy_qp(qp), 0);
	}
}

const struct ct_case ct_caps_cases[] = {
	{ "create_qp grants at least what was asked for, query_qp says the same",
	  caps_are_at_least_what_was_asked, CT_SOLO },
	{ "a QP says what was created", fields_say_what_was_created, CT_SOLO },
	{ "more than a limit of the device is EINVAL", too_much_is_refused, CT_SOLO },
	{ "the reported limits can be reached", limits_are_reachable, CT_SOLO },
	{ "the inline limit can be searched", inline_limit_can_be_searched, CT_SOLO },
	{ "an unknown QP type is refused", unknown_types_are_refused, CT_SOLO },
	{ "QP numbers are never special and not reused at once", numbers_are_unique_and_fresh,
	  CT_SOLO },
	{ 0 },
};

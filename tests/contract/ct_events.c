/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events that no error brings: when they come, how often, and when they do not. */
#include "ct.h"

static const uint64_t TARGET = 65536;

/* The far end is in RTR: it hears of the first message, and of no other. */
static void first_message_in_rtr(struct ct *t)
{
	struct ct_link l, back;

	ct_link_create(t, &l, NULL);
	back = ct_reverse(&l);
	ct_init(&l.a);
	ct_init(&l.b);
	for (int i = 0; i < 3; i++)
		ct_recv(&l.b, i, TARGET + 1024u * (unsigned)i, 1024);
	ct_rtr(&l.b, &l.a, &l.o);
	ct_rtr(&l.a, &l.b, &l.o);
	ct_rts(&l.a, &l.o);
	ct_no_event(t->far);
	for (int i = 0; i < 3; i++) {
		ct_send(&l, i, 0, 64);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
	}
	ct_event(t->far, IBV_EVENT_COMM_EST, l.b.handle);
	ct_rts(&l.b, &l.o);
	ct_usable(&l);
	ct_usable(&back);
	ct_no_event(t->far);
	ct_no_event(t->near);
}

/* The next connection of the same QP is another one. */
static void again_after_reset(struct ct *t)
{
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	for (int round = 0; round < 2; round++) {
		ct_init(&l.a);
		ct_init(&l.b);
		ct_recv(&l.b, 1, TARGET, 1024);
		ct_rtr(&l.b, &l.a, &l.o);
		ct_rtr(&l.a, &l.b, &l.o);
		ct_rts(&l.a, &l.o);
		ct_send(&l, 2, 0, 64);
		ct_sent(&l, 2, IBV_WC_SUCCESS);
		ct_got(&l, 1, IBV_WC_SUCCESS);
		ct_event(t->far, IBV_EVENT_COMM_EST, l.b.handle);
		CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
		CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
	}
	ct_no_event(t->far);
}

static void quiet_in_rts(struct ct *t)
{
	struct ct_link l, back;

	ct_link_open(t, &l, NULL);
	back = ct_reverse(&l);
	ct_usable(&l);
	ct_usable(&back);
	ct_no_event(t->near);
	ct_no_event(t->far);
}

/* Without an SRQ the flushed receives say it. */
static void no_last_wqe_without_srq(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_recv(&l.b, 1, TARGET, 1024);
	CT_EQ(ct_to_state(&l.b, IBV_QPS_ERR), 0);
	ct_got(&l, 1, IBV_WC_WR_FLUSH_ERR);
	ct_no_event(t->far);
}

static void last_wqe_once_per_error(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.srq_b = ct_create_srq(t->far, t->far->pd, 4, 1);
	ct_link_open(t, &l, &o);
	for (int round = 0; round < 2; round++) {
		CT_EQ(ct_to_state(&l.b, IBV_QPS_ERR), 0);
		ct_event(t->far, IBV_EVENT_QP_LAST_WQE_REACHED, l.b.handle);
		CT_EQ(ct_to_state(&l.b, IBV_QPS_ERR), 0);
		ct_no_event(t->far);
		CT_EQ(ct_to_state(&l.b, IBV_QPS_RESET), 0);
		ct_init(&l.b);
	}
}

static void limit_above_what_is_posted(struct ct *t)
{
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	int srq = ct_create_srq(t->near, t->near->pd, 8, 1);
	struct ibv_sge sge = ct_sge(t->near, TARGET, 64);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	for (int i = 0; i < 2; i++)
		CT_EQ(ct_post_srq_recv(t->near, srq, &wr, &bad), 0);
	CT_EQ(ct_modify_srq(t->near, srq, &attr, IBV_SRQ_LIMIT), 0);
	ct_event(t->near, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	CT_EQ(ct_query_srq(t->near, srq, &attr), 0);
	CT_EQ(attr.srq_limit, 0); /* it fires once */
}

/* Each QP has events of its own, whoever's context it is. */
static void each_names_its_qp(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l[3];

	o.srq_b = ct_create_srq(t->far, t->far->pd, 4, 1);
	for (int i = 0; i < 3; i++)
		ct_link_open(t, &l[i], &o);
	for (int i = 2; i >= 0; i--) {
		CT_EQ(ct_to_state(&l[i].b, IBV_QPS_ERR), 0);
		ct_event(t->far, IBV_EVENT_QP_LAST_WQE_REACHED, l[i].b.handle);
	}
	ct_no_event(t->far);
}

const struct ct_case ct_events_cases[] = {
	{ "the first message to a QP in RTR is IBV_EVENT_COMM_EST", first_message_in_rtr,
	  CT_RC | CT_UC | CT_IB },
	{ "each connection is established anew", again_after_reset, CT_RC | CT_UC },
	{ "a connection in RTS brings no event", quiet_in_rts, CT_RC | CT_UC | CT_UD },
	{ "a QP without SRQ has no LAST_WQE_REACHED", no_last_wqe_without_srq,
	  CT_RC | CT_UC | CT_UD },
	{ "LAST_WQE_REACHED comes once per error", last_wqe_once_per_error, CT_RC | CT_UD },
	{ "LAST_WQE_REACHED names its QP", each_names_its_qp, CT_RC | CT_IB },
	{ "a limit above what is posted is reached at once", limit_above_what_is_posted, CT_SOLO },
	{ 0 },
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that are not ready yet: the sender waits, and goes on when they are. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static void near_ready(struct ct_link *l)
{
	ct_init(&l->a);
	ct_rtr(&l->a, &l->b, &l->o);
	ct_rts(&l->a, &l->o);
}

/* What programs do that exchange addresses without a final handshake. */
static void peer_reaches_rtr_in_time(struct ct *t)
{
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	near_ready(&l);
	ct_fill(t->near, 0, 300, 1);
	ct_send(&l, 1, 0, 300); /* the far QP is in RESET */
	ct_init(&l.b);
	ct_recv(&l.b, 2, TARGET, 300);
	ct_send(&l, 2, 0, 8); /* and now in INIT */
	ct_recv(&l.b, 3, TARGET + 4096, 300);
	ct_none(t->far, l.b.rcq);
	ct_rtr(&l.b, &l.a, &l.o);
	ct_got(&l, 2, IBV_WC_SUCCESS);
	ct_got(&l, 3, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_same(t->far, TARGET, 300, 1);
}

/* Unreliable transports do not wait: the message is gone, the send has succeeded. */
static void unreliable_messages_to_nobody_succeed(struct ct *t)
{
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	near_ready(&l);
	ct_send(&l, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_init(&l.b);
	ct_recv(&l.b, 2, TARGET, 300);
	ct_send(&l, 2, 0, 64);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
}

static void rtr_is_enough_to_be_a_target(struct ct *t)
{
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	near_ready(&l);
	ct_init(&l.b);
	ct_recv(&l.b, 2, TARGET, 300);
	ct_rtr(&l.b, &l.a, &l.o);
	ct_send(&l, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 2, IBV_WC_SUCCESS);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_RTR);
}

static void receive_comes_late(struct ct *t)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						      IBV_WR_RDMA_WRITE_WITH_IMM };
	struct ct_link l;

	ct_link_open(t, &l, NULL); /* rnr_retry 7: for ever */
	for (int i = 0; i < CT_COUNT(opcodes); i++)
		for (uint32_t size = 0; size < 10000; size = size * 7 + 11) {
			ct_fill(t->near, TARGET, size, size);
			ct_do(&l, opcodes[i], 1, TARGET, size);
			ct_none(t->near, l.a.scq);
			ct_recv(&l.b, 2, TARGET, size);
			ct_sent(&l, 1, IBV_WC_SUCCESS);
			ct_got(&l, 2, IBV_WC_SUCCESS);
			ct_same(t->far, TARGET, size, size);
		}
}

/* What is behind the waiting message waits too, in order. */
static void a_waiting_send_holds_the_queue(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_fill(t->far, 0, 100, 1);
	ct_fill(t->near, 0, 100, 2);
	ct_send(&l, 1, 1 << 20, 64);
	ct_do(&l, IBV_WR_RDMA_WRITE, 2, 0, 100);
	ct_do(&l, IBV_WR_RDMA_READ, 3, 4096, 100);
	ct_send(&l, 4, 1 << 20, 64);
	ct_none(t->near, l.a.scq);
	ct_same(t->far, 0, 100, 1);
	ct_recv(&l.b, 1, TARGET, 64);
	ct_got(&l, 1, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_sent(&l, 3, IBV_WC_SUCCESS);
	ct_same(t->far, 0, 100, 2);
	ct_none(t->near, l.a.scq);
	ct_recv(&l.b, 4, TARGET, 64);
	ct_sent(&l, 4, IBV_WC_SUCCESS);
	ct_got(&l, 4, IBV_WC_SUCCESS);
}

/* However long a sender waits: its target registers, flushes and destroys as it likes. */
static void a_waiting_sender_holds_up_nobody(struct ct *t)
{
	struct ct_link waiting, unready, other;
	struct ct_mr mr;

	ct_link_open(t, &other, NULL);
	ct_link_open(t, &waiting, NULL);
	ct_link_create(t, &unready, NULL);
	near_ready(&unready);
	ct_send(&waiting, 1, 0, 64);
	ct_send(&unready, 2, 0, 64);
	CT_TRUE(ct_reg_mr(t->far, t->far->pd, TARGET, 4096, CT_ACCESS_ALL, &mr) > 0);
	CT_EQ(ct_destroy(t->far, mr.handle), 0);
	ct_recv(&other.b, 3, TARGET, 64);
	CT_EQ(ct_to_state(&other.b, IBV_QPS_ERR), 0);
	ct_got(&other, 3, IBV_WC_WR_FLUSH_ERR);
	CT_EQ(ct_destroy(t->far, other.b.handle), 0);
	CT_EQ(ct_destroy(t->far, waiting.b.handle), 0);
	CT_EQ(ct_destroy(t->far, unready.b.handle), 0);
}

/* Plain WRITE and READ need no receive. */
static void one_sided_needs_no_receive(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.rnr_retry = 0;
	ct_link_open(t, &l, &o);
	ct_do(&l, IBV_WR_RDMA_WRITE, 1, 0, 100);
	ct_do(&l, IBV_WR_RDMA_READ, 2, 0, 100);
	ct_do(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 0, 8);
	for (int i = 1; i <= 3; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
}

/* Waiting on an empty SRQ ends when somebody fills it. */
static void an_srq_is_filled_late(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l1, l2;

	o.srq_b = ct_create_srq(t->far, t->far->pd, 16, 1);
	ct_link_open(t, &l1, &o);
	ct_link_open(t, &l2, &o);
	ct_send(&l1, 1, 0, 64);
	ct_send(&l2, 2, 0, 64);
	ct_none(t->near, l1.a.scq);
	ct_recv(&l1.b, 10, TARGET, 256);
	ct_recv(&l1.b, 11, TARGET, 256);
	CT_EQ(ct_wait(t->near, l1.a.scq).status, IBV_WC_SUCCESS);
	CT_EQ(ct_wait(t->near, l1.a.scq).status, IBV_WC_SUCCESS);
	CT_EQ(ct_wait(t->far, l1.b.rcq).status, IBV_WC_SUCCESS);
	CT_EQ(ct_wait(t->far, l1.b.rcq).status, IBV_WC_SUCCESS);
}

const struct ct_case ct_ready_cases[] = {
	{ "a send succeeds if its peer reaches RTR in time", peer_reaches_rtr_in_time,
	  CT_RC | CT_IB },
	{ "an unreliable send to a QP that is not ready succeeds",
	  unreliable_messages_to_nobody_succeed, CT_UC | CT_UD },
	{ "a QP in RTR is a target", rtr_is_enough_to_be_a_target, CT_RC | CT_UC },
	{ "a message waits for its receive", receive_comes_late, CT_RC },
	{ "a waiting message holds up the queue behind it", a_waiting_send_holds_the_queue, CT_RC },
	{ "a waiting sender does not hold up its target", a_waiting_sender_holds_up_nobody, CT_RC },
	{ "WRITE, READ and atomics need no receive", one_sided_needs_no_receive, CT_RC },
	{ "messages wait for an SRQ to be filled", an_srq_is_filled_late, CT_RC },
	{ 0 },
};

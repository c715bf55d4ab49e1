/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion events: which completions wake, and how often. */
#include "ct.h"

/* The far end waits for events of its receive CQ. */
struct waiter {
	struct ct_link l;
	struct ct_end *end;
	int channel, cq;
};

static void waiter_open(struct ct *t, struct waiter *w)
{
	struct ct_opts o = ct_defaults(t);

	w->end = t->far;
	w->channel = ct_create_channel(t->far);
	w->cq = o.rcq_b = ct_create_cq(t->far, 64, w->channel);
	CT_TRUE(w->cq > 0);
	ct_link_open(t, &w->l, &o);
}

static void deliver(struct waiter *w, uint64_t wr_id, unsigned flags, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = ct_sge(w->l.a.end, 0, 8);
	struct ibv_send_wr wr = ct_wr(&w->l, opcode, wr_id, &sge, 1);

	wr.send_flags |= flags;
	ct_recv(&w->l.b, wr_id, 4096, 256);
	ct_post(&w->l.a, &wr);
	ct_sent(&w->l, wr_id, IBV_WC_SUCCESS);
}

static void any_completion_wakes(struct ct *t)
{
	struct waiter w;

	waiter_open(t, &w);
	CT_EQ(ct_req_notify_cq(w.end, w.cq, false), 0);
	deliver(&w, 1, 0, IBV_WR_SEND);
	CT_EQ(ct_get_cq_event(w.end, w.channel, CT_DEADLINE_MS), w.cq);
	ct_got(&w.l, 1, IBV_WC_SUCCESS);
}

static void each_request_is_one_shot(struct ct *t)
{
	struct waiter w;

	waiter_open(t, &w);
	CT_EQ(ct_req_notify_cq(w.end, w.cq, false), 0);
	deliver(&w, 1, 0, IBV_WR_SEND);
	CT_EQ(ct_get_cq_event(w.end, w.channel, CT_DEADLINE_MS), w.cq);
	deliver(&w, 2, 0, IBV_WR_SEND);
	ct_got(&w.l, 1, IBV_WC_SUCCESS);
	ct_got(&w.l, 2, IBV_WC_SUCCESS);
	CT_EQ(ct_get_cq_event(w.end, w.channel, 0), 0);
	CT_EQ(ct_req_notify_cq(w.end, w.cq, false), 0);
	deliver(&w, 3, 0, IBV_WR_SEND);
	CT_EQ(ct_get_cq_event(w.end, w.channel, CT_DEADLINE_MS), w.cq);
}

static void nothing_wakes_unasked(struct ct *t)
{
	struct waiter w;

	waiter_open(t, &w);
	deliver(&w, 1, IBV_SEND_SOLICITED, IBV_WR_SEND);
	ct_got(&w.l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_get_cq_event(w.end, w.channel, 0), 0);
}

static void solicited_only(struct ct *t)
{
	struct waiter w;

	waiter_open(t, &w);
	CT_EQ(ct_req_notify_cq(w.end, w.cq, true), 0);
	deliver(&w, 1, 0, IBV_WR_SEND);
	ct_got(&w.l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_get_cq_event(w.end, w.channel, 0), 0);
	deliver(&w, 2, IBV_SEND_SOLICITED, IBV_WR_SEND);
	CT_EQ(ct_get_cq_event(w.end, w.channel, CT_DEADLINE_MS), w.cq);
	ct_got(&w.l, 2, IBV_WC_SUCCESS);
}

static void solicited_write_with_imm(struct ct *t)
{
	struct waiter w;

	waiter_open(t, &w);
	CT_EQ(ct_req_notify_cq(w.end, w.cq, true), 0);
	deliver(&w, 1, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
	ct_got(&w.l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_get_cq_event(w.end, w.channel, 0), 0);
	deliver(&w, 2, IBV_SEND_SOLICITED, IBV_WR_RDMA_WRITE_WITH_IMM);
	CT_EQ(ct_get_cq_event(w.end, w.channel, CT_DEADLINE_MS), w.cq);
}

/* A request for any completion is not weakened by a later one for solicited ones. */
static void any_beats_solicited(struct ct *t)
{
	struct waiter w;

	waiter_open(t, &w);
	CT_EQ(ct_req_notify_cq(w.end, w.cq, false), 0);
	CT_EQ(ct_req_notify_cq(w.end, w.cq, true), 0);
	deliver(&w, 1, 0, IBV_WR_SEND);
	CT_EQ(ct_get_cq_event(w.end, w.channel, CT_DEADLINE_MS), w.cq);
	CT_EQ(ct_get_cq_event(w.end, w.channel, 0), 0);
}

static void errors_are_solicited(struct ct *t)
{
	struct waiter w;

	waiter_open(t, &w);
	ct_recv(&w.l.b, 5, 4096, 256);
	CT_EQ(ct_req_notify_cq(w.end, w.cq, true), 0);
	CT_EQ(ct_to_state(&w.l.b, IBV_QPS_ERR), 0);
	CT_EQ(ct_get_cq_event(w.end, w.channel, CT_DEADLINE_MS), w.cq);
	ct_got(&w.l, 5, IBV_WC_WR_FLUSH_ERR);
}

static void sends_wake_too(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	int channel = ct_create_channel(t->near);

	o.scq_a = ct_create_cq(t->near, 64, channel);
	ct_link_open(t, &l, &o);
	ct_recv(&l.b, 1, 4096, 256);
	CT_EQ(ct_req_notify_cq(t->near, o.scq_a, false), 0);
	ct_send(&l, 1, 0, 8);
	CT_EQ(ct_get_cq_event(t->near, channel, CT_DEADLINE_MS), o.scq_a);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
}

/* A send that succeeds is never solicited, one that fails is. */
static void failed_sends_are_solicited(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ct_link l;
	int channel = ct_create_channel(t->near);

	o.scq_a = ct_create_cq(t->near, 64, channel);
	ct_link_open(t, &l, &o);
	CT_EQ(ct_req_notify_cq(t->near, o.scq_a, true), 0);
	ct_recv(&l.b, 1, 4096, 256);
	ct_send(&l, 1, 0, 8);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_get_cq_event(t->near, channel, 0), 0);
	sge = ct_sge(t->near, 0, 8);
	sge.lkey ^= 0x100;
	wr = ct_wr(&l, IBV_WR_SEND, 2, &sge, 1);
	ct_post(&l.a, &wr);
	CT_EQ(ct_get_cq_event(t->near, channel, CT_DEADLINE_MS), o.scq_a);
	ct_sent(&l, 2, IBV_WC_LOC_PROT_ERR);
}

/* Two CQs on one channel: each event names its own. */
static void a_channel_serves_several_cqs(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l1, l2;
	int channel = ct_create_channel(t->far);
	int cq1 = ct_create_cq(t->far, 64, channel), cq2 = ct_create_cq(t->far, 64, channel);

	o.rcq_b = cq1;
	ct_link_open(t, &l1, &o);
	o.rcq_b = cq2;
	ct_link_open(t, &l2, &o);
	CT_EQ(ct_req_notify_cq(t->far, cq1, false), 0);
	CT_EQ(ct_req_notify_cq(t->far, cq2, false), 0);
	ct_recv(&l1.b, 1, 4096, 256);
	ct_recv(&l2.b, 2, 4096, 256);
	ct_send(&l2, 2, 0, 8);
	CT_EQ(ct_get_cq_event(t->far, channel, CT_DEADLINE_MS), cq2);
	ct_send(&l1, 1, 0, 8);
	CT_EQ(ct_get_cq_event(t->far, channel, CT_DEADLINE_MS), cq1);
}

/* A CQ that is destroyed takes its event along; its neighbour on the channel goes on. */
static void events_go_with_their_cq(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l1, l2;
	int channel = ct_create_channel(t->far);
	int cq1 = ct_create_cq(t->far, 64, channel), cq2 = ct_create_cq(t->far, 64, channel);

	o.rcq_b = cq1;
	ct_link_open(t, &l1, &o);
	o.rcq_b = cq2;
	ct_link_open(t, &l2, &o);
	ct_recv(&l1.b, 1, 4096, 256);
	CT_EQ(ct_req_notify_cq(t->far, cq1, false), 0);
	CT_EQ(ct_to_state(&l1.b, IBV_QPS_ERR), 0);
	ct_got(&l1, 1, IBV_WC_WR_FLUSH_ERR);
	CT_EQ(ct_destroy(t->far, l1.b.handle), 0);
	CT_EQ(ct_destroy(t->far, cq1), 0);
	CT_EQ(ct_get_cq_event(t->far, channel, 0), 0);
	CT_EQ(ct_req_notify_cq(t->far, cq2, false), 0);
	ct_recv(&l2.b, 2, 4096, 256);
	ct_send(&l2, 2, 0, 8);
	CT_EQ(ct_get_cq_event(t->far, channel, CT_DEADLINE_MS), cq2);
}

/* Sleeping on the channel for every message, as event-driven programs do: no wake-up is lost. */
static void no_wakeup_is_lost(struct ct *t)
{
	enum { ROUNDS = 300 };
	struct waiter w;

	waiter_open(t, &w);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_wc wc;

		CT_EQ(ct_req_notify_cq(w.end, w.cq, false), 0);
		ct_recv(&w.l.b, i, 4096, 256);
		ct_send(&w.l, i, 0, i % 2 ? 8 : 200);
		CT_EQ(ct_get_cq_event(w.end, w.channel, CT_DEADLINE_MS), w.cq);
		CT_EQ(ct_poll_cq(w.end, w.cq, 1, CT_DEADLINE_MS, &wc), 1);
		CT_EQ(wc.wr_id, i);
		ct_sent(&w.l, i, IBV_WC_SUCCESS);
	}
}

#define ALL (CT_RC | CT_UC | CT_UD)

const struct ct_case ct_event_cases[] = {
	{ "an armed CQ wakes on any completion", any_completion_wakes, ALL | CT_IB },
	{ "each request for notification is one shot", each_request_is_one_shot, ALL },
	{ "a CQ that is not armed does not wake", nothing_wakes_unasked, CT_RC },
	{ "solicited-only wakes on solicited messages alone", solicited_only, ALL },
	{ "solicited-only works with WRITE_WITH_IMM", solicited_write_with_imm, CT_RC | CT_UC },
	{ "arming for any completion is not weakened by arming for solicited ones",
	  any_beats_solicited, CT_RC },
	{ "an error completion counts as solicited", errors_are_solicited, ALL },
	{ "send completions wake too", sends_wake_too, ALL },
	{ "solicited-only ignores good sends and reports failed ones", failed_sends_are_solicited,
	  ALL },
	{ "a channel serves several CQs and names the right one", a_channel_serves_several_cqs,
	  CT_RC },
	{ "an event goes with its CQ, the channel serves the others", events_go_with_their_cq,
	  CT_RC },
	{ "arm, sleep, poll: no wake-up is lost", no_wakeup_is_lost, ALL },
	{ 0 },
};

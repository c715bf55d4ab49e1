/* SPDX-License-Identifier: BSD-2-Clause */
/* Moderation: one event for several completions. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ct.h"

static const uint64_t TARGET = 4 << 20;

enum { PERIOD_US = 60000, ROUNDS = 4 };

struct moderated {
	struct ct_link in; /* far to near */
	struct ibv_cq *cq;
	int channel, cq_handle;
};

static void open_moderated(struct ct *t, struct moderated *m, uint16_t count, uint16_t period_us)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					   .moderate = { count, period_us } };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	m->channel = ct_create_channel(t->near);
	m->cq_handle = o.rcq_a = ct_create_cq(t->near, 64, m->channel);
	CT_TRUE(o.rcq_a > 0);
	ct_link_open(t, &l, &o);
	m->in = ct_reverse(&l);
	m->cq = ct_object(t->near, m->cq_handle);
	CT_EQ(ibv_modify_cq(m->cq, &attr), 0);
}

static void deliver(struct moderated *m, int count)
{
	for (int i = 0; i < count; i++) {
		ct_recv(&m->in.b, i, TARGET, 64);
		ct_send(&m->in, i, 0, 8);
		ct_sent(&m->in, i, IBV_WC_SUCCESS);
	}
}

static void drain(struct ct *t, struct moderated *m, int count)
{
	struct ibv_wc wc[64];

	CT_EQ(ct_poll_cq(t->near, m->cq_handle, count, CT_DEADLINE_MS, wc), count);
}

static double event_s(struct ct *t, struct moderated *m, double start_s)
{
	CT_EQ(ct_get_cq_event(t->near, m->channel, CT_DEADLINE_MS), m->cq_handle);
	return ct_now_s() - start_s;
}

static void period_ends(struct ct *t)
{
	struct moderated m;

	open_moderated(t, &m, 1000, PERIOD_US);
	for (int round = 0; round < ROUNDS; round++) {
		double start_s = ct_now_s();

		CT_EQ(ct_req_notify_cq(t->near, m.cq_handle, false), 0);
		deliver(&m, 3);
		CT_TRUE(event_s(t, &m, start_s) > PERIOD_US * 0.9e-6);
		/* One event for all of them, and the arm is gone with it. */
		deliver(&m, 1);
		CT_EQ(ct_get_cq_event(t->near, m.channel, 2 * PERIOD_US / 1000), 0);
		drain(t, &m, 4);
	}
}

/*
 * Without moderation the first would make the event. A busy machine may need longer than the period
 * for so many messages: once it must have been the count.
 */
static void count_reached(struct ct *t)
{
	enum { COUNT = 8 };
	int by_count = 0;
	struct moderated m;

	open_moderated(t, &m, COUNT, UINT16_MAX);
	for (int round = 0; round < 5 * ROUNDS; round++) {
		double start_s = ct_now_s(), span_s;
		int delivered = 0;

		CT_EQ(ct_req_notify_cq(t->near, m.cq_handle, false), 0);
		while (!ct_get_cq_event(t->near, m.channel, 0)) {
			deliver(&m, 1);
			drain(t, &m, 1);
			delivered++;
			CT_TRUE(ct_now_s() < start_s + CT_DEADLINE_MS / 1e3);
		}
		span_s = ct_now_s() - start_s;
		CT_TRUE(delivered >= COUNT || span_s > UINT16_MAX * 1e-6);
		by_count += span_s < UINT16_MAX * 1e-6;
	}
	CT_TRUE(by_count > 0);
}

static void solicited_only(struct ct *t)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge = ct_sge(t->far, 0, 8);
	struct moderated m;
	double start_s;

	open_moderated(t, &m, 1000, PERIOD_US);
	CT_EQ(ct_req_notify_cq(t->near, m.cq_handle, true), 0);
	deliver(&m, 2);
	CT_EQ(ct_get_cq_event(t->near, m.channel, 2 * PERIOD_US / 1000), 0);
	wr = ct_wr(&m.in, IBV_WR_SEND, 9, &sge, 1);
	wr.send_flags |= IBV_SEND_SOLICITED;
	ct_recv(&m.in.b, 9, TARGET, 64);
	start_s = ct_now_s();
	ct_post(&m.in.a, &wr);
	CT_TRUE(event_s(t, &m, start_s) > PERIOD_US * 0.9e-6);
	ct_sent(&m.in, 9, IBV_WC_SUCCESS);
	drain(t, &m, 3);
}

/* Connects to the process of a QP, as a tool does that asks for a listing, and goes. */
static void visit(const struct ct_qp *qp)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int size =
		snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "verbena.%u", qp->qpn >> 12);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char none;

	CT_EQ(connect(fd, (struct sockaddr *)&name,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size)),
	      0);
	CT_EQ(shutdown(fd, SHUT_WR), 0);
	CT_TRUE(read(fd, &none, 1) <= 0); /* the process has seen the end */
	close(fd);
}

/* The process has completions that make no event. It looks at them again when a peer ends. */
static void visited(struct ct *t)
{
	struct moderated m;

	open_moderated(t, &m, 0, 0);
	CT_EQ(ct_req_notify_cq(t->near, m.cq_handle, true), 0);
	deliver(&m, 2);
	visit(&m.in.b);
	CT_EQ(ct_get_cq_event(t->near, m.channel, 2 * PERIOD_US / 1000), 0);
	drain(t, &m, 2);
}

/* Who turns it off does not wait for what was held back by it. */
static void turned_off(struct ct *t)
{
	struct ibv_modify_cq_attr off = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	struct moderated m;

	open_moderated(t, &m, 1000, UINT16_MAX);
	CT_EQ(ct_req_notify_cq(t->near, m.cq_handle, false), 0);
	deliver(&m, 1);
	CT_EQ(ibv_modify_cq(m.cq, &off), 0);
	CT_EQ(ct_get_cq_event(t->near, m.channel, CT_DEADLINE_MS), m.cq_handle);
	drain(t, &m, 1);
	CT_EQ(ct_req_notify_cq(t->near, m.cq_handle, false), 0);
	deliver(&m, 1);
	CT_EQ(ct_get_cq_event(t->near, m.channel, CT_DEADLINE_MS), m.cq_handle);
	drain(t, &m, 1);
}

static void attributes(struct ct *t)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = 1 << 10 };
	struct ibv_device_attr_ex dev;
	int cq = ct_create_cq(t->near, 16, 0);

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &dev), 0);
	CT_TRUE(dev.cq_mod_caps.max_cq_count && dev.cq_mod_caps.max_cq_period);
	CT_ERROR(ibv_modify_cq(ct_object(t->near, cq), &attr), EOPNOTSUPP);
	attr = (struct ibv_modify_cq_attr){ .attr_mask = IBV_CQ_ATTR_MODERATE,
					    .moderate = { dev.cq_mod_caps.max_cq_count,
							  dev.cq_mod_caps.max_cq_period } };
	CT_EQ(ibv_modify_cq(ct_object(t->near, cq), &attr), 0); /* without a channel: no matter */
	attr.attr_mask = 0;
	CT_EQ(ibv_modify_cq(ct_object(t->near, cq), &attr), 0);
}

/* A CQ that goes while an event is held back leaves nothing behind. */
static void destroyed_meanwhile(struct ct *t)
{
	struct moderated m;

	open_moderated(t, &m, 1000, 1000);
	CT_EQ(ct_req_notify_cq(t->near, m.cq_handle, false), 0);
	deliver(&m, 2);
	CT_EQ(ct_destroy(t->near, m.in.b.handle), 0);
	CT_EQ(ct_destroy(t->near, m.cq_handle), 0);
	CT_EQ(ct_get_cq_event(t->near, m.channel, 50), 0);
	CT_EQ(ct_destroy(t->near, m.channel), 0);
}

const struct ct_case ct_moderate_cases[] = {
	{ "modify_cq takes moderation, and refuses what it does not know", attributes, CT_SOLO },
	{ "an event waits for the period of its CQ, and stands for all that came in it",
	  period_ends, CT_RC | CT_UD },
	{ "an event comes as soon as enough completions did", count_reached, CT_RC },
	{ "solicited completions are moderated, others make no event", solicited_only, CT_RC },
	{ "a program that asks a process for its objects makes no event", visited, CT_RC },
	{ "moderation that is turned off lets the event go", turned_off, CT_RC },
	{ "a CQ can be destroyed while its event waits", destroyed_meanwhile, CT_RC },
	{ 0 },
};

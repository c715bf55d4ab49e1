/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of an agent: what has to go on at an end while the test does something else. */
#include <poll.h>
#include <sched.h>

#include "ct_agent.h"

/* ---- hammer: post and poll, as fast as it goes ----------------------------------------------- */

static int hammer_poll(struct hammer *h)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(h->cq, 16, wc);

	for (int i = 0; i < n; i++)
		h->good += wc[i].status == IBV_WC_SUCCESS;
	return n;
}

static void *hammer_run(void *arg)
{
	struct hammer *h = arg;
	struct ibv_send_wr *bad;
	int posted = 0, polled = 0;
	double deadline_s = ct_now_s() + CT_DEADLINE_MS / 1e3;

	while (polled < h->count && ct_now_s() < deadline_s) {
		int n;

		if (posted < h->count && posted - polled < h->depth) {
			h->wr.wr_id = posted;
			if (agent_post(h->qp, &h->wr, &bad))
				break;
			posted++;
		}
		n = hammer_poll(h);
		if (n < 0)
			break;
		polled += n;
		if (!n && posted - polled == h->depth)
			sched_yield();
	}
	h->missing = posted - polled;
	return NULL;
}

void agent_hammer_start(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_send_wr *wr = (void *)m->post.bytes;
	struct hammer *h = &g->hammers[g->hammer_count];

	if (g->hammer_count == HAMMERS_MAX)
		ct_fail("too many hammers");
	*h = (struct hammer){ .qp = g->objects[m->handle].ptr,
			      .cq = g->objects[m->post.cq].ptr,
			      .wr = *wr,
			      .sge = *(struct ibv_sge *)(wr + 1),
			      .count = m->post.repeat,
			      .depth = m->post.depth };
	h->wr.sg_list = &h->sge;
	h->wr.next = NULL;
	if (h->qp->qp_type == IBV_QPT_UD)
		h->wr.wr.ud.ah = g->objects[(uintptr_t)wr->wr.ud.ah].ptr;
	if (pthread_create(&h->thread, NULL, hammer_run, h))
		ct_fail("no thread for a hammer");
	m->ret = g->hammer_count++;
	g->hammers_running++;
}

void agent_hammer_join(struct ct_agent *g, struct ct_msg *m)
{
	const struct hammer *h = &g->hammers[m->handle];

	pthread_join(h->thread, NULL);
	m->ret = h->missing ? -1 : h->good;
	if (!--g->hammers_running)
		g->hammer_count = 0;
}

/* ---- sleeper: arm, poll until empty, sleep ---------------------------------------------- */

/* Answers how many came, or -1. */
static int sleeper_drain(struct sleeper *s)
{
	struct ibv_recv_wr *bad;
	struct ibv_wc wc[4];
	int n, all = 0;

	while ((n = ibv_poll_cq(s->cq, 4, wc)) > 0)
		for (int i = 0; i < n; i++, all++) {
			if (wc[i].status != IBV_WC_SUCCESS || ibv_post_recv(s->qp, &s->wr, &bad))
				return -1;
			s->good++;
		}
	return n < 0 ? n : all;
}

static bool sleeper_sleep(struct sleeper *s)
{
	struct pollfd pfd = { .fd = s->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *cq_context;

	if (poll(&pfd, 1, CT_DEADLINE_MS / 2) != 1 ||
	    ibv_get_cq_event(s->channel, &cq, &cq_context))
		return false;
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void *sleeper_run(void *arg)
{
	struct sleeper *s = arg;

	while (s->good < s->count) {
		if (ibv_req_notify_cq(s->cq, 0) || sleeper_drain(s) < 0)
			break;
		if (s->good < s->count && !sleeper_sleep(s))
			break;
	}
	return NULL;
}

void agent_sleeper_start(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_recv_wr *wr = (void *)m->post.bytes;
	struct sleeper *s = &g->sleeper;

	*s = (struct sleeper){ .channel = g->objects[m->post.channel].ptr,
			       .cq = g->objects[m->post.cq].ptr,
			       .qp = g->objects[m->handle].ptr,
			       .wr = *wr,
			       .sge = *(struct ibv_sge *)(wr + 1),
			       .count = m->post.repeat };
	s->wr.sg_list = &s->sge;
	s->wr.next = NULL;
	if (pthread_create(&s->thread, NULL, sleeper_run, s))
		ct_fail("no thread for a sleeper");
}

void agent_sleeper_join(struct ct_agent *g, struct ct_msg *m)
{
	pthread_join(g->sleeper.thread, NULL);
	m->ret = g->sleeper.good;
}

/* ---- watch: look at memory that a peer writes ------------------------------------------------ */

/* Looking at memory while a peer writes it is the point: not a race to be reported. */
#define LOOKS_ON __attribute__((no_sanitize("thread")))

LOOKS_ON static bool buffer_is(const struct watch *w, uint8_t value)
{
	for (uint64_t i = 0; i < w->length; i++)
		if (w->buffer[i] != value)
			return false;
	return true;
}

LOOKS_ON static void *watch_run(void *arg)
{
	struct watch *w = arg;

	for (int round = 1; round <= w->rounds; round++) {
		for (int spins = 0; w->buffer[w->length - 1] != (uint8_t)round; spins++)
			if (spins > 1000)
				sched_yield();
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		w->torn += !buffer_is(w, (uint8_t)round);
		*w->reply = round;
	}
	return NULL;
}

void agent_watch_start(struct ct_agent *g, struct ct_msg *m)
{
	g->watch = (struct watch){ .buffer = g->arena + m->memory.offset,
				   .length = m->memory.length,
				   .reply = (uint64_t *)(g->arena + m->memory.value),
				   .rounds = m->memory.rounds };
	m->ret = pthread_create(&g->watch.thread, NULL, watch_run, &g->watch);
}

void agent_watch_join(struct ct_agent *g, struct ct_msg *m)
{
	pthread_join(g->watch.thread, NULL);
	m->ret = g->watch.torn;
}

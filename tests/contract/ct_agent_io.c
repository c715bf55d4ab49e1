/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's hands: posting, polling, events, and the memory that messages go to. */
#include <poll.h>
#include <sched.h>

#include "ct_agent.h"

/* ---- posting --------------------------------------------------------------------------------- */

/* An AH travels as its handle. Only sends on UD have one: others use the union otherwise. */
static void resolve_ah(struct ct_agent *g, const struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	if (qp->qp_type == IBV_QPT_UD &&
	    (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM))
		wr->wr.ud.ah = g->objects[(uintptr_t)wr->wr.ud.ah].ptr;
}

void agent_post_send(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_qp *qp = g->objects[m->handle].ptr;
	struct ibv_send_wr *wr = (void *)m->post.bytes, *bad = NULL;
	struct ibv_sge *sge = (void *)(wr + m->post.count);

	for (int i = 0; i < m->post.count; i++) {
		wr[i].sg_list = sge;
		sge += wr[i].num_sge > 0 ? wr[i].num_sge : 0;
		wr[i].next = i + 1 < m->post.count ? &wr[i + 1] : NULL;
		resolve_ah(g, qp, &wr[i]);
	}
	m->ret = agent_post(qp, wr, &bad);
	m->post.bad = bad ? (int)(bad - wr) : -1;
	m->body_bytes = sizeof(m->post);
}

void agent_post_recv(struct ct_agent *g, struct ct_msg *m)
{
	struct object *queue = &g->objects[m->handle];
	struct ibv_recv_wr *wr = (void *)m->post.bytes, *bad = NULL;
	struct ibv_sge *sge = (void *)(wr + m->post.count);

	for (int i = 0; i < m->post.count; i++) {
		wr[i].sg_list = sge;
		sge += wr[i].num_sge > 0 ? wr[i].num_sge : 0;
		wr[i].next = i + 1 < m->post.count ? &wr[i + 1] : NULL;
	}
	if (queue->kind == KIND_SRQ)
		m->ret = ibv_post_srq_recv(queue->ptr, wr, &bad);
	else
		m->ret = ibv_post_recv(queue->ptr, wr, &bad);
	m->post.bad = bad ? (int)(bad - wr) : -1;
	m->body_bytes = sizeof(m->post);
}

/* ---- waiting --------------------------------------------------------------------------------- */

void agent_poll_cq(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_cq *cq = g->objects[m->handle].ptr;
	double deadline_s = ct_now_s() + m->poll.deadline_ms / 1e3;
	int want = m->poll.count, got = 0;

	for (int spins = 0; got < want; spins++) {
		int n = ibv_poll_cq(cq, want - got, &m->poll.wc[got]);

		if (n < 0) {
			got = n;
			break;
		}
		got += n;
		if (n)
			spins = 0;
		else if (ct_now_s() >= deadline_s)
			break;
		else if (spins > 100)
			sched_yield();
	}
	m->ret = got;
	m->body_bytes = offsetof(struct ct_msg, poll.wc) - CT_MSG_HEAD +
			(got > 0 ? got : 0) * sizeof(m->poll.wc[0]);
}

static int handle_of(struct ct_agent *g, const void *ptr)
{
	for (int i = 1; i <= g->object_count; i++)
		if (g->objects[i].ptr == ptr && g->objects[i].kind != KIND_NONE)
			return i;
	return 0;
}

static bool readable(int fd, int deadline_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, deadline_ms) == 1;
}

void agent_cq_event(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_comp_channel *channel = g->objects[m->handle].ptr;
	struct ibv_cq *cq;
	void *cq_context;

	m->ret = 0;
	if (!readable(channel->fd, m->event.deadline_ms) ||
	    ibv_get_cq_event(channel, &cq, &cq_context))
		return;
	m->ret = handle_of(g, cq);
	ibv_ack_cq_events(cq, 1);
}

void agent_async_event(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_async_event event;

	m->ret = 0;
	m->body_bytes = sizeof(m->event);
	if (!readable(g->ctx->async_fd, m->event.deadline_ms) ||
	    ibv_get_async_event(g->ctx, &event))
		return;
	m->ret = 1;
	m->event.type = event.event_type;
	m->event.handle = handle_of(g, event.element.qp);
	ibv_ack_async_event(&event);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* No short period, so that a shifted or repeated piece shows. */
static uint8_t pattern(unsigned seed, uint64_t i)
{
	return (uint8_t)(seed * 151 + i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + 1);
}

void agent_fill(struct ct_agent *g, struct ct_msg *m)
{
	for (uint64_t i = 0; i < m->memory.length; i++)
		g->arena[m->memory.offset + i] = pattern(m->memory.seed, i);
}

void agent_compare(struct ct_agent *g, struct ct_msg *m)
{
	m->body_bytes = offsetof(struct ct_msg, memory.bytes) - CT_MSG_HEAD;
	m->memory.value = UINT64_MAX;
	for (uint64_t i = 0; i < m->memory.length; i++)
		if (g->arena[m->memory.offset + i] != pattern(m->memory.seed, i)) {
			m->memory.value = i;
			return;
		}
}

void agent_peek(struct ct_agent *g, struct ct_msg *m)
{
	/* Relaxed: a peer may be writing it right now. */
	m->memory.value =
		__atomic_load_n((uint64_t *)(g->arena + m->memory.offset), __ATOMIC_RELAXED);
	memcpy(m->memory.bytes, g->arena + m->memory.offset, m->memory.length);
	m->body_bytes = sizeof(m->memory);
}

void agent_poke(struct ct_agent *g, struct ct_msg *m)
{
	memcpy(g->arena + m->memory.offset, &m->memory.value, sizeof(m->memory.value));
}

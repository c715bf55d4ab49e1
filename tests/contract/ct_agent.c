/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent of an end: owns its verbs objects by number and executes commands on them. */
#include "ct_agent.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void *object(struct ct_agent *g, int handle, enum kind kind)
{
	if (!handle)
		return NULL;
	if (handle < 0 || handle > g->object_count || g->objects[handle].kind != kind)
		ct_fail("the test names an object that does not exist (handle %d)", handle);
	return g->objects[handle].ptr;
}

/* Takes over what a maker returned: answers the handle, or -errno. */
static int keep(struct ct_agent *g, enum kind kind, void *ptr)
{
	if (!ptr)
		return errno ? -errno : -EIO;
	if (g->object_count + 1 == OBJECTS_MAX)
		ct_fail("too many objects for one test");
	g->objects[++g->object_count] = (struct object){ kind, ptr };
	return g->object_count;
}

void *agent_object(struct ct_agent *g, int handle, enum kind kind)
{
	return object(g, handle, kind);
}

int agent_keep(struct ct_agent *g, enum kind kind, void *ptr)
{
	return keep(g, kind, ptr);
}

int ct_agent_adopt_cq(struct ct_agent *g, struct ibv_cq *cq)
{
	return keep(g, KIND_CQ, cq);
}

int ct_agent_adopt_pd(struct ct_agent *g, struct ibv_pd *pd)
{
	return keep(g, KIND_PD, pd);
}

void ct_agent_forget(struct ct_agent *g, int handle)
{
	g->objects[handle].kind = KIND_NONE;
}

static struct ibv_context *open_named(const char *name)
{
	int count;
	struct ibv_context *ctx = NULL;
	struct ibv_device **list = ibv_get_device_list(&count);

	for (int i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static struct ibv_context *open_first(uint8_t link_layer, struct ibv_port_attr *port)
{
	struct ibv_context *found = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i] && !found; i++) {
		struct ibv_context *ctx = ibv_open_device(list[i]);

		if (!ctx)
			continue;
		if (!ibv_query_port(ctx, 1, port) && port->link_layer == link_layer)
			found = ctx;
		else
			ibv_close_device(ctx);
	}
	if (list)
		ibv_free_device_list(list);
	return found;
}

static void do_open(struct ct_agent *g, struct ct_msg *m)
{
	bool infiniband = m->open.infiniband;
	const char *name = getenv(infiniband ? "VERBENA_TEST_IB_DEVICE" : "VERBENA_TEST_DEVICE");
	const char *gid = getenv("VERBENA_TEST_GID");
	uint8_t layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;

	memset(&m->open, 0, sizeof(m->open));
	m->body_bytes = sizeof(m->open);
	m->open.gid_index = infiniband ? 0 : gid ? atoi(gid) : 1;
	g->ctx = name ? open_named(name) : open_first(layer, &m->open.port);
	m->ret = ENODEV;
	if (!g->ctx)
		return;
	m->ret = ibv_query_port(g->ctx, 1, &m->open.port);
	m->ret = m->ret ? m->ret : ibv_query_device(g->ctx, &m->open.attr);
	m->ret = m->ret ? m->ret : ibv_query_gid(g->ctx, 1, m->open.gid_index, &m->open.gid);
	m->open.base = (uintptr_t)g->arena;
}

static int destroy(struct object *o)
{
	switch (o->kind) {
	case KIND_QP:
		return ibv_destroy_qp(o->ptr);
	case KIND_SRQ:
		return ibv_destroy_srq(o->ptr);
	case KIND_AH:
		return ibv_destroy_ah(o->ptr);
	case KIND_MR:
		return ibv_dereg_mr(o->ptr);
	case KIND_CQ:
		return ibv_destroy_cq(o->ptr);
	case KIND_CHANNEL:
		return ibv_destroy_comp_channel(o->ptr);
	case KIND_PD:
		return ibv_dealloc_pd(o->ptr);
	case KIND_XRCD:
		return ibv_close_xrcd(o->ptr);
	case KIND_NONE:
	case KINDS:
		break;
	}
	return ENOENT;
}

static void do_destroy(struct ct_agent *g, struct ct_msg *m)
{
	struct object *o = &g->objects[m->handle];

	m->ret = destroy(o);
	if (!m->ret)
		o->kind = KIND_NONE;
}

/* The handle whose destroy failed, or 0. */
static void do_close(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = 0;
	for (enum kind kind = KIND_QP; kind < KINDS; kind++)
		for (int i = 1; i <= g->object_count; i++)
			if (g->objects[i].kind == kind && destroy(&g->objects[i]) && !m->ret)
				m->ret = i;
	if (g->ctx && ibv_close_device(g->ctx) && !m->ret)
		m->ret = -1;
	g->ctx = NULL;
	g->object_count = 0;
}

static void do_alloc_pd(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = keep(g, KIND_PD, ibv_alloc_pd(g->ctx));
}

static void answer_mr(struct ct_msg *m, const struct ibv_mr *mr)
{
	m->mr.addr = m->mr.with_iova ? m->mr.iova : (uintptr_t)mr->addr;
	m->mr.length = mr->length;
	m->mr.lkey = mr->lkey;
	m->mr.rkey = mr->rkey;
	m->body_bytes = sizeof(m->mr);
}

static void do_reg_mr(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_pd *pd = object(g, m->mr.pd, KIND_PD);
	void *addr = g->arena + m->mr.offset;
	struct ibv_mr *mr;

	if (m->mr.with_iova)
		mr = ibv_reg_mr_iova(pd, addr, m->mr.length, m->mr.iova, m->mr.access);
	else
		mr = ibv_reg_mr(pd, addr, m->mr.length, m->mr.access);
	m->ret = keep(g, KIND_MR, mr);
	if (mr)
		answer_mr(m, mr);
}

static void do_rereg_mr(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_mr *mr = object(g, m->handle, KIND_MR);

	m->ret = ibv_rereg_mr(mr, m->mr.flags, object(g, m->mr.pd, KIND_PD),
			      g->arena + m->mr.offset, m->mr.length, m->mr.access);
	answer_mr(m, mr);
}

static void do_create_channel(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = keep(g, KIND_CHANNEL, ibv_create_comp_channel(g->ctx));
}

static void do_create_cq(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_comp_channel *channel = object(g, m->cq.channel, KIND_CHANNEL);

	m->ret = keep(g, KIND_CQ, ibv_create_cq(g->ctx, m->cq.cqe, NULL, channel, 0));
}

static void do_create_srq(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_srq_init_attr init = { .attr = m->srq.attr };

	m->ret = keep(g, KIND_SRQ, ibv_create_srq(object(g, m->srq.pd, KIND_PD), &init));
}

static void do_create_qp(struct ct_agent *g, struct ct_msg *m)
{
	struct ibv_qp *qp;

	m->qp.init.send_cq = object(g, m->qp.scq, KIND_CQ);
	m->qp.init.recv_cq = object(g, m->qp.rcq, KIND_CQ);
	m->qp.init.srq = object(g, m->qp.srq, KIND_SRQ);
	qp = agent_make_qp(object(g, m->qp.pd, KIND_PD), &m->qp.init);
	m->ret = keep(g, KIND_QP, qp);
	m->qp.qpn = qp ? qp->qp_num : 0;
	m->body_bytes = sizeof(m->qp);
}

static void do_create_ah(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = keep(g, KIND_AH, ibv_create_ah(object(g, m->ah.pd, KIND_PD), &m->ah.attr));
}

static void do_modify_qp(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = ibv_modify_qp(object(g, m->handle, KIND_QP), &m->modify.attr, m->modify.mask);
}

static void do_query_qp(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = ibv_query_qp(object(g, m->handle, KIND_QP), &m->modify.attr, m->modify.mask,
			      &m->modify.init);
	m->body_bytes = sizeof(m->modify);
}

static void do_attach_mcast(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = ibv_attach_mcast(object(g, m->handle, KIND_QP), &m->mcast.gid, m->mcast.lid);
}

static void do_detach_mcast(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = ibv_detach_mcast(object(g, m->handle, KIND_QP), &m->mcast.gid, m->mcast.lid);
}

static void do_modify_srq(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = ibv_modify_srq(object(g, m->handle, KIND_SRQ), &m->srq.attr, m->srq.mask);
}

static void do_query_srq(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = ibv_query_srq(object(g, m->handle, KIND_SRQ), &m->srq.attr);
	m->body_bytes = sizeof(m->srq);
}

static void do_resize_cq(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = ibv_resize_cq(object(g, m->handle, KIND_CQ), m->cq.cqe);
}

static void do_req_notify(struct ct_agent *g, struct ct_msg *m)
{
	m->ret = ibv_req_notify_cq(object(g, m->handle, KIND_CQ), m->flag);
}

static void do_die(struct ct_agent *g, struct ct_msg *m)
{
	raise(SIGKILL);
}

static void do_leave(struct ct_agent *g, struct ct_msg *m)
{
	int want = m->poll.count;

	agent_poll_cq(g, m);
	exit(m->ret == want ? 0 : 1);
}

static void (*const commands[CT_OP_COUNT])(struct ct_agent *, struct ct_msg *) = {
	[CT_OP_OPEN] = do_open,
	[CT_OP_CLOSE] = do_close,
	[CT_OP_ALLOC_PD] = do_alloc_pd,
	[CT_OP_REG_MR] = do_reg_mr,
	[CT_OP_REREG_MR] = do_rereg_mr,
	[CT_OP_CREATE_CHANNEL] = do_create_channel,
	[CT_OP_CREATE_CQ] = do_create_cq,
	[CT_OP_CREATE_SRQ] = do_create_srq,
	[CT_OP_CREATE_QP] = do_create_qp,
	[CT_OP_CREATE_AH] = do_create_ah,
	[CT_OP_ATTACH_MCAST] = do_attach_mcast,
	[CT_OP_DETACH_MCAST] = do_detach_mcast,
	[CT_OP_DESTROY] = do_destroy,
	[CT_OP_MODIFY_QP] = do_modify_qp,
	[CT_OP_QUERY_QP] = do_query_qp,
	[CT_OP_MODIFY_SRQ] = do_modify_srq,
	[CT_OP_QUERY_SRQ] = do_query_srq,
	[CT_OP_RESIZE_CQ] = do_resize_cq,
	[CT_OP_REQ_NOTIFY] = do_req_notify,
	[CT_OP_POST_SEND] = agent_post_send,
	[CT_OP_POST_RECV] = agent_post_recv,
	[CT_OP_POLL_CQ] = agent_poll_cq,
	[CT_OP_CQ_EVENT] = agent_cq_event,
	[CT_OP_ASYNC_EVENT] = agent_async_event,
	[CT_OP_FILL] = agent_fill,
	[CT_OP_COMPARE] = agent_compare,
	[CT_OP_PEEK] = agent_peek,
	[CT_OP_POKE] = agent_poke,
	[CT_OP_HAMMER_START] = agent_hammer_start,
	[CT_OP_HAMMER_JOIN] = agent_hammer_join,
	[CT_OP_SLEEPER_START] = agent_sleeper_start,
	[CT_OP_SLEEPER_JOIN] = agent_sleeper_join,
	[CT_OP_WATCH_START] = agent_watch_start,
	[CT_OP_WATCH_JOIN] = agent_watch_join,
	[CT_OP_XRC] = agent_xrc,
	[CT_OP_DIE] = do_die,
	[CT_OP_LEAVE] = do_leave,
};

void ct_agent_execute(struct ct_agent *g, struct ct_msg *m)
{
	m->body_bytes = 0; /* most answers are just the return value */
	errno = 0;
	commands[m->op](g, m);
}

static uint64_t arena_bytes(void)
{
	/* The opt-in tests of huge messages need room; nobody pays for pages not touched. */
	return getenv("VERBENA_TEST_HUGE") ? (4ull << 30) + CT_ARENA_BYTES : 160ull << 20;
}

struct ct_agent *ct_agent_create(void)
{
	struct ct_agent *g = calloc(1, sizeof(*g));

	g->arena = mmap(NULL, arena_bytes(), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (g->arena == MAP_FAILED)
		ct_fail("no memory for the arena");
	return g;
}

void ct_agent_serve(int sock)
{
	struct ct_agent *g = ct_agent_create();
	struct ct_msg *m = malloc(sizeof(*m));
	ssize_t got;

	while ((got = recv(sock, m, sizeof(*m), 0)) > 0) {
		bool last = m->op == CT_OP_CLOSE;

		ct_agent_execute(g, m);
		if (send(sock, m, CT_MSG_HEAD + m->body_bytes, MSG_NOSIGNAL) < 0 || last)
			break;
	}
	free(m);
	munmap(g->arena, arena_bytes());
	free(g);
	exit(0);
}

struct ibv_context *ct_agent_context(struct ct_agent *g)
{
	return g->ctx;
}

void *ct_agent_object(struct ct_agent *g, int handle)
{
	return g->objects[handle].ptr;
}

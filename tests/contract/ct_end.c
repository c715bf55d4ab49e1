/* SPDX-License-Identifier: BSD-2-Clause */
/* The tester's side of an end: each verb becomes a message to its agent. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ct_msg.h"

static struct ct_msg *call_handle(struct ct_end *e, enum ct_op op, int handle, size_t body_bytes)
{
	struct ct_msg *m = e->msg;

	m->op = op;
	m->handle = handle;
	if (e->agent) {
		ct_agent_execute(e->agent, m);
		return m;
	}
	if (send(e->sock, m, CT_MSG_HEAD + body_bytes, MSG_NOSIGNAL) < 0 ||
	    recv(e->sock, m, sizeof(*m), 0) <= 0)
		ct_fail("the %s end died", e->name);
	return m;
}

static struct ct_msg *call(struct ct_end *e, enum ct_op op, size_t body_bytes)
{
	return call_handle(e, op, 0, body_bytes);
}

void ct_end_open(struct ct_end *e, bool infiniband)
{
	e->msg->open.infiniband = infiniband;
	call(e, CT_OP_OPEN, sizeof(e->msg->open));
	if (e->msg->ret == ENODEV)
		ct_skip("no %s device", infiniband ? "InfiniBand" : "Ethernet");
	if (e->msg->ret)
		ct_fail("the device does not answer queries: %s", strerror(e->msg->ret));
	e->attr = e->msg->open.attr;
	e->port = e->msg->open.port;
	e->gid = e->msg->open.gid;
	e->gid_index = e->msg->open.gid_index;
	e->base = e->msg->open.base;
	e->pd = ct_alloc_pd(e);
	e->scq = ct_create_cq(e, CT_CQE, 0);
	e->rcq = ct_create_cq(e, CT_CQE, 0);
	ct_reg_mr(e, e->pd, 0, CT_ARENA_BYTES, CT_ACCESS_ALL, &e->mr);
	if (e->pd < 0 || e->scq < 0 || e->rcq < 0 || e->mr.handle < 0)
		ct_fail("cannot make the first objects: pd %d, cqs %d %d, mr %d", e->pd, e->scq,
			e->rcq, e->mr.handle);
}

void ct_end_close(struct ct_end *e)
{
	int ret = call(e, CT_OP_CLOSE, 0)->ret;

	if (ret)
		ct_fail("at the end of the test the %s end could not destroy object %d", e->name,
			ret);
}

void ct_end_kill(struct ct_end *e)
{
	e->msg->op = CT_OP_DIE;
	if (send(e->sock, e->msg, CT_MSG_HEAD, MSG_NOSIGNAL) < 0)
		ct_fail("the %s end had died already", e->name);
	waitpid(e->pid, NULL, 0);
	e->pid = 0;
}

void ct_end_leave(struct ct_end *e, int cq, int completions)
{
	struct ct_msg *m = e->msg;

	m->op = CT_OP_LEAVE;
	m->handle = cq;
	m->poll.count = completions;
	m->poll.deadline_ms = 5000;
	if (send(e->sock, m, CT_MSG_HEAD + offsetof(struct ct_msg, poll.wc), MSG_NOSIGNAL) < 0)
		ct_fail("the %s end had died already", e->name);
}

void ct_end_has_left(struct ct_end *e)
{
	int status;

	if (waitpid(e->pid, &status, 0) < 0 || status)
		ct_fail("the %s end left with status %#x", e->name, status);
	e->pid = 0;
}

struct ibv_context *ct_context(struct ct_end *e)
{
	return ct_agent_context(e->agent);
}

void *ct_object(struct ct_end *e, int handle)
{
	return ct_agent_object(e->agent, handle);
}

int ct_adopt_cq(struct ct_end *e, struct ibv_cq *cq)
{
	return ct_agent_adopt_cq(e->agent, cq);
}

int ct_adopt_pd(struct ct_end *e, struct ibv_pd *pd)
{
	return ct_agent_adopt_pd(e->agent, pd);
}

void ct_forget(struct ct_end *e, int handle)
{
	ct_agent_forget(e->agent, handle);
}

int ct_alloc_pd(struct ct_end *e)
{
	return call(e, CT_OP_ALLOC_PD, 0)->ret;
}

static int mr_answer(struct ct_end *e, int handle, struct ct_mr *mr)
{
	*mr = (struct ct_mr){ .handle = handle,
			      .addr = e->msg->mr.addr,
			      .length = e->msg->mr.length,
			      .lkey = e->msg->mr.lkey,
			      .rkey = e->msg->mr.rkey };
	return handle;
}

static int reg_mr(struct ct_end *e, int pd, uint64_t offset, uint64_t length, bool with_iova,
		  uint64_t iova, int access, struct ct_mr *mr)
{
	e->msg->mr.pd = pd;
	e->msg->mr.offset = offset;
	e->msg->mr.length = length;
	e->msg->mr.with_iova = with_iova;
	e->msg->mr.iova = iova;
	e->msg->mr.access = access;
	return mr_answer(e, call(e, CT_OP_REG_MR, sizeof(e->msg->mr))->ret, mr);
}

int ct_reg_mr(struct ct_end *e, int pd, uint64_t offset, uint64_t length, int access,
	      struct ct_mr *mr)
{
	return reg_mr(e, pd, offset, length, false, 0, access, mr);
}

int ct_reg_mr_iova(struct ct_end *e, int pd, uint64_t offset, uint64_t length, uint64_t iova,
		   int access, struct ct_mr *mr)
{
	return reg_mr(e, pd, offset, length, true, iova, access, mr);
}

int ct_rereg_mr(struct ct_end *e, struct ct_mr *mr, int flags, int pd, uint64_t offset,
		uint64_t length, int access)
{
	int ret;

	e->msg->mr.pd = pd;
	e->msg->mr.flags = flags;
	e->msg->mr.offset = offset;
	e->msg->mr.length = length;
	e->msg->mr.with_iova = false;
	e->msg->mr.access = access;
	ret = call_handle(e, CT_OP_REREG_MR, mr->handle, sizeof(e->msg->mr))->ret;
	mr_answer(e, mr->handle, mr);
	return ret;
}

int ct_create_channel(struct ct_end *e)
{
	return call(e, CT_OP_CREATE_CHANNEL, 0)->ret;
}

int ct_create_cq(struct ct_end *e, int cqe, int channel)
{
	e->msg->cq.cqe = cqe;
	e->msg->cq.channel = channel;
	return call(e, CT_OP_CREATE_CQ, sizeof(e->msg->cq))->ret;
}

int ct_create_srq(struct ct_end *e, int pd, uint32_t max_wr, uint32_t max_sge)
{
	e->msg->srq.pd = pd;
	e->msg->srq.attr = (struct ibv_srq_attr){ .max_wr = max_wr, .max_sge = max_sge };
	return call(e, CT_OP_CREATE_SRQ, sizeof(e->msg->srq))->ret;
}

static int call_xrc(struct ct_end *e, enum ct_xrc_op op)
{
	e->msg->xrc.op = op;
	return call(e, CT_OP_XRC, sizeof(e->msg->xrc))->ret;
}

int ct_open_xrcd(struct ct_end *e, const char *path, int oflags)
{
	memset(&e->msg->xrc, 0, sizeof(e->msg->xrc));
	if (path)
		strncpy(e->msg->xrc.path, path, sizeof(e->msg->xrc.path) - 1);
	e->msg->xrc.oflags = oflags;
	return call_xrc(e, CT_XRCD);
}

int ct_create_xrc_srq(struct ct_end *e, int xrcd, int pd, int cq, uint32_t max_wr, uint32_t max_sge,
		      uint32_t *srqn)
{
	int ret;

	e->msg->xrc.xrcd = xrcd;
	e->msg->xrc.pd = pd;
	e->msg->xrc.cq = cq;
	e->msg->xrc.attr = (struct ibv_srq_attr){ .max_wr = max_wr, .max_sge = max_sge };
	ret = call_xrc(e, CT_XRC_SRQ);
	*srqn = e->msg->xrc.number;
	return ret;
}

static int xrc_qp(struct ct_end *e, enum ct_xrc_op op, struct ct_qp *qp)
{
	*qp = (struct ct_qp){ .end = e, .type = IBV_QPT_XRC_RECV, .psn = 0x246810 };
	qp->handle = call_xrc(e, op);
	qp->qpn = e->msg->xrc.number;
	return qp->handle;
}

int ct_create_xrc_recv(struct ct_end *e, int xrcd, struct ct_qp *qp)
{
	e->msg->xrc.xrcd = xrcd;
	return xrc_qp(e, CT_XRC_RECV, qp);
}

int ct_open_qp(struct ct_end *e, int xrcd, uint32_t qpn, struct ct_qp *qp)
{
	e->msg->xrc.xrcd = xrcd;
	e->msg->xrc.number = qpn;
	return xrc_qp(e, CT_XRC_OPEN, qp);
}

int ct_create_ah(struct ct_end *e, int pd, const struct ibv_ah_attr *attr)
{
	e->msg->ah.pd = pd;
	e->msg->ah.attr = *attr;
	return call(e, CT_OP_CREATE_AH, sizeof(e->msg->ah))->ret;
}

static int call_mcast(const struct ct_qp *qp, enum ct_op op, const union ibv_gid *gid, uint16_t lid)
{
	qp->end->msg->mcast.gid = *gid;
	qp->end->msg->mcast.lid = lid;
	return call_handle(qp->end, op, qp->handle, sizeof(qp->end->msg->mcast))->ret;
}

int ct_attach_mcast(const struct ct_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return call_mcast(qp, CT_OP_ATTACH_MCAST, gid, lid);
}

int ct_detach_mcast(const struct ct_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return call_mcast(qp, CT_OP_DETACH_MCAST, gid, lid);
}

int ct_destroy(struct ct_end *e, int handle)
{
	return call_handle(e, CT_OP_DESTROY, handle, 0)->ret;
}

int ct_modify_srq(struct ct_end *e, int srq, struct ibv_srq_attr *attr, int mask)
{
	e->msg->srq.attr = *attr;
	e->msg->srq.mask = mask;
	return call_handle(e, CT_OP_MODIFY_SRQ, srq, sizeof(e->msg->srq))->ret;
}

int ct_query_srq(struct ct_end *e, int srq, struct ibv_srq_attr *attr)
{
	int ret = call_handle(e, CT_OP_QUERY_SRQ, srq, 0)->ret;

	*attr = e->msg->srq.attr;
	return ret;
}

int ct_resize_cq(struct ct_end *e, int cq, int cqe)
{
	e->msg->cq.cqe = cqe;
	return call_handle(e, CT_OP_RESIZE_CQ, cq, sizeof(e->msg->cq))->ret;
}

int ct_req_notify_cq(struct ct_end *e, int cq, bool solicited_only)
{
	e->msg->flag = solicited_only;
	return call_handle(e, CT_OP_REQ_NOTIFY, cq, sizeof(e->msg->flag))->ret;
}

int ct_poll_cq(struct ct_end *e, int cq, int count, int deadline_ms, struct ibv_wc *wc)
{
	int got;

	e->msg->poll.count = count;
	e->msg->poll.deadline_ms = deadline_ms;
	got = call_handle(e, CT_OP_POLL_CQ, cq, 2 * sizeof(int))->ret;
	if (got > 0)
		memcpy(wc, e->msg->poll.wc, got * sizeof(*wc));
	return got;
}

int ct_get_cq_event(struct ct_end *e, int channel, int deadline_ms)
{
	e->msg->event.deadline_ms = deadline_ms;
	return call_handle(e, CT_OP_CQ_EVENT, channel, sizeof(e->msg->event))->ret;
}

bool ct_get_async_event(struct ct_end *e, int deadline_ms, enum ibv_event_type *type, int *handle)
{
	e->msg->event.deadline_ms = deadline_ms;
	if (!call(e, CT_OP_ASYNC_EVENT, sizeof(e->msg->event))->ret)
		return false;
	*type = e->msg->event.type;
	*handle = e->msg->event.handle;
	return true;
}

static struct ct_msg *memory(struct ct_end *e, enum ct_op op, uint64_t offset, uint64_t length,
			     unsigned seed, uint64_t value)
{
	e->msg->memory.offset = offset;
	e->msg->memory.length = length;
	e->msg->memory.seed = seed;
	e->msg->memory.value = value;
	return call(e, op, sizeof(e->msg->memory));
}

void ct_fill(struct ct_end *e, uint64_t offset, uint64_t length, unsigned seed)
{
	memory(e, CT_OP_FILL, offset, length, seed, 0);
}

long long ct_differs_at(struct ct_end *e, uint64_t offset, uint64_t length, unsigned seed)
{
	return (long long)memory(e, CT_OP_COMPARE, offset, length, seed, 0)->memory.value;
}

uint64_t ct_peek(struct ct_end *e, uint64_t offset)
{
	return memory(e, CT_OP_PEEK, offset, 8, 0, 0)->memory.value;
}

void ct_poke(struct ct_end *e, uint64_t offset, uint64_t value)
{
	memory(e, CT_OP_POKE, offset, 8, 0, value);
}

void ct_peek_bytes(struct ct_end *e, uint64_t offset, uint32_t length, void *bytes)
{
	memcpy(bytes, memory(e, CT_OP_PEEK, offset, length, 0, 0)->memory.bytes, length);
}

void ct_watch_start(struct ct_end *e, uint64_t offset, uint64_t length, uint64_t reply, int rounds)
{
	e->msg->memory.rounds = rounds;
	if (memory(e, CT_OP_WATCH_START, offset, length, 0, reply)->ret)
		ct_fail("no thread at the %s end", e->name);
}

int ct_watch_join(struct ct_end *e)
{
	return call(e, CT_OP_WATCH_JOIN, 0)->ret;
}

/* ---- lists of WRs, flat ---------------------------------------------------------------------- */

static void add_sges(struct ct_post *post, struct ibv_sge *to, const struct ibv_sge *from,
		     int count)
{
	for (int i = 0; i < count; i++)
		to[post->sge_count++] = from[i];
}

/* Answers the size of the message. */
static size_t flatten(struct ct_post *post, const struct ibv_send_wr *wr)
{
	struct ibv_send_wr *flat = (void *)post->bytes;
	const struct ibv_send_wr *w;

	*post = (struct ct_post){ 0 };
	for (w = wr; w; w = w->next)
		flat[post->count++] = *w;
	for (w = wr; w; w = w->next)
		add_sges(post, (void *)(flat + post->count), w->sg_list, w->num_sge);
	return sizeof(*post) + post->count * sizeof(*flat) +
	       post->sge_count * sizeof(struct ibv_sge);
}

int ct_hammer_start(const struct ct_qp *qp, struct ibv_send_wr *wr, int count, int depth)
{
	struct ct_post *post = &qp->end->msg->post;
	size_t bytes = flatten(post, wr);

	post->repeat = count;
	post->depth = depth;
	post->cq = qp->scq;
	return call_handle(qp->end, CT_OP_HAMMER_START, qp->handle, bytes)->ret;
}

int ct_hammer_join(struct ct_end *e, int hammer)
{
	return call_handle(e, CT_OP_HAMMER_JOIN, hammer, 0)->ret;
}

int ct_post_send(const struct ct_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ct_post *post = &qp->end->msg->post;
	struct ibv_send_wr *w;
	size_t bytes = flatten(post, wr);
	int ret, i;

	ret = call_handle(qp->end, CT_OP_POST_SEND, qp->handle, bytes)->ret;
	for (i = 0, w = wr; w && i < post->bad; i++)
		w = w->next;
	*bad = post->bad < 0 ? NULL : w;
	return ret;
}

static size_t flatten_recv(struct ct_post *post, const struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *flat = (void *)post->bytes;
	const struct ibv_recv_wr *w;

	*post = (struct ct_post){ 0 };
	for (w = wr; w; w = w->next)
		flat[post->count++] = *w;
	for (w = wr; w; w = w->next)
		add_sges(post, (void *)(flat + post->count), w->sg_list, w->num_sge);
	return sizeof(*post) + post->count * sizeof(*flat) +
	       post->sge_count * sizeof(struct ibv_sge);
}

static int post_recv(struct ct_end *e, int queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ct_post *post = &e->msg->post;
	struct ibv_recv_wr *w;
	size_t bytes = flatten_recv(post, wr);
	int ret, i;

	ret = call_handle(e, CT_OP_POST_RECV, queue, bytes)->ret;
	for (i = 0, w = wr; w && i < post->bad; i++)
		w = w->next;
	*bad = post->bad < 0 ? NULL : w;
	return ret;
}

void ct_sleeper_start(const struct ct_qp *qp, int channel, struct ibv_recv_wr *wr, int count)
{
	struct ct_post *post = &qp->end->msg->post;
	size_t bytes = flatten_recv(post, wr);

	post->repeat = count;
	post->channel = channel;
	post->cq = qp->rcq;
	call_handle(qp->end, CT_OP_SLEEPER_START, qp->handle, bytes);
}

int ct_sleeper_join(struct ct_end *e)
{
	return call(e, CT_OP_SLEEPER_JOIN, 0)->ret;
}

int ct_post_recv(const struct ct_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_recv(qp->end, qp->type == IBV_QPT_XRC_RECV ? qp->srq : qp->handle, wr, bad);
}

int ct_post_srq_recv(struct ct_end *e, int srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_recv(e, srq, wr, bad);
}

/* ---- QPs as objects -------------------------------------------------------------------------- */

int ct_qp_create(struct ct_end *e, struct ibv_qp_init_attr *init, int pd, int scq, int rcq, int srq,
		 struct ct_qp *qp)
{
	static uint32_t psn = 0x123456; /* any number: both sides of a link are told it */

	e->msg->qp.pd = pd;
	e->msg->qp.scq = scq;
	e->msg->qp.rcq = rcq;
	e->msg->qp.srq = srq;
	e->msg->qp.init = *init;
	*qp = (struct ct_qp){ .end = e,
			      .scq = scq,
			      .rcq = rcq,
			      .srq = srq,
			      .type = init->qp_type,
			      .psn = psn = (psn * 5 + 0xabc1) & 0xffffff };
	qp->handle = call(e, CT_OP_CREATE_QP, sizeof(e->msg->qp))->ret;
	qp->qpn = e->msg->qp.qpn;
	qp->cap = init->cap = e->msg->qp.init.cap;
	return qp->handle;
}

int ct_modify_qp(const struct ct_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	qp->end->msg->modify.attr = *attr;
	qp->end->msg->modify.mask = mask;
	return call_handle(qp->end, CT_OP_MODIFY_QP, qp->handle, sizeof(qp->end->msg->modify))->ret;
}

int ct_query_qp(const struct ct_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	int ret;

	qp->end->msg->modify.mask = ~0;
	ret = call_handle(qp->end, CT_OP_QUERY_QP, qp->handle, sizeof(qp->end->msg->modify))->ret;
	*attr = qp->end->msg->modify.attr;
	if (init)
		*init = qp->end->msg->modify.init;
	return ret;
}

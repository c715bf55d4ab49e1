/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels as objects: file descriptor, blocking mode, acknowledgement. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "ct.h"

static bool readable_now(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

static void non_blocking(struct ct *t)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ct_context(t->near));
	struct ibv_cq *cq;
	void *cq_context;

	CT_TRUE(channel != NULL);
	CT_TRUE(channel->fd >= 0 && !readable_now(channel->fd));
	CT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
	errno = 0;
	CT_EQ(ibv_get_cq_event(channel, &cq, &cq_context), -1);
	CT_EQ(errno, EAGAIN);
	CT_EQ(ibv_destroy_comp_channel(channel), 0);
}

/* Near receives: its objects can be handled directly. */
struct receiver {
	struct ct_link l; /* far to near */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	int channel_handle;
};

static void receiver_open(struct ct *t, struct receiver *r)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	r->channel_handle = ct_create_channel(t->near);
	o.rcq_a = ct_create_cq(t->near, 64, r->channel_handle);
	CT_TRUE(o.rcq_a > 0);
	ct_link_open(t, &l, &o);
	r->l = ct_reverse(&l);
	r->channel = ct_object(t->near, r->channel_handle);
	r->cq = ct_object(t->near, o.rcq_a);
}

static void deliver(struct receiver *r, uint64_t wr_id)
{
	ct_recv(&r->l.b, wr_id, 4096, 256);
	ct_send(&r->l, wr_id, 0, 8);
	ct_sent(&r->l, wr_id, IBV_WC_SUCCESS);
}

static void wait_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	CT_EQ(poll(&pfd, 1, CT_DEADLINE_MS), 1);
}

static void descriptor_is_pollable(struct ct *t)
{
	struct receiver r;
	struct ibv_cq *cq;
	void *cq_context;

	receiver_open(t, &r);
	CT_EQ(ibv_req_notify_cq(r.cq, 0), 0);
	CT_TRUE(!readable_now(r.channel->fd));
	deliver(&r, 1);
	wait_readable(r.channel->fd);
	CT_TRUE(readable_now(r.channel->fd)); /* level triggered: still there */
	CT_EQ(ibv_get_cq_event(r.channel, &cq, &cq_context), 0);
	CT_TRUE(cq == r.cq && cq_context == r.cq->cq_context);
	CT_TRUE(!readable_now(r.channel->fd));
	ibv_ack_cq_events(cq, 1);
}

static void *destroy_cq(void *cq)
{
	return (void *)(intptr_t)ibv_destroy_cq(cq);
}

/* Destroying waits: seen from here as a thread that does not end before the ack. */
static void destroy_waits_for_the_ack(struct ct *t)
{
	struct timespec soon;
	struct receiver r;
	struct ibv_cq *cq, *own;
	void *cq_context, *ret;
	pthread_t thread;

	receiver_open(t, &r);
	own = ibv_create_cq(ct_context(t->near), 16, NULL, r.channel, 0);
	CT_TRUE(own != NULL);
	/* The event has to be for a CQ that nothing else uses: move it there by a QP of its own. */
	struct ibv_qp_init_attr init = {
		.send_cq = own, .recv_cq = own, .qp_type = IBV_QPT_UD, .cap = { 1, 4, 1, 1, 0 }
	};
	struct ibv_qp *qp = ibv_create_qp(ct_object(t->near, t->near->pd), &init);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad;

	CT_TRUE(qp != NULL);
	CT_EQ(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	      0);
	CT_EQ(ibv_post_recv(qp, &recv, &bad), 0);
	CT_EQ(ibv_req_notify_cq(own, 0), 0);
	attr.qp_state = IBV_QPS_ERR; /* flushes the receive: a completion, hence an event */
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	CT_EQ(ibv_get_cq_event(r.channel, &cq, &cq_context), 0);
	CT_TRUE(cq == own);
	CT_EQ(ibv_destroy_qp(qp), 0);
	CT_EQ(pthread_create(&thread, NULL, destroy_cq, own), 0);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 50000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	CT_EQ(pthread_timedjoin_np(thread, &ret, &soon), ETIMEDOUT);
	ibv_ack_cq_events(cq, 1);
	CT_EQ(pthread_join(thread, &ret), 0);
	CT_EQ((intptr_t)ret, 0);
}

const struct ct_case ct_channel_cases[] = {
	{ "a non-blocking channel without events answers EAGAIN", non_blocking, CT_SOLO },
	{ "the descriptor of a channel is readable while an event is pending",
	  descriptor_is_pollable, CT_RC },
	{ "destroy_cq waits until its events are acked", destroy_waits_for_the_ack, CT_RC },
	{ 0 },
};

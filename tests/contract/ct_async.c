/* SPDX-License-Identifier: BSD-2-Clause */
/* Async events: file descriptor, blocking mode, acknowledgement. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "ct.h"

static void non_blocking(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_async_event event;

	CT_EQ(fcntl(ctx->async_fd, F_SETFL, fcntl(ctx->async_fd, F_GETFL) | O_NONBLOCK), 0);
	errno = 0;
	CT_EQ(ibv_get_async_event(ctx, &event), -1);
	CT_EQ(errno, EAGAIN);
}

static bool readable(int fd, int deadline_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, deadline_ms) == 1;
}

/* The near end is written to with a key that does not exist: its QP gets an event. */
static void provoke(struct ct *t, struct ct_link *to_near)
{
	struct ibv_sge sge = ct_sge(t->far, 0, 8);
	struct ibv_send_wr wr;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	*to_near = ct_reverse(&l);
	wr = ct_wr(to_near, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_aim(&wr, t->near->mr.addr, t->near->mr.rkey ^ 0x5500);
	ct_post(&to_near->a, &wr);
	ct_sent(to_near, 1, IBV_WC_REM_ACCESS_ERR);
}

static void descriptor_is_pollable(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_async_event event;
	struct ct_link l;

	CT_TRUE(!readable(ctx->async_fd, 0));
	provoke(t, &l);
	CT_TRUE(readable(ctx->async_fd, CT_DEADLINE_MS));
	CT_TRUE(readable(ctx->async_fd, 0));
	CT_EQ(ibv_get_async_event(ctx, &event), 0);
	CT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	CT_TRUE(event.element.qp == ct_object(t->near, l.b.handle));
	ibv_ack_async_event(&event);
	CT_TRUE(!readable(ctx->async_fd, 0));
}

static struct ibv_qp *make_qp(struct ct *t)
{
	struct ibv_cq *cq = ct_object(t->near, t->near->scq);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 }
	};
	struct ibv_qp *qp = ibv_create_qp(ct_object(t->near, t->near->pd), &init);

	CT_TRUE(qp != NULL);
	return qp;
}

/* The cheapest event that an owner can make its QP raise: its idle send queue is drained. */
static void drain(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	CT_EQ(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	      0);
	attr.qp_state = IBV_QPS_RTR;
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	attr.qp_state = IBV_QPS_SQD;
	attr.en_sqd_async_notify = 1;
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
}

static void *destroy_qp(void *qp)
{
	return (void *)(intptr_t)ibv_destroy_qp(qp);
}

static void destroy_waits_for_the_ack(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_qp *qp = make_qp(t);
	struct ibv_async_event event;
	struct timespec soon;
	pthread_t thread;
	void *ret;

	drain(qp);
	CT_TRUE(readable(ctx->async_fd, CT_DEADLINE_MS));
	CT_EQ(ibv_get_async_event(ctx, &event), 0);
	CT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
	CT_TRUE(event.element.qp == qp);
	CT_EQ(pthread_create(&thread, NULL, destroy_qp, qp), 0);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 50000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	CT_EQ(pthread_timedjoin_np(thread, &ret, &soon), ETIMEDOUT);
	ibv_ack_async_event(&event);
	CT_EQ(pthread_join(thread, &ret), 0);
	CT_EQ((intptr_t)ret, 0);
}

/* An event that nobody fetched goes away with its object. */
static void unfetched_events_die_with_the_object(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_async_event event;
	struct ibv_qp *qp = make_qp(t);

	drain(qp);
	CT_TRUE(readable(ctx->async_fd, CT_DEADLINE_MS));
	CT_EQ(ibv_destroy_qp(qp), 0);
	CT_EQ(fcntl(ctx->async_fd, F_SETFL, fcntl(ctx->async_fd, F_GETFL) | O_NONBLOCK), 0);
	errno = 0;
	CT_EQ(ibv_get_async_event(ctx, &event), -1);
	CT_EQ(errno, EAGAIN);
}

const struct ct_case ct_async_cases[] = {
	{ "a non-blocking context without async events answers EAGAIN", non_blocking, CT_SOLO },
	{ "the async descriptor is readable while an event is pending", descriptor_is_pollable,
	  CT_RC },
	{ "destroy_qp waits until its async events are acked", destroy_waits_for_the_ack, CT_SOLO },
	{ "an event that nobody fetched dies with its object", unfetched_events_die_with_the_object,
	  CT_SOLO },
	{ 0 },
};

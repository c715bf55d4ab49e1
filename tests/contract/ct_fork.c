/* SPDX-License-Identifier: BSD-2-Clause */
/* fork: the parent keeps its objects working, the child may start anew on the open device. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../asleep.h"
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

/* Runs in the child: the failed step is its exit status. */
static int child_starts_anew(struct ibv_context *ctx)
{
	static uint8_t buffer[4096];
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_mr *mr =
		pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }
	};
	struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &init) : NULL;

	if (!pd || !cq || !mr || !qp)
		return 1;
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd))
		return 2;
	return 0;
}

static pid_t fork_child(void)
{
	pid_t pid = fork();

	CT_TRUE(pid >= 0);
	if (pid == 0)
		alarm(CT_DEADLINE_MS / 1000); /* a child that hangs in the library is a failure */
	return pid;
}

static int wait_for(pid_t pid)
{
	int status = -1;

	CT_EQ(waitpid(pid, &status, 0), pid);
	CT_TRUE(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void child_uses_the_open_device(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	pid_t pid = fork_child();

	if (pid == 0)
		_exit(child_starts_anew(ctx));
	CT_EQ(wait_for(pid), 0);
}

/* The child has copies; giving them up does not take anything from the parent. */
static void child_gives_up_its_copies(struct ct *t)
{
	struct ct_link l;
	pid_t pid;

	ct_link_open(t, &l, NULL);
	ct_usable(&l);
	pid = fork_child();
	if (pid == 0) {
		int failed = ibv_destroy_qp(ct_object(t->near, l.a.handle)) ? 1 : 0;

		failed |= ibv_dereg_mr(ct_object(t->near, t->near->mr.handle)) ? 2 : 0;
		_exit(failed);
	}
	CT_EQ(wait_for(pid), 0);
	ct_usable(&l);
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, timeout_ms) == 1;
}

static int fail(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int err = ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	attr.qp_state = IBV_QPS_ERR;
	return err ? err : ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/* Raises an event for itself, in the child: the failed step is its exit status. */
static int child_sees_its_event(struct ibv_context *ctx)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq *srq = pd ? ibv_create_srq(pd, &attr) : NULL;
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .srq = srq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { 4, 0, 1, 0, 0 } };
	struct ibv_qp *qp = srq && cq ? ibv_create_qp(pd, &init) : NULL;
	struct ibv_async_event event;

	if (!qp || is_readable(ctx->async_fd, 0))
		return 1;
	/* Without a receive the first thing that an SRQ's QP says is that there are no more. */
	if (fail(qp) || !is_readable(ctx->async_fd, CT_DEADLINE_MS / 2))
		return 2;
	if (ibv_get_async_event(ctx, &event) || event.element.qp != qp)
		return 3;
	ibv_ack_async_event(&event);
	return ibv_destroy_qp(qp) || ibv_destroy_srq(srq) || ibv_destroy_cq(cq) ? 4 : 0;
}

struct listener {
	struct ibv_context *ctx;
	_Atomic pid_t thread_id; /* as soon as it has nothing to do but to listen */
};

static void *wait_for_an_event(void *arg)
{
	struct listener *listener = arg;
	struct ibv_async_event event;

	listener->thread_id = gettid();
	ibv_get_async_event(listener->ctx, &event);
	return listener;
}

/* The descriptor is inherited, its count is not: who waits in the parent hears nothing. */
static void asynchronous_events_have_one_owner(struct ct *t)
{
	struct listener listener = { .ctx = ct_context(t->near) };
	pthread_t thread;
	void *ended;
	pid_t pid;

	CT_EQ(pthread_create(&thread, NULL, wait_for_an_event, &listener), 0);
	thread_await_sleep(&listener.thread_id);
	pid = fork_child();
	if (pid == 0)
		_exit(child_sees_its_event(listener.ctx));
	CT_EQ(wait_for(pid), 0);
	CT_EQ(pthread_cancel(thread), 0);
	CT_EQ(pthread_join(thread, &ended), 0);
	CT_TRUE(ended == PTHREAD_CANCELED);
	ct_no_event(t->near);
}

/* Those of a CQ that the child destroys are still the parent's. */
static void completion_events_have_one_owner(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, channel, 0), *fired;
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad;
	void *context;
	pid_t pid;

	CT_TRUE(qp && !ibv_req_notify_cq(cq, 0));
	CT_EQ(fail(qp), 0);
	CT_EQ(ibv_post_recv(qp, &recv, &bad), 0);
	CT_TRUE(is_readable(channel->fd, CT_DEADLINE_MS));
	pid = fork_child();
	if (pid == 0) {
		if (!ibv_get_cq_event(channel, &fired, &context) || errno != EINVAL)
			_exit(1);
		if (ibv_create_cq(ctx, 16, NULL, channel, 0) || errno != EINVAL)
			_exit(2);
		_exit(ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_destroy_comp_channel(channel)
			      ? 3
			      : 0);
	}
	CT_EQ(wait_for(pid), 0);
	CT_TRUE(is_readable(channel->fd, 0));
	CT_EQ(ibv_get_cq_event(channel, &fired, &context), 0);
	CT_TRUE(fired == cq);
	ibv_ack_cq_events(cq, 1);
	CT_TRUE(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel) &&
		!ibv_dealloc_pd(pd));
}

/* A QP has one owner: the child is told so. */
static void inherited_qp_is_refused(struct ct *t)
{
	struct ct_link l;
	pid_t pid;

	ct_link_open(t, &l, NULL);
	pid = fork_child();
	if (pid == 0) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
		struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
		struct ibv_qp *qp = ct_object(t->near, l.a.handle);

		if (ibv_post_send(qp, &wr, &bad) != EINVAL)
			_exit(1);
		if (ibv_post_recv(qp, &recv, &bad_recv) != EINVAL)
			_exit(2);
		_exit(ibv_modify_qp(qp, &attr, IBV_QP_STATE) != EINVAL ? 3 : 0);
	}
	CT_EQ(wait_for(pid), 0);
	ct_usable(&l);
}

/* After fork pages are shared until somebody writes: what arrives must reach the parent's copy. */
static void registrations_of_the_parent_keep_working(struct ct *t)
{
	struct ct_link l, back;
	int gate[2];
	char byte;
	pid_t pid;

	ct_link_open(t, &l, NULL);
	back = ct_reverse(&l);
	ct_fill(t->near, TARGET, 65536, 1);
	CT_EQ(pipe(gate), 0);
	pid = fork_child();
	if (pid == 0) { /* lives while the parent communicates, then looks at its own copy */
		close(gate[1]);
		if (read(gate[0], &byte, 1) != 0)
			_exit(1);
		_exit(ct_differs_at(t->near, TARGET, 65536, 1) == -1 ? 0 : 2);
	}
	close(gate[0]);
	ct_fill(t->far, 0, 65536, 2);
	ct_recv(&l.a, 1, TARGET, 1024);
	ct_send(&back, 2, 0, 200);
	ct_sent(&back, 2, IBV_WC_SUCCESS);
	ct_got(&back, 1, IBV_WC_SUCCESS);
	ct_same(t->near, TARGET, 200, 2);
	struct ibv_sge sge = ct_sge(t->far, 0, 65536);
	struct ibv_send_wr wr = ct_wr(&back, IBV_WR_RDMA_WRITE, 3, &sge, 1);

	ct_aim(&wr, t->near->mr.addr + TARGET, t->near->mr.rkey);
	ct_post(&back.a, &wr);
	ct_sent(&back, 3, IBV_WC_SUCCESS);
	ct_same(t->near, TARGET, 65536, 2);
	close(gate[1]);
	CT_EQ(wait_for(pid), 0);
}

const struct ct_case ct_fork_cases[] = {
	{ "a forked child can use the open device", child_uses_the_open_device, CT_SOLO },
	{ "a forked child gives up its copies, the parent keeps its objects",
	  child_gives_up_its_copies, CT_RC },
	{ "a forked child gets its own asynchronous events", asynchronous_events_have_one_owner,
	  CT_SOLO },
	{ "a forked child takes no completion events from its parent",
	  completion_events_have_one_owner, CT_SOLO },
	{ "a forked child may not use an inherited QP", inherited_qp_is_refused, CT_RC },
	{ "registrations of the parent keep working while a child lives",
	  registrations_of_the_parent_keep_working, CT_RC },
	{ 0 },
};

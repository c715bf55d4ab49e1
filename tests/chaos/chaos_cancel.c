/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread is cancelled while it polls or posts. These are no cancellation points: what it held is
 * free again, and everybody else goes on. Speaks TAP.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { POSTS = 4, ROUNDS = 40, PATIENCE_S = 60 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void check(bool good, const char *what)
{
	if (good)
		return;
	printf("Bail out! %s\n", what);
	exit(1);
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = list && *list ? ibv_open_device(*list) : NULL;
	check(context, "no device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	check(pd && cq, "no PD or CQ");
}

/* Its packets may come from anywhere: polling looks at sockets. */
static struct ibv_qp *open_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_UD
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111 };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	check(qp, "no QP");
	check(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	      "INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
	return qp;
}

static void *poller(void *arg)
{
	struct ibv_wc wc;

	for (;;) {
		ibv_poll_cq(cq, 1, &wc);
		pthread_testcancel();
	}
	return arg;
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

/* To the own device, each time at another address of it: the way there is looked for. */
static struct ibv_ah *address(unsigned round)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.hop_limit = (uint8_t)(round + 1);
	check(!ibv_query_gid(context, 1, 1, &attr.grh.dgid), "no GID");
	attr.grh.sgid_index = 1;
	return ibv_create_ah(pd, &attr);
}

struct post {
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	bool returned;
};

static void *poster(void *arg)
{
	struct post *post = arg;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.wr.ud.ah = post->ah;
	wr.wr.ud.remote_qpn = post->qp->qp_num;
	wr.wr.ud.remote_qkey = 0x11111111;
	pthread_cancel(pthread_self()); /* is noticed at the first cancellation point */
	check(!ibv_post_send(post->qp, &wr, &bad), "posting");
	post->returned = true;
	pthread_testcancel();
	return arg;
}

static void cancel_a_post(unsigned round)
{
	struct post post = { .qp = open_qp(), .ah = address(round) };
	pthread_t thread;
	struct ibv_wc wc;
	int got;

	check(post.ah, "no AH");
	to_rts(post.qp);
	check(!pthread_create(&thread, NULL, poster, &post) && !pthread_join(thread, NULL),
	      "no thread");
	check(post.returned, "it was cancelled in ibv_post_send");
	while (!(got = ibv_poll_cq(cq, 1, &wc)))
		;
	check(got == 1 && wc.status == IBV_WC_SUCCESS, "the send does not complete");
	check(!ibv_destroy_ah(post.ah) && !ibv_destroy_qp(post.qp), "destroying AH and QP");
}

static void cancel_one(unsigned round)
{
	const struct timespec while_ns = { 0, 1000000 + round * 77777 };
	struct ibv_qp *qp = open_qp();
	pthread_t thread;
	void *result = NULL;

	check(!pthread_create(&thread, NULL, poller, NULL), "no thread");
	nanosleep(&while_ns, NULL); /* into its work, at another place each time */
	check(!pthread_cancel(thread) && !pthread_join(thread, &result), "cancelling");
	check(result == PTHREAD_CANCELED, "it was not cancelled");
	check(!ibv_destroy_qp(qp), "destroying the QP");
}

int main(void)
{
	alarm(PATIENCE_S); /* who waits for a lock that nobody has */
	printf("1..2\n");
	fflush(stdout);
	open_device();
	for (unsigned round = 0; round < POSTS; round++)
		cancel_a_post(round);
	printf("ok 1 - a post is no cancellation point\n");
	fflush(stdout);
	for (unsigned round = 0; round < ROUNDS; round++)
		cancel_one(round);
	check(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context), "closing");
	printf("ok 2 - a poller that is cancelled leaves nothing locked\n");
	return 0;
}

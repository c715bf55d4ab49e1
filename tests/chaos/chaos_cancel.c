/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread is cancelled while it polls. ibv_poll_cq is no cancellation point: what it held is free
 * again, and everybody else goes on. Speaks TAP.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 40, PATIENCE_S = 60 };

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
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_UD };
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

static void cancel_one(unsigned round)
{
	const struct timespec while_ns = { 0, 1000000 + round * 77777 };
	struct ibv_qp *qp = open_qp();
	pthread_t thread;
	void *result;

	check(!pthread_create(&thread, NULL, poller, NULL), "no thread");
	nanosleep(&while_ns, NULL);
	check(!pthread_cancel(thread) && !pthread_join(thread, &result), "cancelling");
	check(result == PTHREAD_CANCELED, "it was not cancelled");
	check(!ibv_destroy_qp(qp), "destroying the QP");
}

int main(void)
{
	alarm(PATIENCE_S); /* who waits for a lock that nobody has */
	printf("1..1\n");
	fflush(stdout);
	open_device();
	for (unsigned round = 0; round < ROUNDS; round++)
		cancel_one(round);
	check(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context), "closing");
	printf("ok 1 - a poller that is cancelled leaves nothing locked\n");
	return 0;
}

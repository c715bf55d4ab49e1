/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that are cancelled inside the calls of both libraries. Most calls are no cancellation
 * points. A thread that blocks in one of the others ends, and leaves no lock and no count behind.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../asleep.h"

enum { POLLS = 3000, ROUNDS = 100, TIMEOUT_MS = 2000, HANG_S = 50 };

static const struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_addr = { 0x0100007f } };

static void must(bool good, const char *what)
{
	if (good)
		return;
	printf("Bail out! %s\n", what);
	fflush(stdout);
	_exit(1);
}

/* --- calls that are no cancellation points --- */

static void use_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_UD
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_wc wc;

	must(qp, "ibv_create_qp");
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	     "INIT");
	attr.qp_state = IBV_QPS_RTR;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
	must(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
	must(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
	for (int i = 0; i < POLLS; i++)
		must(!ibv_poll_cq(cq, 1, &wc), "ibv_poll_cq");
	must(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	must(!ibv_destroy_qp(qp), "ibv_destroy_qp");
}

static void use_verbs(void)
{
	static char bytes[4096];
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_comp_channel *channel;
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;

	must(context, "ibv_open_device");
	ibv_free_device_list(list);
	must(!ibv_query_device_ex(context, NULL, &device), "ibv_query_device_ex");
	must(!ibv_query_port(context, 1, &port), "ibv_query_port");
	must(!ibv_query_gid(context, 1, 0, &gid), "ibv_query_gid");
	pd = ibv_alloc_pd(context);
	mr = pd ? ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE) : NULL;
	channel = ibv_create_comp_channel(context);
	cq = channel ? ibv_create_cq(context, 16, NULL, channel, 0) : NULL;
	must(mr && cq, "objects");
	use_qp(pd, cq);
	must(!ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel) && !ibv_dereg_mr(mr) &&
		     !ibv_dealloc_pd(pd) && !ibv_close_device(context),
	     "destroying");
}

static void use_identifiers(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP };
	struct sockaddr_in addr = loopback;
	struct rdma_addrinfo *info;
	struct rdma_cm_id *listener = NULL, *id;

	must(channel && !rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(!rdma_bind_addr(listener, (void *)&addr), "rdma_bind_addr");
	must(!rdma_listen(listener, 1), "rdma_listen");
	must(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(!rdma_resolve_addr(id, NULL, (void *)&addr, TIMEOUT_MS), "rdma_resolve_addr");
	must(!rdma_destroy_id(id) && !rdma_destroy_id(listener), "rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	hints.ai_qp_type = IBV_QPT_RC;
	must(!rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), "rdma_getaddrinfo");
	must(!rdma_create_ep(&id, info, NULL, NULL), "rdma_create_ep");
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
}

static void use_rsockets(void)
{
	struct sockaddr_in addr = loopback;
	socklen_t size = sizeof(addr);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	const int on = 1;

	must(fd >= 0 && !rbind(fd, (void *)&addr, sizeof(addr)), "rbind");
	must(!rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), "rsetsockopt");
	must(!rlisten(fd, 1) && !rgetsockname(fd, (void *)&addr, &size), "rlisten");
	must(!rclose(fd), "rclose");
}

static void *use_everything(void *done)
{
	pthread_cancel(pthread_self()); /* the next cancellation point notices it */
	use_verbs();
	use_identifiers();
	use_rsockets();
	*(bool *)done = true;
	pthread_testcancel();
	return NULL;
}

static void join_cancelled(pthread_t thread)
{
	void *result = NULL;

	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void test_no_points(void **state)
{
	bool done = false;
	pthread_t thread;

	(void)state;
	for (int i = 0; i < 2; i++) { /* what a first call finds out, and calls after it */
		done = false;
		assert_int_equal(pthread_create(&thread, NULL, use_everything, &done), 0);
		join_cancelled(thread);
		assert_true(done);
	}
}

/* --- calls that block --- */

struct blocked {
	struct ibv_context *context;
	struct ibv_comp_channel *completions;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener; /* synchronous */
	int rsocket;                 /* a listener */
	_Atomic pid_t tid;
	void (*call)(struct blocked *blocked);
};

static void block_cq_event(struct blocked *blocked)
{
	struct ibv_cq *cq;
	void *context;

	ibv_get_cq_event(blocked->completions, &cq, &context);
}

static void block_async_event(struct blocked *blocked)
{
	struct ibv_async_event event;

	ibv_get_async_event(blocked->context, &event);
}

static void block_cm_event(struct blocked *blocked)
{
	struct rdma_cm_event *event;

	rdma_get_cm_event(blocked->channel, &event);
}

static void block_request(struct blocked *blocked)
{
	struct rdma_cm_id *id;

	rdma_get_request(blocked->listener, &id);
}

static void block_accept(struct blocked *blocked)
{
	raccept(blocked->rsocket, NULL, NULL);
}

static void block_poll(struct blocked *blocked)
{
	struct pollfd fd = { .fd = blocked->rsocket, .events = POLLIN };

	rpoll(&fd, 1, -1);
}

static void block_select(struct blocked *blocked)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(blocked->rsocket, &set);
	rselect(blocked->rsocket + 1, &set, NULL, NULL, NULL);
}

static void *run_blocked(void *arg)
{
	struct blocked *blocked = arg;

	blocked->tid = gettid();
	for (;;)
		blocked->call(blocked);
	return NULL;
}

static void open_blocked(struct blocked *blocked)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE | RAI_NUMERICHOST,
				       .ai_port_space = RDMA_PS_TCP,
				       .ai_qp_type = IBV_QPT_RC };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct sockaddr_in addr = loopback;
	struct rdma_addrinfo *info;

	blocked->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	blocked->completions = ibv_create_comp_channel(blocked->context);
	blocked->channel = rdma_create_event_channel();
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &info), 0);
	assert_int_equal(rdma_create_ep(&blocked->listener, info, NULL, NULL), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_listen(blocked->listener, 4), 0);
	blocked->rsocket = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rbind(blocked->rsocket, (void *)&addr, sizeof(addr)), 0);
	assert_int_equal(rlisten(blocked->rsocket, 4), 0);
}

/* Everything goes on after the threads: events come, counts agree, nothing waits. */
static void close_blocked(struct blocked *blocked)
{
	struct sockaddr_in addr;
	socklen_t size = sizeof(addr);
	int client = rsocket(AF_INET, SOCK_STREAM, 0), server;
	char byte = 0;

	assert_int_equal(rgetsockname(blocked->rsocket, (void *)&addr, &size), 0);
	assert_int_equal(rconnect(client, (void *)&addr, size), 0);
	server = raccept(blocked->rsocket, NULL, NULL);
	assert_int_equal(rsend(server, "x", 1, 0), 1);
	assert_int_equal(rrecv(client, &byte, 1, 0), 1);
	assert_int_equal(rclose(client) | rclose(server) | rclose(blocked->rsocket), 0);
	rdma_destroy_ep(blocked->listener);
	rdma_destroy_event_channel(blocked->channel);
	assert_int_equal(ibv_destroy_comp_channel(blocked->completions), 0);
	assert_int_equal(ibv_close_device(blocked->context), 0);
}

static void test_blocked(void **state)
{
	static void (*const calls[])(struct blocked *) = {
		block_cq_event, block_async_event, block_cm_event, block_request,
		block_accept,   block_poll,        block_select,
	};
	struct blocked blocked = { 0 };
	pthread_t thread;

	(void)state;
	open_blocked(&blocked);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		blocked.call = calls[i];
		blocked.tid = 0;
		assert_int_equal(pthread_create(&thread, NULL, run_blocked, &blocked), 0);
		thread_await_sleep(&blocked.tid);
		assert_int_equal(pthread_cancel(thread), 0);
		join_cancelled(thread);
	}
	close_blocked(&blocked);
}

/* --- events, while threads that fetch them are cancelled --- */

static void *fetch_all(void *channel)
{
	struct rdma_cm_event *event;

	for (;;) {
		if (!rdma_get_cm_event(channel, &event))
			rdma_ack_cm_event(event);
	}
	return NULL;
}

/* rdma_destroy_id would wait for an event that a cancelled thread took and did not acknowledge. */
static void test_fetching(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in addr = loopback;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		const struct timespec wait = { 0, round % 20 * 41000 };
		struct rdma_cm_id *id;
		pthread_t thread;

		assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(pthread_create(&thread, NULL, fetch_all, channel), 0);
		assert_int_equal(rdma_resolve_addr(id, NULL, (void *)&addr, TIMEOUT_MS), 0);
		nanosleep(&wait, NULL);
		assert_int_equal(pthread_cancel(thread), 0);
		join_cancelled(thread);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_points),
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_fetching),
	};

	alarm(HANG_S); /* ends a wait for a lock that no thread holds */
	return cmocka_run_group_tests_name("cancelled threads", tests, NULL, NULL);
}

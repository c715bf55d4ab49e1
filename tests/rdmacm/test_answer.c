/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another process sleeps until a message comes, and answers at once. A program that polls one CQ
 * for both directions finds its SEND complete before it finds the answer: a NIC shows them in this
 * order, and programs keep count of their state by that.
 *
 * Both processes run on one CPU. So the wake-up of one is likely to interrupt the other.
 */
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "party.h"

enum { MESSAGES = 300 };

/*
 * Shorter than an ACK, as long, longer; cut into equal packets, and with a shorter one at the end.
 */
static uint32_t sizes[] = { 0, 4, 8, 1 << 16, 10000 };
static char sent[1 << 16], received[1 << 16];

/* --- the process that answers --- */

#define CHECK(condition)                           \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 255 + 1); \
	} while (0)

static struct rdma_cm_id *child_accept(int port_pipe)
{
	struct ibv_qp_init_attr attr = { .cap = { 8, 8, 1, 1, 0 }, .sq_sig_all = 1 };
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *info;
	struct rdma_cm_id *listener, *id;
	uint16_t port;

	CHECK(!rdma_getaddrinfo("127.0.0.1", "0", &hints, &info));
	CHECK(!rdma_create_ep(&listener, info, NULL, &attr));
	CHECK(!rdma_listen(listener, 1));
	port = ntohs(rdma_get_src_port(listener));
	CHECK(write(port_pipe, &port, sizeof(port)) == sizeof(port));
	CHECK(!rdma_get_request(listener, &id));
	return id;
}

/* It looks at the CQ only after an event. */
static void child_answer(struct rdma_cm_id *id, struct ibv_mr *from, struct ibv_mr *to,
			 uint32_t size)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	CHECK(!ibv_get_cq_event(id->recv_cq_channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	CHECK(!ibv_req_notify_cq(cq, 0));
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK(!rdma_post_recv(id, NULL, received, sizeof(received), to));
	CHECK(!rdma_post_send(id, NULL, sent, size, from, 0));
	while (!ibv_poll_cq(id->send_cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_SUCCESS);
}

static void child_run(int port_pipe, uint32_t size)
{
	struct rdma_cm_id *id = child_accept(port_pipe);
	struct ibv_mr *from = rdma_reg_msgs(id, sent, sizeof(sent));
	struct ibv_mr *to = rdma_reg_msgs(id, received, sizeof(received));

	CHECK(from && to);
	CHECK(!rdma_post_recv(id, NULL, received, sizeof(received), to));
	CHECK(!ibv_req_notify_cq(id->recv_cq, 0));
	CHECK(!rdma_accept(id, NULL));
	for (int i = 0; i < MESSAGES; i++)
		child_answer(id, from, to, size);
	rdma_disconnect(id);
	_exit(0);
}

/* --- the process that asks --- */

struct asker {
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	sem_t answered;
	int sends, receives; /* the polling thread alone */
	int early;           /* answers that were found before the completion of the request */
	bool failed;
};

static void count(struct asker *asker, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		asker->failed = true;
	if (!(wc->opcode & IBV_WC_RECV)) {
		asker->sends++;
		return;
	}
	asker->early += asker->sends <= asker->receives;
	asker->receives++;
	sem_post(&asker->answered);
}

static void *poll_both(void *arg)
{
	struct asker *asker = arg;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	while (asker->receives < MESSAGES && !asker->failed) {
		if (ibv_get_cq_event(asker->channel, &cq, &context))
			break;
		ibv_ack_cq_events(cq, 1);
		ibv_req_notify_cq(cq, 0);
		while (ibv_poll_cq(cq, 1, &wc) == 1)
			count(asker, &wc);
	}
	if (asker->failed)
		sem_post(&asker->answered);
	return NULL;
}

static void connect_to(struct asker *asker, uint16_t port)
{
	struct ibv_qp_init_attr attr = { .cap = { 8, 8, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct sockaddr_in to;

	address4(&to, "127.0.0.1", port);
	assert_int_equal(rdma_create_id(NULL, &asker->id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(asker->id, NULL, (struct sockaddr *)&to, 1000), 0);
	assert_int_equal(rdma_resolve_route(asker->id, 1000), 0);
	asker->channel = ibv_create_comp_channel(asker->id->verbs);
	asker->cq = ibv_create_cq(asker->id->verbs, 64, NULL, asker->channel, 0);
	assert_non_null(asker->cq);
	assert_int_equal(ibv_req_notify_cq(asker->cq, 0), 0);
	attr.send_cq = attr.recv_cq = asker->cq;
	assert_int_equal(rdma_create_qp(asker->id, NULL, &attr), 0);
	assert_int_equal(rdma_connect(asker->id, &param), 0);
}

static void ask(struct asker *asker, uint32_t size)
{
	struct ibv_mr *from = rdma_reg_msgs(asker->id, sent, sizeof(sent));
	struct ibv_mr *to = rdma_reg_msgs(asker->id, received, sizeof(received));
	pthread_t poller;

	assert_int_equal(pthread_create(&poller, NULL, poll_both, asker), 0);
	for (int i = 0; i < MESSAGES && !asker->failed; i++) {
		assert_int_equal(rdma_post_recv(asker->id, NULL, received, sizeof(received), to),
				 0);
		assert_int_equal(rdma_post_send(asker->id, NULL, sent, size, from, 0), 0);
		sem_wait(&asker->answered);
	}
	pthread_join(poller, NULL);
	assert_false(asker->failed);
	assert_int_equal(asker->early, 0);
	rdma_dereg_mr(from);
	rdma_dereg_mr(to);
}

static void asker_end(struct asker *asker)
{
	rdma_disconnect(asker->id);
	rdma_destroy_qp(asker->id);
	ibv_destroy_cq(asker->cq);
	ibv_destroy_comp_channel(asker->channel);
	rdma_destroy_id(asker->id);
}

static void a_send_completes_before_its_answer(void **state)
{
	const uint32_t size = *(const uint32_t *)*state;
	struct asker asker = { 0 };
	uint16_t port;
	int pipes[2], status;
	pid_t child;

	SKIP_WITHOUT_FORK();
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(sem_init(&asker.answered, 0, 0), 0);
	child = fork();
	if (!child)
		child_run(pipes[1], size);
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &port, sizeof(port)), sizeof(port));
	close(pipes[0]);
	connect_to(&asker, port);
	ask(&asker, size);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	asker_end(&asker);
}

static int share_a_cpu(void **state)
{
	cpu_set_t all, one;
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	(void)state;
	return sched_setaffinity(0, sizeof(one), &one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(a_send_completes_before_its_answer, &sizes[0]),
		cmocka_unit_test_prestate(a_send_completes_before_its_answer, &sizes[1]),
		cmocka_unit_test_prestate(a_send_completes_before_its_answer, &sizes[2]),
		cmocka_unit_test_prestate(a_send_completes_before_its_answer, &sizes[3]),
		cmocka_unit_test_prestate(a_send_completes_before_its_answer, &sizes[4]),
	};

	return cmocka_run_group_tests(tests, share_a_cpu, NULL);
}

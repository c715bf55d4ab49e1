/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPU time of an idle process with connected QPs, posted receives and an armed CQ (of two such
 * processes, the busier one). All threads count, so a helper thread that wakes up or spins shows.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "endpoint.h"

enum { QPS = 16, DEPTH = 16, MESSAGE_SIZE = 64, SECONDS = 3 };

static double cpu_ms(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec * 1e3 + used.tv_nsec / 1e6;
}

static void post_receive(const struct endpoint *endpoint, struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)endpoint->buffer, MESSAGE_SIZE, endpoint->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int error = ibv_post_recv(qp, &wr, &bad);

	if (error)
		bench_die(error, "ibv_post_recv");
}

static void post_send(const struct endpoint *endpoint, struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)endpoint->buffer, MESSAGE_SIZE, endpoint->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	int error = ibv_post_send(qp, &wr, &bad);

	if (error)
		bench_die(error, "ibv_post_send");
}

/* One message each way on every QP: the two processes know each other before they go quiet. */
static void talk(const struct bench_pair *pair, const struct endpoint *endpoint)
{
	struct ibv_qp *qps[QPS];

	for (int i = 0; i < QPS; i++) {
		struct address mine, peer;

		qps[i] = endpoint_create_qp(endpoint, endpoint->cq, DEPTH);
		mine = endpoint_address(endpoint, qps[i]);
		bench_exchange(pair, &mine, &peer, sizeof(mine));
		endpoint_connect(endpoint, qps[i], &peer);
		post_receive(endpoint, qps[i]);
		post_receive(endpoint, qps[i]);
	}
	bench_barrier(pair);
	for (int i = 0; i < QPS; i++)
		post_send(endpoint, qps[i]);
	endpoint_reap(endpoint->cq, 2 * QPS);
}

static double sleep_and_measure_ms(void)
{
	struct timespec rest = { .tv_sec = SECONDS };
	double before = cpu_ms();

	nanosleep(&rest, NULL); /* the measured time, not a wait for an event */
	return cpu_ms() - before;
}

int main(void)
{
	struct bench_pair pair = bench_fork();
	struct endpoint endpoint;
	double mine, theirs;
	int error;

	endpoint_open(&endpoint, 4096, 2 * QPS * DEPTH);
	talk(&pair, &endpoint);
	error = ibv_req_notify_cq(endpoint.cq, 0);
	if (error)
		bench_die(error, "ibv_req_notify_cq");
	bench_barrier(&pair);
	mine = sleep_and_measure_ms();
	bench_exchange(&pair, &mine, &theirs, sizeof(mine));
	if (pair.side == BENCH_PARENT)
		printf("idle_cpu %.3f\n", mine > theirs ? mine : theirs);
	bench_join(&pair);
	return 0;
}

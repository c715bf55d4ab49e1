/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sends SIZE COUNT: nanoseconds for one SEND, with its receive and both completions, from one QP of
 * this process to another. One thread does it all, so that its CPU time is the work of the library,
 * and of what stands before it, also while other programs use the CPUs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "endpoint.h"

enum { DEPTH = 64 };

static void post_receive(const struct endpoint *endpoint, struct ibv_qp *qp, uint32_t size, int i)
{
	struct ibv_sge sge = { (uintptr_t)endpoint->buffer + (size_t)(DEPTH + i) * size, size,
			       endpoint->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1 };
	int error = ibv_post_recv(qp, &wr, &bad);

	if (error)
		bench_die(error, "ibv_post_recv");
}

static void post_send(const struct endpoint *endpoint, struct ibv_qp *qp, uint32_t size, int i)
{
	struct ibv_sge sge = { (uintptr_t)endpoint->buffer + (size_t)i * size, size,
			       endpoint->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = (uint64_t)i,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };
	int error = ibv_post_send(qp, &wr, &bad);

	if (error)
		bench_die(error, "ibv_post_send");
}

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	const uint32_t size = argc > 1 ? (uint32_t)atoi(argv[1]) : 64;
	const int count = argc > 2 ? atoi(argv[2]) : 100000;
	struct endpoint endpoint;
	struct address addresses[2];
	struct ibv_qp *qps[2];
	double start;

	endpoint_open(&endpoint, (size_t)2 * DEPTH * size, 4 * DEPTH);
	for (int i = 0; i < 2; i++) {
		qps[i] = endpoint_create_qp(&endpoint, endpoint.cq, 2 * DEPTH);
		addresses[i] = endpoint_address(&endpoint, qps[i]);
	}
	endpoint_connect(&endpoint, qps[0], &addresses[1]);
	endpoint_connect(&endpoint, qps[1], &addresses[0]);
	start = cpu_ns();
	for (int i = 0; i < count; i++) {
		post_receive(&endpoint, qps[1], size, i % DEPTH);
		post_send(&endpoint, qps[0], size, i % DEPTH);
		endpoint_reap(endpoint.cq, 2);
	}
	printf("%.1f\n", (cpu_ns() - start) / count);
	return 0;
}

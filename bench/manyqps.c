/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 10,000 RC queue pairs of depth 16, connected two by two in one process: memory and time. A
 * message then crosses each pair, so the memory that a used queue pair needs counts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "endpoint.h"

enum { QPS = 10000, DEPTH = 16, QPS_PER_CQ = 100, MESSAGE_SIZE = 8 };

static struct ibv_qp *qps[QPS];

static double resident_mb(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	double kb = -1;

	if (!status)
		bench_die(errno, "/proc/self/status");
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %lf kB", &kb) == 1)
			break;
	fclose(status);
	return kb * 1024 / 1e6;
}

static void create_all(const struct endpoint *endpoint)
{
	struct ibv_cq *cq = NULL;

	for (int i = 0; i < QPS; i++) {
		if (i % QPS_PER_CQ == 0)
			cq = ibv_create_cq(endpoint->context, 2 * DEPTH * QPS_PER_CQ, NULL, NULL,
					   0);
		if (!cq)
			bench_die(errno, "ibv_create_cq");
		qps[i] = endpoint_create_qp(endpoint, cq, DEPTH);
	}
}

static void connect_all(const struct endpoint *endpoint)
{
	for (int i = 0; i < QPS; i++) {
		struct address peer = endpoint_address(endpoint, qps[i ^ 1]);

		endpoint_connect(endpoint, qps[i], &peer);
	}
}

static void send_over(const struct endpoint *endpoint, struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_sge source = { (uintptr_t)endpoint->buffer, MESSAGE_SIZE, endpoint->mr->lkey };
	struct ibv_sge sink = { source.addr + MESSAGE_SIZE, MESSAGE_SIZE, source.lkey };
	struct ibv_recv_wr recv = { .sg_list = &sink, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .sg_list = &source,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED },
			   *bad_send;

	if (ibv_post_recv(to, &recv, &bad_recv) || ibv_post_send(from, &send, &bad_send))
		bench_die(0, "posting over one of the pairs failed");
	endpoint_reap(from->send_cq, 2); /* both ends of a pair share a CQ */
}

int main(void)
{
	struct endpoint endpoint;
	double start, created, connected;

	endpoint_open(&endpoint, 4096, 16);
	start = bench_now_ns();
	create_all(&endpoint);
	created = bench_now_ns();
	connect_all(&endpoint);
	connected = bench_now_ns();
	for (int i = 0; i < QPS; i += 2)
		send_over(&endpoint, qps[i], qps[i + 1]);
	printf("qps_memory %.1f\n", resident_mb());
	printf("qps_create %.2f\n", (created - start) / QPS / 1e3);
	printf("qps_connect %.2f\n", (connected - created) / QPS / 1e3);
	return 0;
}

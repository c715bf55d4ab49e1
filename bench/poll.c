/* SPDX-License-Identifier: BSD-2-Clause */
/* The cost of an empty ibv_poll_cq: two connected QPs, a receive posted on each. */
#include <stdio.h>

#include "bench.h"
#include "endpoint.h"

enum { POLLS_PER_BATCH = 20000, QPS = 2 };

static void post_receive(const struct endpoint *endpoint, struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)endpoint->buffer, 64, endpoint->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int error = ibv_post_recv(qp, &wr, &bad);

	if (error)
		bench_die(error, "ibv_post_recv");
}

static void connect_both(const struct endpoint *endpoint)
{
	struct ibv_qp *qps[QPS];
	struct address addresses[QPS];

	for (int i = 0; i < QPS; i++) {
		qps[i] = endpoint_create_qp(endpoint, endpoint->cq, 16);
		addresses[i] = endpoint_address(endpoint, qps[i]);
	}
	for (int i = 0; i < QPS; i++) {
		endpoint_connect(endpoint, qps[i], &addresses[!i]);
		post_receive(endpoint, qps[i]);
	}
}

int main(void)
{
	struct endpoint endpoint;
	double samples[BENCH_BATCHES];
	struct ibv_wc wc;

	bench_pin(BENCH_PARENT);
	endpoint_open(&endpoint, 4096, 256);
	connect_both(&endpoint);
	for (int batch = 0; batch < BENCH_BATCHES; batch++) {
		double start = bench_now_ns();

		for (int i = 0; i < POLLS_PER_BATCH; i++)
			if (ibv_poll_cq(endpoint.cq, 1, &wc))
				bench_die(0, "a completion out of nothing");
		samples[batch] = (bench_now_ns() - start) / POLLS_PER_BATCH;
	}
	printf("poll_empty %.2f\n", bench_median(samples, BENCH_BATCHES));
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 8 B writes into another process: 64 of them posted by one call each, and by one call for all.
 * Both ways post the same work requests, signal the last one and wait for it.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "endpoint.h"

enum { LIST_LENGTH = 64, WRITE_SIZE = 8, BUFFER_SIZE = 4096, LISTS_PER_BATCH = 50 };

struct list {
	struct ibv_send_wr wrs[LIST_LENGTH];
	struct ibv_sge sges[LIST_LENGTH];
};

/* One write per 8 bytes of the peer's buffer: small updates side by side. */
static void list_fill(struct list *list, const struct endpoint *endpoint,
		      const struct address *peer)
{
	memset(list, 0, sizeof(*list));
	for (int i = 0; i < LIST_LENGTH; i++) {
		struct ibv_send_wr *wr = &list->wrs[i];
		uint64_t offset = (uint64_t)i * WRITE_SIZE;

		list->sges[i] = (struct ibv_sge){ (uintptr_t)endpoint->buffer + offset, WRITE_SIZE,
						  endpoint->mr->lkey };
		wr->sg_list = &list->sges[i];
		wr->num_sge = 1;
		wr->opcode = IBV_WR_RDMA_WRITE;
		wr->send_flags = i == LIST_LENGTH - 1 ? IBV_SEND_SIGNALED : 0;
		wr->wr.rdma.remote_addr = peer->buffer + offset;
		wr->wr.rdma.rkey = peer->rkey;
	}
}

static void list_link(struct list *list, bool linked)
{
	for (int i = 0; i < LIST_LENGTH - 1; i++)
		list->wrs[i].next = linked ? &list->wrs[i + 1] : NULL;
}

static void post(struct ibv_qp *qp, struct list *list, int calls)
{
	for (int i = 0; i < calls; i++) {
		struct ibv_send_wr *bad;
		int error = ibv_post_send(qp, &list->wrs[i], &bad);

		if (error)
			bench_die(error, "ibv_post_send");
	}
}

/* Million writes a second. */
static double measure_rate(const struct endpoint *endpoint, struct ibv_qp *qp, struct list *list,
			   bool linked)
{
	double samples[BENCH_BATCHES];

	list_link(list, linked);
	for (int batch = 0; batch < BENCH_BATCHES; batch++) {
		double start = bench_now_ns();

		for (int i = 0; i < LISTS_PER_BATCH; i++) {
			post(qp, list, linked ? 1 : LIST_LENGTH);
			endpoint_reap(endpoint->cq, 1);
		}
		samples[batch] = LISTS_PER_BATCH * LIST_LENGTH * 1e3 / (bench_now_ns() - start);
	}
	return bench_median(samples, BENCH_BATCHES);
}

int main(void)
{
	struct bench_pair pair = bench_fork();
	struct endpoint endpoint;
	struct address mine, peer;
	struct ibv_qp *qp;
	static struct list list;

	endpoint_open(&endpoint, BUFFER_SIZE, 2 * LIST_LENGTH);
	qp = endpoint_create_qp(&endpoint, endpoint.cq, 2 * LIST_LENGTH);
	mine = endpoint_address(&endpoint, qp);
	bench_exchange(&pair, &mine, &peer, sizeof(mine));
	endpoint_connect(&endpoint, qp, &peer);
	bench_barrier(&pair);
	if (pair.side == BENCH_PARENT) {
		list_fill(&list, &endpoint, &peer);
		measure_rate(&endpoint, qp, &list, false); /* warms up */
		printf("write_single_rate %.3f\n", measure_rate(&endpoint, qp, &list, false));
		printf("write_list_rate %.3f\n", measure_rate(&endpoint, qp, &list, true));
	}
	bench_barrier(&pair); /* the target sleeps here until the writes are over */
	bench_join(&pair);
	return 0;
}

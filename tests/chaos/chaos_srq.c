/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One SRQ, several QPs, each with a CQ and a thread of its own that polls it. Whoever polls comes
 * upon completions of the others as well: none gets lost, the messages of each QP complete in
 * order, and no memory is needed for that. Also for the thread sanitizer.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { THREADS = 4, BATCH = 32, SIZE = 1024, RECEIVES = THREADS * BATCH };
enum { DEADLINE_US = 20000000 };

struct message {
	uint32_t thread, seq;
};

struct lane {
	struct ibv_qp *from, *to;
	struct ibv_cq *send_cq, *recv_cq;
};

static struct rig rig;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static struct lane lanes[THREADS];
static uint8_t memory[(RECEIVES + THREADS * BATCH) * SIZE];
static int rounds = 300;
static _Thread_local bool without_memory;

/* The library's calls land here, too; but sanitizers have an allocator of their own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#ifdef __has_feature
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif
#if !SANITIZED
void *__libc_calloc(size_t count, size_t size);

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
	return without_memory ? NULL : __libc_calloc(count, size);
}
#endif
#endif

static void post_receive(uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)memory + id * SIZE, SIZE, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
}

static void post_send(uint32_t thread, uint32_t place, uint32_t seq)
{
	uint8_t *slot = memory + (RECEIVES + thread * BATCH + place) * SIZE;
	struct message message = { thread, seq };
	struct ibv_sge sge = { (uintptr_t)slot, SIZE, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = place,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	memcpy(slot, &message, sizeof(message));
	CHECK(!ibv_post_send(lanes[thread].from, &wr, &bad), "ibv_post_send");
}

static struct ibv_wc poll_one(struct ibv_cq *cq)
{
	uint64_t start = clock_us();
	struct ibv_wc wc;
	int got;

	while (!(got = ibv_poll_cq(cq, 1, &wc))) {
		sched_yield();
		CHECK(clock_us() - start < DEADLINE_US, "a completion is missing");
	}
	CHECK(got == 1 && wc.status == IBV_WC_SUCCESS, "poll %d, status %d", got, wc.status);
	return wc;
}

static void check(uint32_t thread, uint32_t seq, const struct ibv_wc *wc)
{
	struct message message;

	memcpy(&message, memory + wc->wr_id * SIZE, sizeof(message));
	CHECK(wc->qp_num == lanes[thread].to->qp_num, "a completion of another QP");
	CHECK(message.thread == thread && message.seq == seq, "thread %u: %u:%u instead of %u",
	      thread, message.thread, message.seq, seq);
}

/* The poll of one CQ comes upon a completion of the other, and has no memory. */
static void nothing_is_lost(void)
{
	struct ibv_wc wc;

	post_send(1, 0, 0);
	poll_one(lanes[1].send_cq);
	without_memory = true;
	CHECK(!ibv_poll_cq(lanes[0].recv_cq, 1, &wc), "a completion of another CQ");
	without_memory = false;
	wc = poll_one(lanes[1].recv_cq);
	check(1, 0, &wc);
	post_receive(wc.wr_id);
}

static void *run(void *argument)
{
	uint32_t thread = (uint32_t)(uintptr_t)argument, seq = 0;
	struct lane *lane = &lanes[thread];

	for (int round = 0; round < rounds; round++, seq += BATCH) {
		uint64_t ids[BATCH];

		for (uint32_t i = 0; i < BATCH; i++)
			post_send(thread, i, seq + i);
		for (uint32_t i = 0; i < BATCH; i++)
			CHECK(poll_one(lane->send_cq).wr_id == i, "sends out of order");
		without_memory = round % 2;
		for (uint32_t i = 0; i < BATCH; i++) {
			struct ibv_wc wc = poll_one(lane->recv_cq);

			check(thread, seq + i, &wc);
			ids[i] = wc.wr_id;
		}
		without_memory = false;
		for (uint32_t i = 0; i < BATCH; i++)
			post_receive(ids[i]);
	}
	return NULL;
}

static void open_lane(struct lane *lane)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .srq = srq,
					 .cap = { BATCH, 0, 1, 0, 0 } };

	lane->send_cq = init.send_cq = ibv_create_cq(rig.ctx, BATCH, NULL, NULL, 0);
	lane->recv_cq = init.recv_cq = ibv_create_cq(rig.ctx, BATCH, NULL, NULL, 0);
	lane->from = ibv_create_qp(rig.pd, &init);
	lane->to = ibv_create_qp(rig.pd, &init);
	CHECK(lane->from && lane->to, "ibv_create_qp: %s", strerror(errno));
	rig_connect(&rig, lane->from, lane->to->qp_num);
	rig_connect(&rig, lane->to, lane->from->qp_num);
}

static void close_lane(struct lane *lane)
{
	CHECK(!ibv_destroy_qp(lane->from) && !ibv_destroy_qp(lane->to), "ibv_destroy_qp");
	CHECK(!ibv_destroy_cq(lane->send_cq) && !ibv_destroy_cq(lane->recv_cq), "ibv_destroy_cq");
}

int main(int argc, char **argv)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	pthread_t threads[THREADS];

	if (argc > 1)
		rounds = atoi(argv[1]);
	printf("1..2\n");
	rig_open(&rig);
	srq = ibv_create_srq(rig.pd, &attr);
	mr = ibv_reg_mr(rig.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	CHECK(srq && mr, "ibv_create_srq or ibv_reg_mr: %s", strerror(errno));
	for (uint64_t i = 0; i < RECEIVES; i++)
		post_receive(i);
	for (unsigned i = 0; i < THREADS; i++)
		open_lane(&lanes[i]);
	nothing_is_lost();
	printf("ok 1 - a completion that another CQ's poll came upon is there, also without "
	       "memory\n");
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < THREADS; i++)
		close_lane(&lanes[i]);
	CHECK(!ibv_destroy_srq(srq) && !ibv_dereg_mr(mr), "ibv_destroy_srq or ibv_dereg_mr");
	rig_close(&rig);
	printf("ok 2 - receives of one SRQ come in order, to each CQ those of its QP\n");
	return 0;
}

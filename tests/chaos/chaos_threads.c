/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One process, many threads, shared objects. Each pair of QPs is connected to itself in this
 * process; all share two CQs that several threads poll. On a QP that one thread posts to, the
 * messages arrive in its order; on one that several post to, in the order of each of them.
 * Everything completes exactly once. Also for the thread sanitizer.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "rig.h"

enum { PAIRS = 4, SHARED_PAIRS = 2, POSTERS_SHARED = 3, POLLERS = 3 };
enum { RX_DEPTH = 128, TX_DEPTH = 64, SLOT_SIZE = 512, BATCH = 8 };
enum { DEADLINE_US = 60000000 };

struct arrival {
	uint32_t poster, seq;
};

/* A pair: QP 0 sends to QP 1. */
struct pair {
	struct ibv_qp *qp[2];
	unsigned posters;         /* threads that post to QP 0 */
	uint32_t per_poster;      /* messages of each of them */
	_Atomic int credits;      /* free places in the send queue */
	_Atomic uint8_t *sent;    /* completions per send: exactly one */
	_Atomic uint8_t *taken;   /* completions per receive: exactly one */
	struct arrival *arrivals; /* by receive, in post order */
	_Atomic uint32_t received, completed;
	pthread_mutex_t
		rx_lock; /* keeps the number of a receive and its place in the queue equal */
	uint32_t rx_posted;
};

static struct rig rig;
static struct ibv_cq *send_cq, *recv_cq;
static struct pair pairs[PAIRS];
static uint8_t *memory; /* per pair: TX_DEPTH slots per poster, then RX_DEPTH slots */
static struct ibv_mr *mr;
static uint32_t messages = 20000;

static size_t pair_size(void)
{
	return (size_t)(POSTERS_SHARED * TX_DEPTH + RX_DEPTH) * SLOT_SIZE;
}

static uint8_t *tx_slot(unsigned pair, unsigned poster, uint32_t seq)
{
	return memory + pair * pair_size() +
	       (size_t)(poster * TX_DEPTH + seq % TX_DEPTH) * SLOT_SIZE;
}

static uint8_t *rx_slot(unsigned pair, unsigned slot)
{
	return memory + pair * pair_size() + (size_t)(POSTERS_SHARED * TX_DEPTH + slot) * SLOT_SIZE;
}

static uint32_t pair_total(const struct pair *pair)
{
	return pair->posters * pair->per_poster;
}

/* wr_id of a receive: pair, number in post order, slot. */
static void post_receive(unsigned index, unsigned slot)
{
	struct pair *pair = &pairs[index];
	struct ibv_sge sge = { (uintptr_t)rx_slot(index, slot), SLOT_SIZE, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	pthread_mutex_lock(&pair->rx_lock);
	wr.wr_id = (uint64_t)index << 56 | (uint64_t)pair->rx_posted << 16 | slot;
	if (pair->rx_posted < pair_total(pair)) {
		int err = ibv_post_recv(pair->qp[1], &wr, &bad);

		CHECK(!err, "ibv_post_recv: %s", strerror(err));
		pair->rx_posted++;
	}
	pthread_mutex_unlock(&pair->rx_lock);
}

static void received(const struct ibv_wc *wc)
{
	unsigned index = (unsigned)(wc->wr_id >> 56), slot = (unsigned)(wc->wr_id & 0xffff);
	uint32_t number = (uint32_t)(wc->wr_id >> 16), seq = 0;
	struct pair *pair = &pairs[index];
	struct stamp stamp;

	CHECK(!wc->status, "receive: %s", ibv_wc_status_str(wc->status));
	CHECK(number < pair_total(pair) && atomic_fetch_add(&pair->taken[number], 1) == 0,
	      "receive %u of pair %u completed twice", number, index);
	memcpy(&stamp, rx_slot(index, slot), sizeof(stamp));
	CHECK(stamp.tag >> 8 == index + 1, "a message of another pair");
	const char *fault = message_fault(rx_slot(index, slot), wc->byte_len, stamp.tag, &seq);
	CHECK(!fault, "receive %u of pair %u: %s", number, index, fault);
	pair->arrivals[number] = (struct arrival){ stamp.tag & 0xff, seq };
	post_receive(index, slot);
	atomic_fetch_add(&pair->received, 1);
}

/* wr_id of a send: pair, poster, seq. */
static void sent(const struct ibv_wc *wc)
{
	unsigned index = (unsigned)(wc->wr_id >> 56), poster = (unsigned)(wc->wr_id >> 48 & 0xff);
	uint32_t seq = (uint32_t)wc->wr_id;
	struct pair *pair = &pairs[index];

	CHECK(!wc->status, "send: %s", ibv_wc_status_str(wc->status));
	CHECK(index < PAIRS && poster < pair->posters && seq < pair->per_poster, "unknown wr_id");
	CHECK(atomic_fetch_add(&pair->sent[poster * pair->per_poster + seq], 1) == 0,
	      "send %u of pair %u completed twice", seq, index);
	atomic_fetch_add(&pair->completed, 1);
	atomic_fetch_add(&pair->credits, 1);
}

static bool all_done(void)
{
	for (unsigned i = 0; i < PAIRS; i++) {
		if (atomic_load(&pairs[i].received) < pair_total(&pairs[i]) ||
		    atomic_load(&pairs[i].completed) < pair_total(&pairs[i]))
			return false;
	}
	return true;
}

static void *poller(void *unused)
{
	uint64_t start = clock_us();
	struct ibv_wc wc[BATCH];

	while (!all_done()) {
		int sends = ibv_poll_cq(send_cq, BATCH, wc);

		for (int i = 0; i < sends; i++)
			sent(&wc[i]);
		int receives = ibv_poll_cq(recv_cq, BATCH, wc);
		for (int i = 0; i < receives; i++)
			received(&wc[i]);
		CHECK(sends >= 0 && receives >= 0, "ibv_poll_cq: %d %d", sends, receives);
		if (!sends && !receives)
			sched_yield();
		CHECK(clock_us() - start < DEADLINE_US, "not all completed");
	}
	return unused;
}

/* A slot may be filled again when the send that used it has completed. */
static void wait_for_slot(struct pair *pair, unsigned poster, uint32_t seq)
{
	uint64_t start = clock_us();
	uint32_t before = poster * pair->per_poster + seq - TX_DEPTH;

	while (seq >= TX_DEPTH && !atomic_load(&pair->sent[before])) {
		sched_yield();
		CHECK(clock_us() - start < DEADLINE_US, "send %u does not complete",
		      seq - TX_DEPTH);
	}
	while (atomic_fetch_sub(&pair->credits, 1) <= 0) {
		atomic_fetch_add(&pair->credits, 1);
		sched_yield();
		CHECK(clock_us() - start < DEADLINE_US, "the send queue stays full");
	}
}

static void post_message(unsigned index, unsigned poster, uint32_t seq, uint32_t length)
{
	uint8_t *slot = tx_slot(index, poster, seq);
	struct ibv_sge sge = { (uintptr_t)slot, length, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = (uint64_t)index << 56 | (uint64_t)poster << 48 | seq,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	message_fill(slot, length, (index + 1) << 8 | poster, seq);
	int err = ibv_post_send(pairs[index].qp[0], &wr, &bad);
	CHECK(!err, "ibv_post_send: %s", strerror(err));
}

static void *posting(void *argument)
{
	unsigned index = (unsigned)(uintptr_t)argument >> 8;
	unsigned poster = (unsigned)(uintptr_t)argument & 0xff;
	struct rng rng = rng_fork(index, poster);

	for (uint32_t seq = 0; seq < pairs[index].per_poster; seq++) {
		uint32_t length = MESSAGE_MIN + (uint32_t)rng_below(&rng, SLOT_SIZE - MESSAGE_MIN);

		wait_for_slot(&pairs[index], poster, seq);
		post_message(index, poster, seq, length);
	}
	return NULL;
}

static void open_pair(unsigned index)
{
	struct pair *pair = &pairs[index];
	struct ibv_qp_init_attr init = { .send_cq = send_cq,
					 .recv_cq = recv_cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { TX_DEPTH, RX_DEPTH, 1, 1, 0 } };

	pair->posters = index < SHARED_PAIRS ? POSTERS_SHARED : 1;
	pair->per_poster = messages / pair->posters;
	pair->credits = TX_DEPTH;
	pair->sent = calloc(pair_total(pair), 1);
	pair->taken = calloc(pair_total(pair), 1);
	pair->arrivals = calloc(pair_total(pair), sizeof(*pair->arrivals));
	pthread_mutex_init(&pair->rx_lock, NULL);
	for (unsigned i = 0; i < 2; i++) {
		pair->qp[i] = ibv_create_qp(rig.pd, &init);
		CHECK(pair->qp[i], "ibv_create_qp: %s", strerror(errno));
	}
	for (unsigned i = 0; i < 2; i++)
		rig_connect(&rig, pair->qp[i], pair->qp[!i]->qp_num);
	for (unsigned slot = 0; slot < RX_DEPTH; slot++)
		post_receive(index, slot);
}

static void open_all(void)
{
	size_t size = PAIRS * pair_size();

	rig_open(&rig);
	send_cq = ibv_create_cq(rig.ctx, PAIRS * TX_DEPTH, NULL, NULL, 0);
	recv_cq = ibv_create_cq(rig.ctx, PAIRS * RX_DEPTH, NULL, NULL, 0);
	CHECK(send_cq && recv_cq, "ibv_create_cq: %s", strerror(errno));
	memory = calloc(1, size);
	mr = ibv_reg_mr(rig.pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	for (unsigned i = 0; i < PAIRS; i++)
		open_pair(i);
}

static void close_all(void)
{
	for (unsigned i = 0; i < PAIRS; i++) {
		CHECK(!ibv_destroy_qp(pairs[i].qp[0]), "ibv_destroy_qp");
		CHECK(!ibv_destroy_qp(pairs[i].qp[1]), "ibv_destroy_qp");
		free(pairs[i].sent);
		free(pairs[i].taken);
		free(pairs[i].arrivals);
	}
	CHECK(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	CHECK(!ibv_destroy_cq(send_cq) && !ibv_destroy_cq(recv_cq), "ibv_destroy_cq");
	free(memory);
	rig_close(&rig);
}

static bool in_order(const struct pair *pair)
{
	uint32_t next[POSTERS_SHARED] = { 0 };

	for (uint32_t i = 0; i < pair_total(pair); i++) {
		const struct arrival *arrival = &pair->arrivals[i];

		if (arrival->poster >= pair->posters || arrival->seq != next[arrival->poster]++) {
			printf("# receive %u: poster %u seq %u\n", i, arrival->poster,
			       arrival->seq);
			return false;
		}
	}
	return true;
}

static bool once(const struct pair *pair)
{
	for (uint32_t i = 0; i < pair_total(pair); i++) {
		if (pair->sent[i] != 1 || pair->taken[i] != 1)
			return false;
	}
	return true;
}

static void run_threads(void)
{
	pthread_t threads[POLLERS + PAIRS * POSTERS_SHARED];
	unsigned count = 0;

	for (unsigned i = 0; i < POLLERS; i++)
		pthread_create(&threads[count++], NULL, poller, NULL);
	for (unsigned i = 0; i < PAIRS; i++) {
		for (unsigned poster = 0; poster < pairs[i].posters; poster++)
			pthread_create(&threads[count++], NULL, posting,
				       (void *)(uintptr_t)(i << 8 | poster));
	}
	while (count)
		pthread_join(threads[--count], NULL);
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "n:")) != -1) {
		if (option != 'n')
			return 2;
		messages = (uint32_t)strtoul(optarg, NULL, 0);
	}
	rig_name("threads", "");
	open_all();
	run_threads();
	for (unsigned i = 0; i < PAIRS; i++) {
		tap(once(&pairs[i]), "pair %u, %u posters: %u sends and receives exactly once", i,
		    pairs[i].posters, pair_total(&pairs[i]));
		tap(in_order(&pairs[i]), "pair %u: the messages of each poster arrived in order",
		    i);
	}
	close_all();
	return tap_end();
}

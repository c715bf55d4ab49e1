/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate of several threads, each with a QP and a CQ of its own, between two processes.
 *
 *   scale_verbs [-t THREADS] [-o send|write|read] [-s BYTES] [-d SECONDS] [-p]
 *
 * Prints a million messages a second, and GB/s. The targets of writes and reads sleep; with -p they
 * poll their CQs.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "endpoint.h"
#include "team.h"

enum { DEPTH = 64, WINDOW = 32, BATCH = 32 };

static struct {
	enum ibv_wr_opcode opcode;
	uint32_t size;
	bool target_polls;
} options = { .opcode = IBV_WR_SEND, .size = 64 };

static struct team team = { .workers = 1, .seconds = 1 };
static struct endpoint endpoint;
static size_t buffer_size; /* of a worker: what it sends, and what its partner reaches */

struct worker {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_sge sge;
	struct address peer;
};

_Noreturn static void usage(void)
{
	fprintf(stderr, "usage: scale_verbs [-t THREADS] [-o send|write|read] [-s BYTES] "
			"[-d SECONDS] [-p]\n");
	exit(2);
}

static enum ibv_wr_opcode opcode_of(const char *name)
{
	if (!strcmp(name, "send"))
		return IBV_WR_SEND;
	if (!strcmp(name, "write"))
		return IBV_WR_RDMA_WRITE;
	if (!strcmp(name, "read"))
		return IBV_WR_RDMA_READ;
	usage();
}

static void parse_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "t:o:s:d:p")) != -1) {
		if (option == 't')
			team.workers = atoi(optarg);
		else if (option == 'o')
			options.opcode = opcode_of(optarg);
		else if (option == 's')
			options.size = (uint32_t)atoi(optarg);
		else if (option == 'd')
			team.seconds = atof(optarg);
		else if (option == 'p')
			options.target_polls = true;
		else
			usage();
	}
	if (optind < argc || team.workers < 1 || team.workers > TEAM_WORKERS_MAX ||
	    options.size < 1 || options.size > 1 << 24 || !(team.seconds > 0))
		usage();
	buffer_size = ((size_t)options.size + 4095) / 4096 * 4096;
}

static void prepare(const struct team *self)
{
	endpoint_open(&endpoint, 2 * buffer_size * (size_t)self->workers, 1);
}

static void check(const struct ibv_wc *wc, int count)
{
	if (count < 0)
		bench_die(0, "ibv_poll_cq failed");
	for (int i = 0; i < count; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			bench_die(0, ibv_wc_status_str(wc[i].status));
}

static void post_recv(const struct worker *worker)
{
	struct ibv_sge sge = worker->sge;
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(worker->qp, &wr, &bad))
		bench_die(0, "ibv_post_recv failed");
}

static void open_worker(const struct team_worker *self, struct worker *worker)
{
	const uintptr_t own = (uintptr_t)endpoint.buffer + 2 * buffer_size * (size_t)self->index;
	struct address mine;

	worker->cq = ibv_create_cq(endpoint.context, 2 * DEPTH, NULL, NULL, 0);
	if (!worker->cq)
		bench_die(errno, "ibv_create_cq");
	worker->qp = endpoint_create_qp(&endpoint, worker->cq, DEPTH);
	worker->sge = (struct ibv_sge){ own, options.size, endpoint.mr->lkey };
	mine = endpoint_address(&endpoint, worker->qp);
	mine.buffer = own + buffer_size;
	static_assert(sizeof(mine) <= TEAM_BLOB, "an address fits");
	team_exchange(self, &mine, &worker->peer, sizeof(mine));
	endpoint_connect(&endpoint, worker->qp, &worker->peer);
	if (options.opcode == IBV_WR_SEND && self->team->side == BENCH_CHILD)
		for (int i = 0; i < DEPTH; i++)
			post_recv(worker);
}

static void post_send(const struct worker *worker)
{
	struct ibv_sge sge = worker->sge;
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = options.opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { worker->peer.buffer, worker->peer.rkey },
	};
	struct ibv_send_wr *bad;

	if (ibv_post_send(worker->qp, &wr, &bad))
		bench_die(0, "ibv_post_send failed");
}

/* Until all of its work requests have completed: the partner goes on until then. */
static void request(const struct team_worker *self, const struct worker *worker)
{
	struct ibv_wc wc[BATCH];
	int under_way = 0, got;

	do {
		for (; under_way < WINDOW && !team_stopped(self); under_way++)
			post_send(worker);
		got = ibv_poll_cq(worker->cq, BATCH, wc);
		check(wc, got);
		under_way -= got;
		if (got)
			team_count(self, (uint64_t)got);
	} while (under_way || !team_stopped(self));
}

static void receive(const struct worker *worker)
{
	struct ibv_wc wc[BATCH];
	int got = ibv_poll_cq(worker->cq, BATCH, wc);

	check(wc, got);
	for (int i = 0; i < got; i++)
		post_recv(worker);
}

/* The partner clears its ready flag when it has nothing more under way. */
static void serve(const struct team_worker *self, const struct worker *worker)
{
	const struct timespec pause = { 0, 200000 };

	while (atomic_load_explicit(&team_partner_line(self)->ready, memory_order_relaxed)) {
		if (options.opcode == IBV_WR_SEND || options.target_polls)
			receive(worker);
		else
			nanosleep(&pause, NULL);
	}
}

static void work(const struct team_worker *self)
{
	struct worker worker;

	open_worker(self, &worker);
	if (self->team->side == BENCH_CHILD) {
		serve(self, &worker);
		return;
	}
	request(self, &worker);
	atomic_store(&team_line(self)->ready, false);
}

int main(int argc, char **argv)
{
	double rate;

	parse_options(argc, argv);
	rate = team_run(&team, prepare, work);
	printf("rate %.4f\nbandwidth %.4f\n", rate / 1e6, rate * options.size / 1e9);
	return 0;
}

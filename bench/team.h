/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pairs of threads in two processes, for programs that measure how a rate grows with the threads.
 * Worker i of the parent works against worker i of the child, on a CPU of its own each.
 */
#ifndef BENCH_TEAM_H
#define BENCH_TEAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"

enum { TEAM_WORKERS_MAX = 64, TEAM_BLOB = 64 };

/* Shared by both processes, a pair of lines per worker: prefetchers fetch lines in pairs. */
struct team_worker_line {
	_Alignas(128) _Atomic uint64_t done; /* the worker: its bytes or messages so far */
	uint8_t blob[TEAM_BLOB];             /* the worker, before ready: for its partner */
	_Atomic bool ready;
};

struct team_shared {
	struct team_worker_line worker[2][TEAM_WORKERS_MAX];
	_Alignas(128) _Atomic bool stop;
};

struct team {
	int workers;
	double seconds;
	enum bench_side side; /* this process */
	struct team_shared *shared;
};

struct team_worker {
	const struct team *team;
	int index;
};

/* What all workers of a process share, made before they start; it may be NULL. */
typedef void team_prepare(const struct team *team);
/* The work of one thread: prepare, exchange addresses, and work until team_stopped. */
typedef void team_work(const struct team_worker *self);

/*
 * Runs the work in two processes, after a second without a count. Gives the units a second that all
 * workers together counted. Only the parent returns.
 */
double team_run(struct team *team, team_prepare *prepare, team_work *work);

/* Gives bytes to the partner, and waits for its bytes. Each worker calls it once. */
void team_exchange(const struct team_worker *self, const void *mine, void *theirs, size_t size);

static inline bool team_stopped(const struct team_worker *self)
{
	return atomic_load_explicit(&self->team->shared->stop, memory_order_relaxed);
}

static inline struct team_worker_line *team_line(const struct team_worker *self)
{
	return &self->team->shared->worker[self->team->side][self->index];
}

static inline struct team_worker_line *team_partner_line(const struct team_worker *self)
{
	return &self->team->shared->worker[!self->team->side][self->index];
}

/* The worker alone writes its count. */
static inline void team_count(const struct team_worker *self, uint64_t units)
{
	struct team_worker_line *line = team_line(self);

	atomic_store_explicit(&line->done,
			      atomic_load_explicit(&line->done, memory_order_relaxed) + units,
			      memory_order_relaxed);
}

#endif

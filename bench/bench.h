/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers of all bench programs: time, medians, a second process on the other core. */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_BATCHES 101 /* odd, so that the median is one of the samples */

/* The two processes of a pair. The parent measures. */
enum bench_side { BENCH_PARENT, BENCH_CHILD };

struct bench_pair {
	enum bench_side side;
	pid_t peer;
	int socket; /* to the peer; its end tells the child that the parent is gone */
};

double bench_now_ns(void);
double bench_median(double *samples, size_t count); /* sorts them */

/* Ends the program with a sentence; errnum 0 leaves out the system's explanation. */
_Noreturn void bench_die(int errnum, const char *what);

/* Pins to the first or second entry of $BENCH_CPUS ("0,1"). Without the variable: does nothing. */
void bench_pin(enum bench_side side);

/* Forks and pins both processes. The child dies with the parent, and lets it reach its memory. */
struct bench_pair bench_fork(void);
void bench_exchange(const struct bench_pair *pair, const void *mine, void *theirs, size_t size);
void bench_barrier(const struct bench_pair *pair);
void bench_join(const struct bench_pair *pair); /* the parent waits; the child exits */

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes exchange a word through shared memory: no message can be faster. "two lines": each
 * side writes into a line that the other side polls, as messages do. "one line": both sides write
 * the same line. Half the traffic; no protocol with two queues does it.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/arch.h"
#include "bench.h"

/*
 * Short batches: a preemption spoils few of them. perftest takes its median over single trips.
 * Where others use the CPUs, a trip may take many turns of both processes: then fewer batches are
 * enough.
 */
enum { TRIPS_PER_BATCH = 10, BATCHES = 20001, ENOUGH_S = 5, LOOKS = 1 << 19 };

#define STOP UINT64_MAX

struct line {
	_Alignas(128) _Atomic uint64_t word; /* 128: prefetchers fetch lines in pairs */
};

/* Waits for the value or, if it comes before, STOP. True: the value. */
static bool wait_for(struct line *line, uint64_t value)
{
	for (unsigned looks = 1;; looks++) {
		uint64_t word = atomic_load_explicit(&line->word, memory_order_acquire);

		if (word == value || word == STOP)
			return word == value;
		vb_cpu_relax();
		if (looks % LOOKS == 0) /* the other side has no CPU: this one may be on it */
			sched_yield();
	}
}

static void put(struct line *line, uint64_t value)
{
	atomic_store_explicit(&line->word, value, memory_order_release);
}

static void echo(struct line *in, struct line *out)
{
	for (uint64_t trip = 1; wait_for(in, 2 * trip); trip++)
		put(out, 2 * trip + 1);
}

static double measure_half_trip_ns(struct line *out, struct line *in)
{
	static double samples[BATCHES];
	double end = bench_now_ns() + ENOUGH_S * 1e9, start = 0;
	uint64_t trip = 0;
	int batch;

	for (batch = 0; batch < BATCHES && start < end; batch++) {
		start = bench_now_ns();

		for (int i = 0; i < TRIPS_PER_BATCH; i++) {
			put(out, 2 * ++trip);
			wait_for(in, 2 * trip + 1);
		}
		samples[batch] = (bench_now_ns() - start) / TRIPS_PER_BATCH / 2;
	}
	put(out, STOP);
	return bench_median(samples, batch);
}

static void bounce(const char *key, struct line *there, struct line *back)
{
	struct bench_pair pair = bench_fork();

	if (pair.side == BENCH_CHILD)
		echo(there, back);
	else
		printf("%s %.4f\n", key, measure_half_trip_ns(there, back) / 1e3);
	fflush(stdout);
	bench_join(&pair);
}

int main(void)
{
	struct line *lines =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (lines == MAP_FAILED)
		bench_die(errno, "mmap");
	bounce("bounce_lat", &lines[0], &lines[1]);
	bounce("bounce_one_line_lat", &lines[2], &lines[2]);
	return 0;
}

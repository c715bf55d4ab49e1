/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bare process_vm_writev: the cost of a write into another process, without any protocol. Half a
 * round trip at 8 B (the target polls its memory and writes back), bandwidth at 4 KB, 64 KB and
 * 1 MB. One source and one destination per size, as perftest has.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/arch.h"
#include "bench.h"

/* Short batches: a preemption spoils few of them. perftest takes its median over single trips. */
enum { TRIPS_PER_BATCH = 10, BATCHES = 5001 };

/* Bandwidth is an average over the whole run, as in perftest. */
enum { SIZE_MAX_BYTES = 1 << 20, RUN_BYTES = 1 << 30 };

static char *local;  /* this process's buffer, twice the largest size: source, then destination */
static char *remote; /* the destination in the other process */

static void copy_out(pid_t peer, void *from, size_t size)
{
	struct iovec source = { from, size }, destination = { remote, size };

	if (process_vm_writev(peer, &source, 1, &destination, 1, 0) != (ssize_t)size)
		bench_die(errno, "process_vm_writev");
}

static void wait_for(const volatile uint64_t *word, uint64_t value)
{
	while (*word != value)
		vb_cpu_relax();
}

static void trip_out(pid_t peer, uint64_t value)
{
	copy_out(peer, &value, sizeof(value));
}

static void echo(pid_t peer, const volatile uint64_t *inbox)
{
	for (uint64_t trip = 1; trip <= (uint64_t)TRIPS_PER_BATCH * BATCHES; trip++) {
		wait_for(inbox, trip);
		trip_out(peer, trip);
	}
}

static double measure_half_trip_ns(pid_t peer, const volatile uint64_t *inbox)
{
	static double samples[BATCHES];
	uint64_t trip = 0;

	for (int batch = 0; batch < BATCHES; batch++) {
		double start = bench_now_ns();

		for (int i = 0; i < TRIPS_PER_BATCH; i++) {
			trip_out(peer, ++trip);
			wait_for(inbox, trip);
		}
		samples[batch] = (bench_now_ns() - start) / TRIPS_PER_BATCH / 2;
	}
	return bench_median(samples, BATCHES);
}

/* Bytes per nanosecond, which is GB/s. */
static double measure_bandwidth(pid_t peer, size_t size)
{
	double start = bench_now_ns();

	for (size_t done = 0; done < RUN_BYTES; done += size)
		copy_out(peer, local, size);
	return RUN_BYTES / (bench_now_ns() - start);
}

static void allocate(void)
{
	local = aligned_alloc(4096, 2 * SIZE_MAX_BYTES);
	if (!local)
		bench_die(ENOMEM, "buffer");
	memset(local, 0, 2 * SIZE_MAX_BYTES);
}

int main(void)
{
	struct bench_pair pair = bench_fork();
	char *inbox;

	allocate(); /* after the fork: each process has pages of its own */
	inbox = local + SIZE_MAX_BYTES;
	bench_exchange(&pair, &inbox, &remote, sizeof(inbox));
	if (pair.side == BENCH_CHILD) {
		echo(pair.peer, (const volatile uint64_t *)inbox);
		bench_barrier(&pair); /* the target of the bandwidth runs sleeps here */
	} else {
		printf("vmwrite_lat %.4f\n", measure_half_trip_ns(pair.peer, (void *)inbox) / 1e3);
		printf("vmwrite_bw_4k %.3f\n", measure_bandwidth(pair.peer, 4096));
		printf("vmwrite_bw_64k %.3f\n", measure_bandwidth(pair.peer, 65536));
		printf("vmwrite_bw_1m %.3f\n", measure_bandwidth(pair.peer, SIZE_MAX_BYTES));
		bench_barrier(&pair);
	}
	bench_join(&pair);
	return 0;
}

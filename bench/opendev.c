/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_open_device, in a new process each time. The first open claims the process's slot on this
 * host, and a program waits for it when it starts.
 */
#include <errno.h>
#include <stdio.h>

#include "bench.h"
#include "endpoint.h"

enum { OPENS = 21 };

static double open_once_ms(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	double start;

	if (!devices || !devices[0])
		bench_die(0, "no RDMA device");
	start = bench_now_ns();
	if (!ibv_open_device(devices[0]))
		bench_die(errno, "ibv_open_device");
	return (bench_now_ns() - start) / 1e6;
}

static double sample_ms(void)
{
	struct bench_pair pair = bench_fork();
	double mine = 0, theirs;

	if (pair.side == BENCH_CHILD)
		mine = open_once_ms();
	bench_exchange(&pair, &mine, &theirs, sizeof(mine));
	bench_join(&pair);
	return theirs;
}

int main(void)
{
	double samples[OPENS];

	for (int i = 0; i < OPENS; i++)
		samples[i] = sample_ms();
	printf("open_device %.3f\n", bench_median(samples, OPENS));
	return 0;
}

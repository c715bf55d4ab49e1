/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate of the counter that perftest reads. perftest prints latencies with two decimals of a
 * microsecond, which is too coarse here. So the bench takes cycles and converts them.
 */
#include <stdio.h>

#include "base/arch.h"
#include "bench.h"

enum { SPAN_NS = 100000000 };

int main(void)
{
	double start = bench_now_ns(), now;
	uint64_t first = vb_cpu_counter(); /* 0: the bench takes perftest's microseconds */

	do
		now = bench_now_ns();
	while (now - start < SPAN_NS);
	printf("%.3f\n", (vb_cpu_counter() - first) * 1e3 / (now - start));
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate of the counter that perftest reads. perftest prints latencies with two decimals of a
 * microsecond, which is too coarse here. So the bench takes cycles and converts them.
 */
#include <stdio.h>

#include "bench.h"

enum { SPAN_NS = 100000000 };

static uint64_t cycles(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t count;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
#else
	return 0; /* unknown: the bench takes perftest's microseconds */
#endif
}

int main(void)
{
	double start = bench_now_ns(), now;
	uint64_t first = cycles();

	do
		now = bench_now_ns();
	while (now - start < SPAN_NS);
	printf("%.3f\n", (cycles() - first) * 1e3 / (now - start));
	return 0;
}

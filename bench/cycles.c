/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How fast the counter runs that perftest reads: its latencies are printed with two decimals of a
 * microsecond, too coarse here, so the bench asks for cycles and converts them.
 */
#include "bench.h"

#include <stdio.h>

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
	return 0; /* unknown: perftest's microseconds must do */
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

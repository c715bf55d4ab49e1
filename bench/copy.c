/* SPDX-License-Identifier: BSD-2-Clause */
/* memcpy at 64 KB and 1 MB, with one source and one destination, as perftest has. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* An average over the whole run, as in perftest. */
enum { SIZE_MAX_BYTES = 1 << 20, RUN_BYTES = 1 << 30 };

/* Keeps the compiler from dropping a copy whose result is never read. */
static void use(const void *memory)
{
	__asm__ volatile("" : : "r"(memory) : "memory");
}

/* Bytes per nanosecond, which is GB/s. */
static double measure_bandwidth(char *to, const char *from, size_t size)
{
	double start = bench_now_ns();

	for (size_t done = 0; done < RUN_BYTES; done += size) {
		memcpy(to, from, size);
		use(to);
	}
	return RUN_BYTES / (bench_now_ns() - start);
}

int main(void)
{
	char *buffer = aligned_alloc(4096, 2 * SIZE_MAX_BYTES);

	if (!buffer)
		bench_die(ENOMEM, "buffer");
	memset(buffer, 1, 2 * SIZE_MAX_BYTES);
	bench_pin(BENCH_PARENT);
	printf("memcpy_bw_64k %.3f\n", measure_bandwidth(buffer + 65536, buffer, 65536));
	printf("memcpy_bw_1m %.3f\n",
	       measure_bandwidth(buffer + SIZE_MAX_BYTES, buffer, SIZE_MAX_BYTES));
	return 0;
}

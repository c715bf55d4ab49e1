/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_CLOCK_H
#define VB_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define VB_NEVER_NS UINT64_MAX

static inline uint64_t vb_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * The clock of the device, which ibv_query_rt_values_ex and completions report. The clock is free
 * running, ticks once per nanosecond, and is the same for all processes of the host.
 */
static inline uint64_t vb_device_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

enum { VB_DEVICE_CLOCK_KHZ = 1000000 };

#endif

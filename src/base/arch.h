/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All that depends on the CPU: the pause of a spin loop, the prefetch before a write, the fence
 * behind an atomic operation, the order of plain stores, the counter of time. The last branch of
 * each is right for every CPU.
 *
 * The code relies on the memory model of C11 alone. Two facts of x86-64 only save instructions
 * there: an atomic read-modify-write is a full fence, and stores become visible in program order.
 * Neither holds on arm64. There a sequentially consistent exchange is a load with acquire and a
 * store with release: a later load may be answered before the store is visible.
 */
#ifndef VB_BASE_ARCH_H
#define VB_BASE_ARCH_H

#include <stdatomic.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
enum { VB_RMW_IS_FENCE = 1, VB_STORES_IN_ORDER = 1 };
#else
enum { VB_RMW_IS_FENCE = 0, VB_STORES_IN_ORDER = 0 };
#endif

static inline void vb_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

/* Asks for a cache line that another CPU has, before work that can go on until the line comes. */
static inline void vb_prefetch_to_write(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/*
 * A full fence. This thread has executed an atomic read-modify-write since the store that must be
 * visible before the loads that follow. Where that operation is a fence itself, this one costs
 * nothing.
 */
static inline void vb_fence_after_rmw(void)
{
	if (VB_RMW_IS_FENCE)
		atomic_signal_fence(memory_order_seq_cst);
	else
		atomic_thread_fence(memory_order_seq_cst);
}

/* A counter that rises all the time, at a constant rate; 0: this CPU has none that is known. */
static inline uint64_t vb_cpu_counter(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t count;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
#else
	return 0;
#endif
}

#endif

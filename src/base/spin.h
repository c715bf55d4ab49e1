/* SPDX-License-Identifier: BSD-2-Clause */
/* A spin lock for sections of a few dozen instructions that never block. */
#ifndef VB_BASE_SPIN_H
#define VB_BASE_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

struct vb_spin {
	_Atomic unsigned held;
};

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

static inline bool vb_spin_try(struct vb_spin *lock)
{
	return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
	       !atomic_exchange_explicit(&lock->held, 1, memory_order_seq_cst);
}

/* The holder may have lost its CPU: after a while the waiting thread gives its own away. */
static inline void vb_spin_lock(struct vb_spin *lock)
{
	for (unsigned turn = 0; !vb_spin_try(lock); turn++) {
		if (turn < 200)
			vb_cpu_relax();
		else
			sched_yield();
	}
}

static inline void vb_spin_unlock(struct vb_spin *lock)
{
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif

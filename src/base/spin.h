/* SPDX-License-Identifier: BSD-2-Clause */
/* A spin lock for sections of a few dozen instructions that never block. */
#ifndef VB_BASE_SPIN_H
#define VB_BASE_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/arch.h"

struct vb_spin {
	_Atomic unsigned held;
};

/* Acquires. It is no fence between stores before it and loads behind it (vb_fence_after_rmw). */
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

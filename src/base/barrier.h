/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An asymmetric fence between processes: the rare side pays for both. The frequent side stores
 * and then loads without a fence. The rare side calls vb_barrier_others between its own store and
 * load. That call makes every CPU that runs a registered process execute a full fence.
 */
#ifndef VB_BASE_BARRIER_H
#define VB_BASE_BARRIER_H

#include <stdbool.h>

/* Once, at the start. False: the call is missing or refused, the frequent side fences itself. */
bool vb_barrier_register(void);
/* False: no CPU was fenced. The rare side looks again later, or waits. */
bool vb_barrier_others(void);

#endif

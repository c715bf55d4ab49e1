/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this process has counted, by name: those that `rdma statistic` shows for other devices where
 * there is one, and names in their style where there is none.
 */
#ifndef VB_ENGINE_COUNTERS_H
#define VB_ENGINE_COUNTERS_H

#include "nic/nic.h"

typedef void (*vb_counters_each_fn)(void *arg, const char *name, uint64_t value);

/*
 * Shows every counter, in the same order each time; all are there, the wire opened or not. The
 * names live as long as the program. Any thread, with no lock held; none is held around each().
 */
void vb_counters_each(struct vb_nic *nic, vb_counters_each_fn each, void *arg);

#endif

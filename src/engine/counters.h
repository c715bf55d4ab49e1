/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of this process, by name. A name is the one that `rdma statistic` shows for other
 * devices. Counters that other devices lack have names in the same style.
 */
#ifndef VB_ENGINE_COUNTERS_H
#define VB_ENGINE_COUNTERS_H

#include "nic/nic.h"

typedef void (*vb_counters_each_fn)(void *arg, const char *name, uint64_t value);

/*
 * Calls each() for every counter, in the same order each time, whether the wire is open or not. The
 * names live as long as the program. Any thread may call, with no lock held. No lock is held around
 * each().
 */
void vb_counters_each(struct vb_nic *nic, vb_counters_each_fn each, void *arg);

#endif

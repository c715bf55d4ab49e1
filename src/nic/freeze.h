/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Freezing: for a moment no peer copies from or to the memory of this process. The count of
 * revocations is odd meanwhile. A sender that finds it odd waits (VB_VERDICT_BUSY in path/local). A
 * sender that looked before is waited for here, or notices before its copy
 * (vb_hazard_copy_begin).
 */
#ifndef VB_NIC_FREEZE_H
#define VB_NIC_FREEZE_H

#include <stdbool.h>
#include <stdint.h>

struct vb_nic;

/*
 * Afterwards no peer touches [from, to) until vb_thaw, but for views with except_views. False: a
 * peer does not leave that memory soon, and nothing is frozen. One thread at a time.
 */
bool vb_freeze(struct vb_nic *nic, uint64_t from, uint64_t to, bool except_views);
void vb_thaw(struct vb_nic *nic);

#endif

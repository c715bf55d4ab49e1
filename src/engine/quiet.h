/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_QUIET_H
#define VB_ENGINE_QUIET_H

#include "engine/engine.h"

/* By the service thread: explains sends without completions that a program polls for. */
void vb_quiet_look(struct vb_nic *nic, uint64_t now_ns);
/* The time of the next look; VB_NEVER_NS: nothing is explained. */
uint64_t vb_quiet_next_ns(uint64_t now_ns);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane whose packets no program polls for, as those of WRITEs and READs into a process that
 * sleeps, would have to share the one service thread with all others. So a further lane with much
 * traffic of that kind gets a thread of its own, which sleeps as the service thread does. The
 * thread ends when the lane is closed.
 */
#ifndef VB_ENGINE_WIRE_LANE_THREAD_H
#define VB_ENGINE_WIRE_LANE_THREAD_H

#include "engine/wire/wire.h"

/* By the service thread. Without memory, descriptors or threads the lane stays with it. */
void vb_lane_thread_start(struct vb_lane *lane);
/* By the service thread, under the lock of the lane: returns when the thread is at its end. */
void vb_lane_thread_stop(struct vb_lane *lane);
/* Wakes the thread that serves the lane if it sleeps past the lane's next timer. Under its lock. */
void vb_lane_wake(struct vb_lane *lane);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A DISCONNECTED that the peer caused waits a moment before the application can see it. The last
 * messages of the connection lie in the receive queue by then, and here the DREQ comes behind them
 * within microseconds, where it takes a real host much longer. Programs that close a connection
 * when they see the event, and poll what it brought before that, would lose them.
 */
#ifndef VB_RDMACM_HOLD_H
#define VB_RDMACM_HOLD_H

#include "rdmacm/cma.h"

#define VB_CMA_HOLD_NS 2000000u

/* All under the lock. */
void vb_cma_hold(struct vb_cma_event *event, uint64_t now_ns);
/* What is due is queued. */
void vb_cma_hold_tick(uint64_t now_ns);
/* VB_NEVER_NS: nothing is held. */
uint64_t vb_cma_hold_next_ns(void);
/* The event of an id is queued at once: somebody waits for it. */
void vb_cma_hold_release(struct vb_cma_id *id);
void vb_cma_hold_drop(struct vb_cma_id *id);
void vb_cma_hold_forget(void);

#endif

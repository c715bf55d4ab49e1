/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A DISCONNECTED that the peer caused waits a moment before the application can fetch it. The last
 * messages of the connection are in the receive queue by then. The DREQ follows them within
 * microseconds here, and much later on a real host. Some programs poll what an event brought and
 * then close the connection at DISCONNECTED: they would lose the last messages. All under the lock.
 */
#ifndef VB_RDMACM_DISCONNECT_DELAY_H
#define VB_RDMACM_DISCONNECT_DELAY_H

#include "rdmacm/cma.h"

void vb_cma_disconnect_delay(struct vb_cma_event *event, uint64_t now_ns);
/* Queues the events that are due. */
void vb_cma_disconnect_delay_tick(uint64_t now_ns);
/* VB_NEVER_NS: no event waits. */
uint64_t vb_cma_disconnect_delay_next_ns(void);
/* Queues the event of an id at once, because a thread waits for it. */
void vb_cma_disconnect_delay_end(struct vb_cma_id *id);
/* Frees the event of an id. */
void vb_cma_disconnect_delay_drop(struct vb_cma_id *id);
/* In the child of a fork. */
void vb_cma_disconnect_delay_forget(void);

#endif

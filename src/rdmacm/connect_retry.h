/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request that found no listener is sent again for a moment before the application hears of it.
 * Programs close a listener and open it anew between two connections of one client, and count on a
 * client that is slower than that: on a real host resolving and connecting take it milliseconds.
 * All under the lock.
 */
#ifndef VB_RDMACM_AGAIN_H
#define VB_RDMACM_AGAIN_H

#include "rdmacm/cma.h"

#define VB_CMA_AGAIN_NS    4000000u  /* between two tries */
#define VB_CMA_PATIENCE_NS 60000000u /* since the first one */

/* False: it was tried long enough. */
bool vb_cma_again(struct vb_cma_id *id, uint64_t now_ns);
/* However long it was tried. */
void vb_cma_again_soon(struct vb_cma_id *id, uint64_t now_ns);
void vb_cma_again_tick(uint64_t now_ns);
/* VB_NEVER_NS: none waits. */
uint64_t vb_cma_again_next_ns(void);
void vb_cma_again_drop(struct vb_cma_id *id);
/* The application wants no more tries: it hears how the last one ended. */
void vb_cma_again_end(struct vb_cma_id *id);
void vb_cma_again_forget(void);

#endif

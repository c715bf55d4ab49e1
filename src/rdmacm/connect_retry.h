/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request that finds no listener is sent again for a moment before the application hears of it.
 * Some programs close a listener and open it anew between two connections of one client. They count
 * on a slower client: on a real host resolving and connecting take milliseconds. Under the lock.
 */
#ifndef VB_RDMACM_CONNECT_RETRY_H
#define VB_RDMACM_CONNECT_RETRY_H

#include "rdmacm/cma.h"

/* Plans another try. False: the tries have lasted long enough. */
bool vb_cma_connect_retry(struct vb_cma_id *id, uint64_t now_ns);
/* Plans another try, however long the tries have lasted. */
void vb_cma_connect_retry_soon(struct vb_cma_id *id, uint64_t now_ns);
void vb_cma_connect_retry_tick(uint64_t now_ns);
/* VB_NEVER_NS: no identifier waits. */
uint64_t vb_cma_connect_retry_next_ns(void);
void vb_cma_connect_retry_drop(struct vb_cma_id *id);
/* The application wants no more tries, and hears how the last one ended. */
void vb_cma_connect_retry_end(struct vb_cma_id *id);
/* In the child of a fork. */
void vb_cma_connect_retry_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_resolve_addr ends when the kernel knows the link address of the next hop, as on Linux. While
 * the kernel asks for it the service thread looks now and then. No thread blocks.
 */
#ifndef VB_RDMACM_NEIGHBOUR_H
#define VB_RDMACM_NEIGHBOUR_H

#include "rdmacm/cma.h"

/* Is the neighbour on the way to id->dgid known? A yes holds for a second. Without the lock. */
bool vb_cma_neighbour_is_known(const struct vb_cma_id *id);

/*
 * All under the lock. The wait ends with vb_cma_resolved(id, 0), or -ETIMEDOUT. A negative timeout
 * means no limit.
 */
void vb_cma_neighbour_wait(struct vb_cma_id *id, int timeout_ms, uint64_t now_ns);
void vb_cma_neighbour_drop(struct vb_cma_id *id);
void vb_cma_neighbour_tick(uint64_t now_ns);
uint64_t vb_cma_neighbour_next_ns(void);
void vb_cma_neighbour_forget(void);

/* resolve.c: err 0 resolves the address; an error leaves the identifier as it was before. */
void vb_cma_resolved(struct vb_cma_id *id, int err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_resolve_addr is done when somebody on the link has the address of the next hop, as with
 * Linux. While the kernel asks for it the service thread looks now and then; nobody blocks.
 */
#ifndef VB_RDMACM_NEIGHBOUR_H
#define VB_RDMACM_NEIGHBOUR_H

#include "rdmacm/cma.h"

/* Without the lock: is it known who has id->dgid? An answer holds for a second. */
bool vb_cma_neighbour_is_known(const struct vb_cma_id *id);

/* All under the lock. Waits for it: vb_cma_resolved(id, 0), or -ETIMEDOUT; negative: no limit. */
void vb_cma_neighbour_wait(struct vb_cma_id *id, int timeout_ms, uint64_t now_ns);
void vb_cma_neighbour_drop(struct vb_cma_id *id);
void vb_cma_neighbour_tick(uint64_t now_ns);
uint64_t vb_cma_neighbour_next_ns(void);
void vb_cma_neighbour_forget(void);

/* resolve.c: the address is resolved, or it is not and the identifier as before. */
void vb_cma_resolved(struct vb_cma_id *id, int err);

#endif

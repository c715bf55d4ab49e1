/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The death of peers on this host. On other systems the kernel says goodbye for a process that was
 * killed; here its peers notice: each process has a listening unix socket, the peers of its
 * connections hold a line to it, and the line breaks with the process. All under the lock.
 */
#ifndef VB_RDMACM_LIFE_H
#define VB_RDMACM_LIFE_H

#include "rdmacm/cma.h"

/* Without it connections work, but the death of a peer shows only when somebody sends. */
void vb_cma_life_start(uint32_t slot);
/* A peer has a connection, or a request that it takes time for: its life is followed, on other
 * hosts by probe.h. */
void vb_cma_life_follow(const struct vb_cm_endpoint *endpoint);
void vb_cma_life_tick(uint64_t now_ns);
uint64_t vb_cma_life_next_ns(void);
/* In the child of a fork. */
void vb_cma_life_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The death of peers on this host. On other systems the kernel sends the DREQ of a killed process.
 * Here each process has a listening unix socket. The peers of its connections hold a line to this
 * socket, and the line breaks when the process ends. All under the lock.
 */
#ifndef VB_RDMACM_PEER_WATCH_H
#define VB_RDMACM_PEER_WATCH_H

#include "rdmacm/cma.h"

/* Without the socket connections work, but only the next message shows that a peer is dead. */
void vb_cma_peer_watch_start(uint32_t slot);
/* Watches a peer that has a connection or thinks about a request; on other hosts with probe.h. */
void vb_cma_peer_watch_follow(const struct vb_cm_endpoint *endpoint);
void vb_cma_peer_watch_tick(uint64_t now_ns);
uint64_t vb_cma_peer_watch_next_ns(void);
/* In the child of a fork. */
void vb_cma_peer_watch_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The death of peers on other hosts. Every few seconds a probe (cm/probe.c) asks each remote
 * process whether one of its connections still exists. If the process is gone, another process of
 * its host answers. If no process is left there, the host reports by ICMP that the port is closed.
 * Several such reports end the connections, if no packet of that host comes meanwhile. The silence
 * of a host proves nothing. All under the lock.
 */
#ifndef VB_RDMACM_PROBE_H
#define VB_RDMACM_PROBE_H

#include "rdmacm/cma.h"

/* A connection with another host is established, or requested. */
void vb_cma_probe_begin(uint64_t now_ns);
/* A peer has lost its connection: the next round asks about every connection. */
void vb_cma_probe_suspect(uint64_t now_ns);
/* A message came from this host: one of its processes has the port. */
void vb_cma_probe_heard(const struct vb_cm_route *route);
/* By ICMP no process of the host has the port. */
bool vb_cma_probe_refused(const union ibv_gid *gid);
void vb_cma_probe_tick(uint64_t now_ns);
uint64_t vb_cma_probe_next_ns(void);
/* In the child of a fork. */
void vb_cma_probe_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The death of peers on other hosts. Every few seconds one connection with each process over there
 * is asked whether it still exists (cm/probe.c). If the process is gone, another process of that
 * host answers; if there is none left, the host says that nobody has the port. That ends connections
 * only if it is said several times and nothing else comes from there meanwhile. Of a host that says
 * nothing at all nothing is concluded. All under the lock.
 */
#ifndef VB_RDMACM_PROBE_H
#define VB_RDMACM_PROBE_H

#include "rdmacm/cma.h"

/* A connection with another host has come about, or is asked for. */
void vb_cma_probe_begin(uint64_t now_ns);
/* A peer turned out to be without its connection: all others are asked, too. */
void vb_cma_probe_suspect(uint64_t now_ns);
/* A message came from there: a process of that host has the port. */
void vb_cma_probe_heard(const struct vb_cm_route *route);
void vb_cma_probe_tick(uint64_t now_ns);
uint64_t vb_cma_probe_next_ns(void);
/* In the child of a fork. */
void vb_cma_probe_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports: an identifier that is bound has one, by a claim that all processes of this host see. */
#ifndef VB_RDMACM_BIND_H
#define VB_RDMACM_BIND_H

#include "rdmacm/cma.h"

/* To an address, or to a wildcard; port 0 is chosen. The id is IDLE, then ADDR_BOUND. */
int vb_cma_bind(struct vb_cma_id *id, const struct sockaddr *addr, const char *call);
/* The port is claimed for what the options say by now; on an error it stays as it was. Under the
 * lock. */
int vb_cma_claim_again(struct vb_cma_id *id);
/* A claim that others may share becomes one that requests arrive at. Under the lock. */
int vb_cma_claim_exclusive(struct vb_cma_id *id);
/*
 * Requests for the port are read from now on: by one that listens, and to be refused by one that
 * never will. Until then they wait: there are servers that tell their port before they listen.
 * Under the lock.
 */
int vb_cma_claim_open(struct vb_cma_id *id);
/* Frees the port. Under the lock. */
void vb_cma_unbind(struct vb_cma_id *id);

/* The device that an address of this host belongs to. */
int vb_cma_route_own(const struct sockaddr *addr, struct vb_engine_route *route);

/* Which port space it is; RDMA_PS_IB has that of its service id. */
uint16_t vb_cma_port_space(const struct vb_cma_id *id);
enum vb_cm_family vb_cma_family(const struct vb_cma_id *id);

#endif

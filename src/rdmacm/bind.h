/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports. A bound identifier has a port: a claim that all processes of this host see. */
#ifndef VB_RDMACM_BIND_H
#define VB_RDMACM_BIND_H

#include "rdmacm/cma.h"

/*
 * Binds an IDLE id to an address or a wildcard, and makes it ADDR_BOUND. For port 0 the library
 * chooses a port.
 */
int vb_cma_bind(struct vb_cma_id *id, const struct sockaddr *addr, const char *call);
/* Claims the port anew, with the options of now. An error keeps the old claim. Under the lock. */
int vb_cma_claim_renew(struct vb_cma_id *id);
/* A shared claim becomes an exclusive one, which requests arrive at. Under the lock. */
int vb_cma_claim_exclusive(struct vb_cma_id *id);
/*
 * The library reads the requests for the port from now on. A listener answers them; an identifier
 * that can no longer listen refuses them. Requests wait until then, because some servers tell their
 * port to clients before they listen. Under the lock.
 */
int vb_cma_claim_open(struct vb_cma_id *id);
/* Frees the port. Under the lock. */
void vb_cma_unbind(struct vb_cma_id *id);

/* The device that an address of this host belongs to. */
int vb_cma_route_own(const struct sockaddr *addr, struct vb_engine_route *route);

/* The port space; for RDMA_PS_IB the one that the service id names. */
uint16_t vb_cma_port_space(const struct vb_cma_id *id);
enum vb_cm_family vb_cma_family(const struct vb_cma_id *id);

#endif

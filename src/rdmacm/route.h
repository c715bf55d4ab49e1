/* SPDX-License-Identifier: BSD-2-Clause */
/* From addresses to paths: what a QP and an address handle need to know. */
#ifndef VB_RDMACM_ROUTE_H
#define VB_RDMACM_ROUTE_H

#include <stddef.h>

#include "rdmacm/cma.h"

enum {
	VB_CMA_PATHS = 2, /* the primary one, and one in reserve */
	VB_CMA_HOP_LIMIT = 64,
	VB_CMA_LIFETIME =
		18, /* packet lifetime that Linux assumes for RoCE; an ACK takes twice it */
};

/* Makes id.route.path_rec; of a passive id, with what its request says. */
int vb_cma_path_make(struct vb_cma_id *id);
/* The path that the peer asks for in a LAP becomes the one in reserve. */
void vb_cma_path_alternate(struct vb_cma_id *id);
/* RDMA_OPTION_IB_PATH: the application has the path. */
int vb_cma_route_set(struct vb_cma_id *id, const void *data, size_t size);
/* A path between InfiniBand ports as RDMA_OPTION_IB_PATH takes it. */
int vb_cma_path_data(struct ibv_device *device, const struct vb_ib_path *ib,
		     struct ibv_path_data *data);
/* Where packets of the connection go, for a QP in RTR or an address handle. */
int vb_cma_ah_attr(struct vb_cma_id *id, struct ibv_ah_attr *attr);
/* The same along a path between InfiniBand ports. */
void vb_cma_ah_attr_of(const struct ibv_sa_path_rec *path, struct ibv_ah_attr *attr);
/* The path in reserve of a connection; NULL: none. */
const struct ibv_sa_path_rec *vb_cma_alternate(const struct vb_cma_id *id);
/* Where the P_Key of its path is in the port's table; -EINVAL: nowhere (any more). */
int vb_cma_pkey_index(const struct vb_cma_id *id);
/* The index of the GID that the port sends with. */
int vb_cma_sgid_index(struct vb_cma_id *id);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* From addresses to paths, for QPs and address handles. */
#ifndef VB_RDMACM_ROUTE_H
#define VB_RDMACM_ROUTE_H

#include <stddef.h>

#include "rdmacm/cma.h"

enum {
	VB_CMA_PATHS = 2, /* the primary and the alternate one */
	VB_CMA_HOP_LIMIT = 64,
	/* Linux assumes this packet lifetime for RoCE; the timeout of an ACK is twice as long. */
	VB_CMA_LIFETIME = 18,
};

/* Makes id.route.path_rec; that of a passive id follows its request. */
int vb_cma_path_make(struct vb_cma_id *id);
/* The path that the peer asks for in a LAP becomes the alternate one. */
void vb_cma_path_take_alternate(struct vb_cma_id *id);
/* RDMA_OPTION_IB_PATH: the application gives the path. */
int vb_cma_route_set(struct vb_cma_id *id, const void *data, size_t size);
/* A path between InfiniBand ports in the form of RDMA_OPTION_IB_PATH. */
int vb_cma_path_data(struct ibv_device *device, const struct vb_ib_path *ib,
		     struct ibv_path_data *data);
/* Where packets of the connection go, for a QP in RTR or an address handle. */
int vb_cma_ah_attr(struct vb_cma_id *id, struct ibv_ah_attr *attr);
/* The same along a path between InfiniBand ports. */
void vb_cma_ah_attr_of(const struct ibv_sa_path_rec *path, struct ibv_ah_attr *attr);
/* The alternate path of a connection; NULL: none. */
const struct ibv_sa_path_rec *vb_cma_alternate_path(const struct vb_cma_id *id);
/* The index of the path's P_Key in the table of the port; -EINVAL: the table does not have it. */
int vb_cma_pkey_index(const struct vb_cma_id *id);
/* The index of the GID that the port sends with. */
int vb_cma_sgid_index(struct vb_cma_id *id);

#endif

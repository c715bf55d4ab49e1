/* SPDX-License-Identifier: BSD-2-Clause */
/* The arguments of rdma_connect and rdma_accept. */
#ifndef VB_RDMACM_PARAM_H
#define VB_RDMACM_PARAM_H

#include "rdmacm/cma.h"

/* Puts private data behind the data of rdma_create_ep. -EINVAL, explained: more than limit. */
int vb_cma_data_gather(struct vb_cma_id *id, const void *data, size_t length, size_t limit,
		       const char *call, struct vb_cma_data *out);
/* -EINVAL, explained: a depth is above the limit of the device, or no QP is named. */
int vb_cma_param_check(struct vb_cma_id *id, const struct rdma_conn_param *param, const char *call);
/* Notes the number of the QP: that of the identifier's QP, or the one in param. */
void vb_cma_param_qp(struct vb_cma_id *id, const struct rdma_conn_param *param);

#endif

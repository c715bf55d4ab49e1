/* SPDX-License-Identifier: BSD-2-Clause */
/* What an application asks for when it connects or accepts. */
#ifndef VB_RDMACM_PARAM_H
#define VB_RDMACM_PARAM_H

#include "rdmacm/cma.h"

/* -EINVAL with a sentence: longer than limit. */
int vb_cma_data_gather(struct vb_cma_id *id, const void *data, size_t length, size_t limit,
		       const char *call, struct vb_cma_data *out);
/* Limits of the device; a QP is there, or conn_param names one. */
int vb_cma_param_check(struct vb_cma_id *id, const struct rdma_conn_param *param, const char *call);
/* Which QP it will be. */
void vb_cma_param_qp(struct vb_cma_id *id, const struct rdma_conn_param *param);

#endif

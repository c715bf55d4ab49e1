/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues, and the channels for them, that the library makes where nobody gave any. */
#ifndef VB_RDMACM_QUEUES_H
#define VB_RDMACM_QUEUES_H

#include <rdma/rdma_cma.h>

/* 0 entries: no such queue. */
int vb_cma_queues_make(struct rdma_cm_id *id, uint32_t send_entries, uint32_t recv_entries);
void vb_cma_queues_destroy(struct rdma_cm_id *id);

#endif

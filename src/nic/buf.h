/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers that the library allocates for the application: ordinary memory, in whole pages. A NIC
 * pins the pages of its regions; here the pages stay until the last region in them is gone.
 */
#ifndef VB_NIC_BUF_H
#define VB_NIC_BUF_H

#include "abi/verbs.h"
#include "nic/pd.h"

struct ibv_buf {
	struct vb_pd *pd; /* counted among its users, until the application frees the buffer */
	struct vb_nic *nic;
	uint8_t *bytes;
	size_t length;            /* as the application asked for it */
	size_t mapping_length;    /* whole pages */
	_Atomic uint32_t holders; /* count of regions, and the application */
};

/* -EINVAL: no bytes; -ENOMEM. */
int vb_buf_alloc(struct vb_pd *pd, size_t length, struct ibv_buf **out);
void vb_buf_hold(struct ibv_buf *buf);
/* A region, or the application, lets go; the last one unmaps the memory. */
void vb_buf_release(struct ibv_buf *buf);
/* Does the range lie in the buffer? */
bool vb_buf_has(const struct ibv_buf *buf, const void *at, size_t length);

#endif

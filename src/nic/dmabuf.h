/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions in buffers that other drivers own, where the CPU can reach them. */
#ifndef VB_NIC_DMABUF_H
#define VB_NIC_DMABUF_H

#include "nic/mr.h"

/* Are there dma-bufs that the CPU can reach? No /dev/udmabuf: no. */
bool vb_dmabuf_any(void);
/*
 * Registers a part of a dma-buf. -EBADF; -EINVAL: another kind of file, a range outside of it,
 * rights that do not exist for it, or an iova with another offset in its page.
 */
int vb_dmabuf_register(struct vb_pd *pd, int fd, uint64_t offset, const struct vb_mr_spec *spec,
		       struct vb_mr **out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions in dma-bufs: buffers of other drivers that the CPU can reach. */
#ifndef VB_NIC_DMABUF_H
#define VB_NIC_DMABUF_H

#include "nic/mr.h"

/* Can this host make dma-bufs that the CPU can reach? Not without /dev/udmabuf. */
bool vb_dmabuf_any(void);
/* A dma-buf of whole pages of a memfd. -EOPNOTSUPP: this host cannot make one; -errno. */
int vb_dmabuf_make(int memfd, uint64_t offset, uint64_t length);
/*
 * Registers a part of a dma-buf. -EBADF; -EINVAL: another kind of file, a range outside of the
 * buffer, rights that dma-bufs do not have, or an iova with another offset in its page.
 */
int vb_dmabuf_register(struct vb_pd *pd, int fd, uint64_t offset, const struct vb_mr_spec *spec,
		       struct vb_mr **out);

#endif

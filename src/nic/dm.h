/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a part of the file behind cmd_fd. Every process that opened or imported the device
 * maps it, forked children included. To every path its regions are ordinary memory.
 */
#ifndef VB_NIC_DM_H
#define VB_NIC_DM_H

#include "nic/import.h"
#include "nic/pd.h"

struct vb_dm {
	struct ibv_dm ibv; /* first; its handle is the index in the file's table */
	const struct vb_nic *nic;
	struct vb_export *export; /* referenced */
	uint64_t serial;          /* of the buffer; differs from the file's: the buffer was freed */
	uint64_t length;
	uint8_t *bytes;
};

static inline struct vb_dm *vb_dm(struct ibv_dm *ibv)
{
	return vb_container(ibv, struct vb_dm, ibv);
}

/* -EINVAL: length, alignment or mask; -ENOMEM: no room left. */
int vb_dm_alloc(struct ibv_context *ctx, const struct ibv_alloc_dm_attr *attr, struct vb_dm **out);
/* -EBUSY: a region is registered in the buffer; -EINVAL: another object freed the buffer. */
int vb_dm_free(struct vb_dm *dm);
/* Another object for an existing buffer; -ENOENT: no such buffer. */
int vb_dm_import(struct ibv_context *ctx, uint32_t handle, struct vb_dm **out);
void vb_dm_unimport(struct vb_dm *dm);

/*
 * length bytes from offset on, both multiples of 4; NULL: outside of the buffer, or it was freed.
 */
uint8_t *vb_dm_range(const struct vb_dm *dm, uint64_t offset, uint64_t length);

/* A new dma-buf of the buffer's pages: its descriptor, or -errno (dmabuf.h). */
int vb_dm_make_dmabuf(const struct vb_dm *dm);

/* Changes the count of this process's regions in the buffer. */
void vb_dm_use(struct vb_export *export, uint32_t handle, int by);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a part of the file behind cmd_fd. It is mapped by whoever has the device or has
 * imported it, forked children included, and regions in it are ordinary memory to every path.
 */
#ifndef VB_NIC_DM_H
#define VB_NIC_DM_H

#include "nic/import.h"
#include "nic/pd.h"

struct vb_dm {
	struct ibv_dm ibv; /* first; its handle is the place in the file's table */
	const struct vb_nic *nic;
	struct vb_export *export; /* referenced */
	uint64_t serial;          /* of the buffer that this object means */
	uint64_t length;
	uint8_t *bytes;
};

static inline struct vb_dm *vb_dm(struct ibv_dm *ibv)
{
	return vb_container(ibv, struct vb_dm, ibv);
}

/* -EINVAL: length, alignment or mask; -ENOMEM: no room left. */
int vb_dm_alloc(struct ibv_context *ctx, const struct ibv_alloc_dm_attr *attr, struct vb_dm **out);
/* -EBUSY while a region is registered in it, -EINVAL if it was freed through another object. */
int vb_dm_free(struct vb_dm *dm);
/* Another object for a buffer; -ENOENT. */
int vb_dm_import(struct ibv_context *ctx, uint32_t handle, struct vb_dm **out);
void vb_dm_unimport(struct vb_dm *dm);

/* length bytes from offset on, in multiples of 4; NULL: not inside the buffer, or it was freed. */
uint8_t *vb_dm_range(const struct vb_dm *dm, uint64_t offset, uint64_t length);

/* Regions of this process in the buffer. */
void vb_dm_use(struct vb_export *export, uint32_t handle, int by);

#endif

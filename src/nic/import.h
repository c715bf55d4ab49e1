/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an opened device lets other processes have: the file behind cmd_fd, sealed and shared. Who
 * gets a duplicate of the descriptor (dup, fork, SCM_RIGHTS) maps the same pages. There are records
 * of PDs and MRs, found by their handles, and device memory itself; so an importer needs neither
 * the owner's help nor, for device memory, its life.
 *
 * Holders of the descriptor trust each other with what these pages say, as they do with a device file.
 * No more: every number is checked before it is used. Whoever dies may leave records behind, and the
 * lock, which the next one takes over.
 */
#ifndef VB_NIC_IMPORT_H
#define VB_NIC_IMPORT_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "nic/layout.h"

struct vb_device;
struct vb_mr;
struct vb_pd;

enum {
	VB_EXPORT_PDS = 4096,
	VB_EXPORT_MRS = 65536,
	VB_HANDLE_NONE = 1 << 30, /* from here on: objects that found no room cannot be imported */
};

struct vb_export_pd {
	_Atomic uint32_t pid; /* of its owner; 0: free */
	uint32_t id;          /* how its owner's NIC names it */
};

struct vb_export_mr {
	_Atomic uint32_t pid; /* as above */
	uint32_t pd;          /* handle */
	uint32_t lkey, rkey;
	uint32_t access;
	uint32_t dm;   /* 1 + handle of the device memory that it lies in, or 0 */
	uint64_t addr; /* in the owner's address space; of device memory the offset */
	uint64_t iova, length;
	uint8_t pad0[16];
};
static_assert(sizeof(struct vb_export_mr) == VB_LINE, "");

struct vb_export_dm {            /* under lock */
	uint64_t serial;         /* never the same twice; 0: free */
	uint64_t offset, length; /* in the memory part of the file */
};

#define VB_EXPORT_MAGIC 0x74726f7078652d62ull /* "b-export" */

struct vb_export_head {
	uint64_t magic;
	uint32_t version;
	uint32_t infiniband; /* which device this is */
	uint64_t guid;
	uint64_t id; /* of this file: random */
	_Atomic uint32_t
		lock; /* a number of its holder; 0: free. Records are given out and taken back
				* under it */
	uint32_t mr_hint, pd_hint; /* where to look for a free one */
	uint32_t mr_count;
	uint64_t dm_serial; /* the last one */
	struct vb_export_dm dms[VB_DM_MAX];
	struct vb_export_pd pds[VB_EXPORT_PDS];
};

/* What this process has of a file, by handle. */
struct vb_export_objects {
	struct vb_pd *pds[VB_EXPORT_PDS];
	struct vb_mr *mrs[VB_EXPORT_MRS];
};

/* The mapping of this process; contexts that import from the same file share it. */
struct vb_export {
	struct vb_list node;
	uint32_t refs;
	struct vb_export_head *head;
	uint32_t lock_number; /* of ours, while this process has the lock of the file */
	struct vb_export_mr *records;
	uint8_t *memory;                   /* VB_DM_BYTES_MAX of it */
	uint32_t dm_users[VB_DM_MAX];      /* regions of this process in it, under vb_export_lock */
	struct vb_export_objects *objects; /* likewise; NULL: there was none yet */
};

/* A new file for a device; -errno: then nothing of the context can be shared. */
int vb_export_create(const struct vb_device *dev, struct vb_export **out, int *fd);
/* The file behind a descriptor; -EBADF, -EINVAL (another kind of file), -ENODEV. */
int vb_export_open(int fd, struct vb_export **out, struct vb_device **dev);
struct vb_export *vb_export_get(struct vb_export *export); /* NULL stays NULL */
void vb_export_put(struct vb_export *export);

/* Within the process: objects, dm_users. Before the lock in the file. */
void vb_export_lock(void);
void vb_export_unlock(void);
/* A table for the first object; false: no memory. Under vb_export_lock. */
bool vb_export_keep_objects(struct vb_export *export);
/* The region of this process that has a handle, or NULL. Under vb_export_lock. */
static inline struct vb_mr *vb_export_mr_at(const struct vb_export *export, uint32_t handle)
{
	return export->objects ? export->objects->mrs[handle] : NULL;
}
/* In the file, between processes. */
void vb_export_lock_file(struct vb_export *export);
void vb_export_unlock_file(struct vb_export *export);

/* Records; handles from VB_HANDLE_NONE on where there is no room, or no file. */
uint32_t vb_export_pd_add(struct vb_export *export, struct vb_pd *pd);
void vb_export_pd_remove(struct vb_export *export, uint32_t handle);
uint32_t vb_export_mr_add(struct vb_export *export, struct vb_mr *mr);
/* What it says at this moment, as a whole; pid 0: nothing. */
struct vb_export_mr vb_export_mr_record(struct vb_export *export, uint32_t handle);
/* After a change of the region. */
void vb_export_mr_update(struct vb_export *export, const struct vb_mr *mr);
void vb_export_mr_remove(struct vb_export *export, uint32_t handle);
/* The object goes, whoever's record it has: a child's copy, for one. */
void vb_export_mr_forget(struct vb_export *export, const struct vb_mr *mr);
/* Is it inside of the memory part? */
static inline bool vb_export_has(uint64_t offset, uint64_t length)
{
	return offset <= VB_DM_BYTES_MAX && length <= VB_DM_BYTES_MAX - offset;
}

/* --- objects that stand for others (import_object.c) --- */

/* A PD by the handle that its owner has; -ENOENT. */
int vb_pd_import(struct ibv_context *ctx, uint32_t handle, struct vb_pd **out);
void vb_pd_unimport(struct vb_pd *pd);
/* The same when its last object is gone. */
void vb_pd_unimport_unused(struct vb_pd *pd);
/* Objects of a PD, and of those imported from it. */
uint32_t vb_pd_users(struct vb_pd *pd);
/* It is deallocated: those imported from it stand for nothing any more. */
void vb_pd_end(struct vb_pd *pd);
/* Only the object goes. */
void vb_pd_forget(struct vb_pd *pd);
/*
 * A region by its handle: -ENOENT, -EINVAL (of another PD), -EOPNOTSUPP (another process's memory
 * that this one does not share).
 */
int vb_mr_import(struct vb_pd *pd, uint32_t handle, struct vb_mr **out);
void vb_mr_unimport(struct vb_mr *mr);
/* It goes when it is unimported; else it was registered here. */
bool vb_mr_is_imported(const struct vb_mr *mr);
/* Deregisters what an imported region stands for; the other object can only be unimported then. */
int vb_mr_deregister_imported(struct vb_mr *mr);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The export file of an opened device: the file behind cmd_fd, sealed and shared. A process that
 * gets a duplicate of the descriptor (dup, fork, SCM_RIGHTS) maps the same pages. The file has
 * records of PDs and MRs, found by their handles, and device memory itself. So an importer does not
 * need the owner's help; device memory even survives the owner.
 *
 * Holders of the descriptor trust the contents of these pages, as they trust a device file. The
 * trust ends there: every number is checked before use. A process that dies may leave records
 * behind, and the lock, which the next process takes over.
 */
#ifndef VB_NIC_IMPORT_H
#define VB_NIC_IMPORT_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "shm/layout.h"

struct vb_device;
struct vb_mr;
struct vb_pd;

enum {
	VB_EXPORT_PDS = 4096,
	VB_EXPORT_MRS = 65536,
	VB_HANDLE_NONE = 1 << 30, /* handles from here on have no record: they cannot be imported */
};

struct vb_export_pd {
	_Atomic uint32_t pid; /* of the owner; 0: free */
	uint32_t id;          /* number of the PD in the owner's NIC */
};

struct vb_export_mr {
	_Atomic uint32_t pid; /* of the owner; 0: free */
	uint32_t pd;          /* handle of the PD */
	uint32_t lkey, rkey;
	uint32_t access;
	uint32_t dm;   /* 1 + handle of the device memory that the region lies in, or 0 */
	uint64_t addr; /* in the owner's address space; in device memory: the offset */
	uint64_t iova, length;
	uint8_t pad0[16];
};
static_assert(sizeof(struct vb_export_mr) == VB_LINE, "");

struct vb_export_dm {            /* under vb_export_head.lock */
	uint64_t serial;         /* never the same twice; 0: free */
	uint64_t offset, length; /* in the memory part of the file */
};

#define VB_EXPORT_MAGIC 0x74726f7078652d62ull /* "b-export" */

struct vb_export_head {
	uint64_t magic;
	uint32_t version;
	uint32_t infiniband; /* link layer of the device */
	uint64_t guid;       /* of the device */
	uint64_t id;         /* of this file: random */
	/* A random number of the holder; 0: free. All that follows changes under this lock. */
	_Atomic uint32_t lock;
	uint32_t mr_hint, pd_hint; /* where the search for a free record begins */
	uint32_t mr_count;
	uint64_t dm_serial; /* the last serial that was given out */
	struct vb_export_dm dms[VB_DM_MAX];
	struct vb_export_pd pds[VB_EXPORT_PDS];
};

/* The objects of this process in a file, by handle. */
struct vb_export_objects {
	struct vb_pd *pds[VB_EXPORT_PDS];
	struct vb_mr *mrs[VB_EXPORT_MRS];
};

/* This process's mapping of an export file. Contexts that import from the same file share it. */
struct vb_export {
	struct vb_list node;
	uint32_t refs;
	struct vb_export_head *head;
	uint32_t lock_number; /* value of head->lock while this process holds it */
	struct vb_export_mr *records;
	uint8_t *memory; /* device memory, VB_DM_BYTES_MAX */
	/* Under vb_export_lock: */
	uint32_t dm_users[VB_DM_MAX];      /* count of this process's regions in each buffer */
	struct vb_export_objects *objects; /* NULL: there was no object yet */
};

/* Makes a file for a device; -errno: other processes cannot import objects of the context. */
int vb_export_create(const struct vb_device *dev, struct vb_export **out, int *fd);
/* True: the descriptor is that of such a file, of any process. */
bool vb_export_is_file(int fd);
/* Maps the file behind a descriptor; -EBADF; -EINVAL: another kind of file; -ENODEV. */
int vb_export_open(int fd, struct vb_export **out, struct vb_device **dev);
struct vb_export *vb_export_get(struct vb_export *export); /* NULL stays NULL */
void vb_export_put(struct vb_export *export);

/* The lock within the process: objects, dm_users. Comes before the lock in the file. */
void vb_export_lock(void);
void vb_export_unlock(void);
/* Makes the table for the first object; false: no memory. Under vb_export_lock. */
bool vb_export_keep_objects(struct vb_export *export);
/* The region of this process that has a handle, or NULL. Under vb_export_lock. */
static inline struct vb_mr *vb_export_mr_at(const struct vb_export *export, uint32_t handle)
{
	return export->objects ? export->objects->mrs[handle] : NULL;
}
/* The lock in the file, between processes. */
void vb_export_lock_file(struct vb_export *export);
void vb_export_unlock_file(struct vb_export *export);

/* Records. Without room, or without a file, the handle is VB_HANDLE_NONE or more. */
uint32_t vb_export_pd_add(struct vb_export *export, struct vb_pd *pd);
void vb_export_pd_remove(struct vb_export *export, uint32_t handle);
uint32_t vb_export_mr_add(struct vb_export *export, struct vb_mr *mr);
/* A consistent copy of the record; pid 0: the record is free. */
struct vb_export_mr vb_export_mr_record(struct vb_export *export, uint32_t handle);
/* After a change of the region. */
void vb_export_mr_update(struct vb_export *export, const struct vb_mr *mr);
void vb_export_mr_remove(struct vb_export *export, uint32_t handle);
/* The object ends and its record stays, as a record of another process does (a child's copy). */
void vb_export_mr_forget(struct vb_export *export, const struct vb_mr *mr);
/* Does the range lie inside the memory part? */
static inline bool vb_export_has(uint64_t offset, uint64_t length)
{
	return offset <= VB_DM_BYTES_MAX && length <= VB_DM_BYTES_MAX - offset;
}

/* --- objects that stand for others (import_object.c) --- */

/* Imports a PD by the handle that its owner has; -ENOENT. */
int vb_pd_import(struct ibv_context *ctx, uint32_t handle, struct vb_pd **out);
void vb_pd_unimport(struct vb_pd *pd);
/* The same for a PD whose last object is gone. */
void vb_pd_unimport_unused(struct vb_pd *pd);
/* Counts the objects of a PD, and of the PDs imported from it. */
uint32_t vb_pd_users(struct vb_pd *pd);
/* The PD is deallocated: PDs imported from it are destroyed, but for their objects. */
void vb_pd_end(struct vb_pd *pd);
/* The object ends; the PD stays. */
void vb_pd_forget(struct vb_pd *pd);
/*
 * Imports a region by its handle. -ENOENT; -EINVAL: of another PD; -EOPNOTSUPP: the region lies in
 * memory of another process that this process has not mapped.
 */
int vb_mr_import(struct vb_pd *pd, uint32_t handle, struct vb_mr **out);
void vb_mr_unimport(struct vb_mr *mr);
/* True: ibv_unimport_mr frees the object. False: the region was registered through it. */
bool vb_mr_is_imported(const struct vb_mr *mr);
/* Deregisters the region that an imported object stands for. Its own object can then only be
 * unimported. */
int vb_mr_deregister_imported(struct vb_mr *mr);

#endif

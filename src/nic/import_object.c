/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PDs and MRs by handle. Within the process an imported object stands for the original. Across
 * processes an imported object belongs to this NIC, and is made from the record in the shared file:
 * a PD is a name, and a region lies in device memory or in memory that both processes have mapped.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "nic/dm.h"
#include "nic/import_memory.h"
#include "nic/mr.h"

/* --- PDs --- */

/* The PD gets the number of this process's PD with the same handle, or a new number. */
static int pd_join(struct vb_export *export, struct vb_nic *nic, struct vb_pd *pd)
{
	struct vb_pd *first;
	int err;

	if (!vb_export_keep_objects(export))
		return -ENOMEM;
	first = export->objects->pds[pd->ibv.handle];
	err = first ? vb_pd_adopt(first) : vb_pd_number(nic, pd);
	if (err)
		return err;
	if (first) {
		pd->id = first->id;
		pd->nic = first->nic;
		vb_list_append(&first->same, &pd->same);
	} else {
		export->objects->pds[pd->ibv.handle] = pd;
	}
	return 0;
}

int vb_pd_import(struct ibv_context *ctx, uint32_t handle, struct vb_pd **out)
{
	struct vb_export *export = vb_context(ctx)->export;
	struct vb_nic *nic = vb_nic_get();
	struct vb_pd *pd;
	int err;

	if (!nic)
		return -errno;
	if (!export || handle >= VB_EXPORT_PDS || !atomic_load(&export->head->pds[handle].pid)) {
		vb_explain("ibv_import_pd: no PD of the device has handle %u", handle);
		return -ENOENT;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	pd->ibv.context = ctx;
	pd->ibv.handle = handle;
	vb_list_init(&pd->same);
	vb_export_lock();
	err = pd_join(export, nic, pd);
	vb_export_unlock();
	if (err) {
		free(pd);
		return err;
	}
	pd->export = vb_export_get(export);
	atomic_fetch_add(&vb_context(ctx)->objects, 1);
	*out = pd;
	return 0;
}

/* The next object for the PD takes its place; true: there is none. Under vb_export_lock. */
static bool pd_leave(struct vb_pd *pd)
{
	struct vb_pd **place = &pd->export->objects->pds[pd->ibv.handle];
	bool last = vb_list_empty(&pd->same);

	if (*place == pd)
		*place = last ? NULL : vb_container(pd->same.next, struct vb_pd, same);
	vb_list_remove(&pd->same);
	return last;
}

void vb_pd_forget(struct vb_pd *pd)
{
	if (!pd->export || pd->ibv.handle >= VB_EXPORT_PDS)
		return;
	vb_export_lock();
	pd_leave(pd);
	vb_export_unlock();
}

/* Removes the record of the PD, unless it is another process's record. */
static void end_record(struct vb_pd *pd)
{
	if (pd->export && pd->ibv.handle < VB_EXPORT_PDS &&
	    atomic_load(&pd->export->head->pds[pd->ibv.handle].pid) == (uint32_t)getpid())
		vb_export_pd_remove(pd->export, pd->ibv.handle);
}

void vb_pd_unimport_unused(struct vb_pd *pd)
{
	bool last = false;

	if (pd->export && pd->ibv.handle < VB_EXPORT_PDS) {
		vb_export_lock();
		last = pd_leave(pd);
		vb_export_unlock();
	}
	if (last && !pd->destroyed && pd->nic == vb_nic_current()) {
		end_record(pd);
		pthread_mutex_lock(&pd->nic->lock);
		pd->nic->pd_count--;
		pthread_mutex_unlock(&pd->nic->lock);
	}
	vb_export_put(pd->export);
	atomic_fetch_sub(&vb_context(pd->ibv.context)->objects, 1);
	free(pd);
}

/* While objects use the PD, only the flag is set, and the last object frees the PD. */
void vb_pd_unimport(struct vb_pd *pd)
{
	if (pd->nic != vb_nic_current() || !atomic_fetch_or(&pd->users, VB_PD_UNIMPORTED))
		vb_pd_unimport_unused(pd);
}

uint32_t vb_pd_users(struct vb_pd *pd)
{
	uint32_t users = vb_pd_user_count(pd);

	if (pd->base)
		return users;
	vb_export_lock();
	for (struct vb_list *at = pd->same.next; at != &pd->same; at = at->next)
		users += vb_pd_user_count(vb_container(at, struct vb_pd, same));
	vb_export_unlock();
	return users;
}

void vb_pd_end(struct vb_pd *pd)
{
	struct vb_export *export = pd->export;
	uint32_t handle = pd->ibv.handle;

	vb_export_lock();
	for (struct vb_list *at = pd->same.next; at != &pd->same; at = at->next)
		vb_container(at, struct vb_pd, same)->destroyed = true;
	vb_list_remove(&pd->same);
	if (export && handle < VB_EXPORT_PDS)
		export->objects->pds[handle] = NULL;
	vb_export_unlock();
	end_record(pd);
}

/* --- MRs --- */

/* Makes an object that stands for the region: it has the keys and nothing else. */
static int make_stand_in(struct vb_pd *pd, const struct vb_mr *original, struct vb_mr **out)
{
	struct vb_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return -ENOMEM;
	mr->imported = true;
	mr->nic = original->nic;
	mr->pd = pd;
	mr->export = original->export;
	mr->export->refs++; /* under vb_export_lock */
	mr->ibv = original->ibv;
	mr->ibv.context = pd->ibv.context;
	mr->ibv.pd = &pd->ibv;
	mr->ibv.addr = NULL;
	atomic_fetch_add(&pd->users, 1);
	*out = mr;
	return 0;
}

static int locate_memory(const struct vb_export *export, const struct vb_export_mr *record,
			 struct vb_mr_spec *spec)
{
	*spec = (struct vb_mr_spec){
		.length = record->length,
		.iova = record->iova,
		.access = record->access & ~(unsigned)IBV_ACCESS_ON_DEMAND,
	};
	if (record->dm > VB_DM_MAX || (record->dm && !vb_export_has(record->addr, record->length)))
		return -EINVAL;
	if (record->dm) {
		spec->addr = (uintptr_t)(export->memory) + record->addr;
		return 0;
	}
	if (record->length > VB_MR_SIZE_MAX || record->addr + record->length < record->addr)
		return -EOPNOTSUPP;
	return vb_import_locate((pid_t)record->pid, record->addr, record->length,
				record->access & IBV_ACCESS_LOCAL_WRITE, &spec->addr);
}

static int make_foreign(struct vb_pd *pd, struct vb_export *export, uint32_t handle,
			const struct vb_export_mr *record, struct vb_mr **out)
{
	struct vb_mr_spec spec;
	int err = locate_memory(export, record, &spec);

	if (err) {
		vb_explain(
			"ibv_import_mr: the region lies in memory of process %u that this process "
			"has not mapped; share it (memfd, shm, MAP_SHARED before fork), or use "
			"device memory",
			record->pid);
		return err;
	}
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->foreign = true;
	(*out)->dm = record->dm;
	(*out)->ibv.lkey = record->lkey;
	(*out)->ibv.rkey = record->rkey;
	(*out)->ibv.handle = handle;
	if (record->dm)
		vb_dm_use(export, record->dm - 1, 1);
	err = vb_mr_create(*out, pd, &spec);
	if (err && record->dm)
		vb_dm_use(export, record->dm - 1, -1);
	if (!err)
		(*out)->ibv.addr = NULL;
	return err;
}

int vb_mr_import(struct vb_pd *pd, uint32_t handle, struct vb_mr **out)
{
	struct vb_export *export = vb_context(pd->ibv.context)->export;
	struct vb_export_mr record = { 0 };
	struct vb_mr *original;
	int err;

	if (export && handle < VB_EXPORT_MRS)
		record = vb_export_mr_record(export, handle);
	if (!record.pid) {
		vb_explain("ibv_import_mr: no MR of the device has handle %u", handle);
		return -ENOENT;
	}
	if (record.pd != pd->ibv.handle) {
		vb_explain("ibv_import_mr: the MR belongs to another PD");
		return -EINVAL;
	}
	vb_export_lock();
	original = record.pid == (uint32_t)getpid() ? vb_export_mr_at(export, handle) : NULL;
	err = original ? make_stand_in(pd, original, out) : 0;
	vb_export_unlock();
	return original ? err : make_foreign(pd, export, handle, &record, out);
}

static void mr_object_free(struct vb_mr *mr)
{
	vb_export_put(mr->export);
	vb_pd_release(mr->pd, mr->nic);
	free(mr);
}

bool vb_mr_is_imported(const struct vb_mr *mr)
{
	return mr->imported || mr->destroyed || mr->foreign;
}

/* An original stays as it is: other objects may stand for it. */
void vb_mr_unimport(struct vb_mr *mr)
{
	if (mr->imported || mr->destroyed)
		mr_object_free(mr);
	else if (mr->foreign)
		vb_mr_deregister(mr);
}

int vb_mr_deregister_imported(struct vb_mr *mr)
{
	struct vb_mr *original;
	int err = -EINVAL;

	if (mr->nic != vb_nic_current()) {
		mr_object_free(mr);
		return 0;
	}
	vb_export_lock();
	original = vb_export_mr_at(mr->export, mr->ibv.handle);
	vb_export_unlock();
	if (original && original->ibv.lkey == mr->ibv.lkey)
		err = vb_mr_take_back(original);
	else
		vb_explain("ibv_dereg_mr: the region with lkey 0x%08x was deregistered through "
			   "another object; use ibv_unimport_mr",
			   mr->ibv.lkey);
	if (err)
		return err;
	original->destroyed = true;
	mr_object_free(mr);
	return 0;
}

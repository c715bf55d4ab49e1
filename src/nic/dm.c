/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/dm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "nic/dmabuf.h"
#include "nic/fact.h"

/* Buffers have pages of their own, so that a dma-buf shows one buffer. */
enum { LOG_ALIGN = 12, PAGE = 1 << LOG_ALIGN };

static uint64_t whole_pages(uint64_t length)
{
	return (length + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* Does the range overlap no buffer? Under the file's lock. */
static bool is_free(const struct vb_export_head *head, uint64_t offset, uint64_t length)
{
	if (!vb_export_has(offset, length))
		return false;
	for (unsigned i = 0; i < VB_DM_MAX; i++) {
		const struct vb_export_dm *dm = &head->dms[i];

		if (dm->serial && offset < dm->offset + dm->length && dm->offset < offset + length)
			return false;
	}
	return true;
}

/* The first room, at the beginning or behind another buffer; false: none. */
static bool find_room(const struct vb_export_head *head, uint64_t length, uint64_t *offset)
{
	uint64_t best = UINT64_MAX;

	if (is_free(head, 0, length))
		best = 0;
	for (unsigned i = 0; i < VB_DM_MAX && best; i++) {
		uint64_t at = whole_pages(head->dms[i].offset + head->dms[i].length);

		if (head->dms[i].serial && at < best && is_free(head, at, length))
			best = at;
	}
	*offset = best;
	return best != UINT64_MAX;
}

static int buffer_take(struct vb_export *export, uint64_t length, uint32_t *handle)
{
	struct vb_export_head *head = export->head;
	uint64_t offset;

	for (uint32_t i = 0; i < VB_DM_MAX; i++) {
		if (head->dms[i].serial)
			continue;
		if (!find_room(head, length, &offset))
			break;
		head->dms[i].offset = offset;
		head->dms[i].length = length;
		head->dms[i].serial = ++head->dm_serial;
		*handle = i;
		return 0;
	}
	vb_explain("ibv_alloc_dm: the device has no %llu bytes of memory left",
		   (unsigned long long)length);
	return -ENOMEM;
}

static int check_alloc(const struct ibv_alloc_dm_attr *attr)
{
	const uint64_t size_max = vb_fact(VB_FACT_MAX_DM_SIZE);

	if (!size_max) {
		vb_explain("ibv_alloc_dm: the device has no memory");
		return -EOPNOTSUPP;
	}
	if (!attr->comp_mask && attr->length && attr->length <= size_max &&
	    attr->log_align_req <= LOG_ALIGN)
		return 0;
	vb_explain("ibv_alloc_dm: comp_mask 0x%x must be 0, length %llu must be 1 to %llu "
		   "(max_dm_size), log_align_req %u at most %d",
		   attr->comp_mask, (unsigned long long)attr->length, (unsigned long long)size_max,
		   attr->log_align_req, LOG_ALIGN);
	return -EINVAL;
}

/* A consistent copy of an entry. */
static struct vb_export_dm entry_of(struct vb_export *export, uint32_t handle)
{
	struct vb_export_dm entry;

	vb_export_lock_file(export);
	entry = export->head->dms[handle];
	vb_export_unlock_file(export);
	return entry;
}

/* Makes an object for the buffer with this handle; -ENOENT: no buffer, or a bad entry. */
static int object_make(struct ibv_context *ctx, struct vb_nic *nic, uint32_t handle,
		       struct vb_dm **out)
{
	struct vb_export *export = vb_context(ctx)->export;
	const struct vb_export_dm entry = entry_of(export, handle);
	struct vb_dm *dm;

	if (!entry.serial || !vb_export_has(entry.offset, entry.length))
		return -ENOENT;
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return -ENOMEM;
	dm->ibv.context = ctx;
	dm->ibv.handle = handle;
	dm->nic = nic;
	dm->export = vb_export_get(export);
	dm->serial = entry.serial;
	dm->length = entry.length;
	dm->bytes = export->memory + entry.offset;
	atomic_fetch_add(&vb_context(ctx)->objects, 1);
	*out = dm;
	return 0;
}

int vb_dm_alloc(struct ibv_context *ctx, const struct ibv_alloc_dm_attr *attr, struct vb_dm **out)
{
	struct vb_export *export = vb_context(ctx)->export;
	struct vb_nic *nic = vb_nic_get();
	uint32_t handle;
	int err = check_alloc(attr);

	if (err)
		return err;
	if (!nic)
		return -errno;
	if (!export)
		return -ENOMEM;
	vb_export_lock_file(export);
	err = buffer_take(export, attr->length, &handle);
	vb_export_unlock_file(export);
	if (err)
		return err;
	err = object_make(ctx, nic, handle, out);
	if (err) {
		vb_export_lock_file(export);
		export->head->dms[handle].serial = 0;
		vb_export_unlock_file(export);
		return -ENOMEM;
	}
	memset((*out)->bytes, 0, whole_pages((*out)->length));
	return 0;
}

int vb_dm_import(struct ibv_context *ctx, uint32_t handle, struct vb_dm **out)
{
	struct vb_export *export = vb_context(ctx)->export;
	struct vb_nic *nic = vb_nic_get();
	int err;

	if (!nic)
		return -errno;
	err = export && handle < VB_DM_MAX ? object_make(ctx, nic, handle, out) : -ENOENT;
	if (err == -ENOENT)
		vb_explain("ibv_import_dm: no device memory of the context has handle %u", handle);
	return err;
}

void vb_dm_unimport(struct vb_dm *dm)
{
	atomic_fetch_sub(&vb_context(dm->ibv.context)->objects, 1);
	vb_export_put(dm->export);
	free(dm);
}

static int buffer_free(struct vb_dm *dm)
{
	struct vb_export_dm *entry = &dm->export->head->dms[dm->ibv.handle];
	int err = 0;

	vb_export_lock();
	vb_export_lock_file(dm->export);
	if (entry->serial != dm->serial)
		err = -EINVAL;
	else if (dm->export->dm_users[dm->ibv.handle])
		err = -EBUSY;
	else
		entry->serial = 0;
	vb_export_unlock_file(dm->export);
	vb_export_unlock();
	return err;
}

/* A child frees its copy only: the buffer belongs to its parent. */
int vb_dm_free(struct vb_dm *dm)
{
	int err = dm->nic == vb_nic_current() ? buffer_free(dm) : 0;

	if (err == -EBUSY)
		vb_explain("ibv_free_dm: memory regions are registered in the device memory");
	if (err == -EINVAL)
		vb_explain("ibv_free_dm: the device memory was freed through another object; "
			   "use ibv_unimport_dm");
	if (!err)
		vb_dm_unimport(dm);
	return err;
}

/* The buffer was freed through another object. Its entry may have another buffer by now. */
static bool is_freed(const struct vb_dm *dm)
{
	return dm->ibv.handle >= VB_DM_MAX ||
	       __atomic_load_n(&dm->export->head->dms[dm->ibv.handle].serial, __ATOMIC_RELAXED) !=
		       dm->serial;
}

uint8_t *vb_dm_range(const struct vb_dm *dm, uint64_t offset, uint64_t length)
{
	if (is_freed(dm) || (offset | length) & 3 || offset > dm->length ||
	    length > dm->length - offset)
		return NULL;
	return dm->bytes + offset;
}

/* The context's descriptor is that of the file, unless the program has put another one there. */
int vb_dm_make_dmabuf(const struct vb_dm *dm)
{
	uint64_t offset = (uint64_t)(dm->bytes - (uint8_t *)dm->export->head);

	if (is_freed(dm)) {
		vb_explain("ibv_dm_export_dmabuf_fd: the device memory was freed through another "
			   "object");
		return -EINVAL;
	}
	return vb_dmabuf_make(dm->ibv.context->cmd_fd, offset, whole_pages(dm->length));
}

void vb_dm_use(struct vb_export *export, uint32_t handle, int by)
{
	vb_export_lock();
	export->dm_users[handle] += (uint32_t)by;
	vb_export_unlock();
}

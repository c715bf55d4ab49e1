/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/dm.h"

#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "system/forward.h"
#include "verbs/given.h"
#include "verbs/ops.h"

static uint8_t *find_range(const struct ibv_dm *dm, uint64_t offset, size_t length,
			   const char *call)
{
	uint8_t *at = vb_dm_range(vb_dm((struct ibv_dm *)dm), offset, length);

	if (!at)
		vb_explain(
			"%s: %zu bytes at %llu: not inside the device memory, not multiples of 4, "
			"or it was freed through another handle",
			call, length, (unsigned long long)offset);
	return at;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset, const void *host, size_t length)
{
	uint8_t *at = find_range(dm, offset, length, "ibv_memcpy_to_dm");

	if (!at)
		return vb_return_errno_of("ibv_memcpy_to_dm", -EINVAL);
	memcpy(at, host, length);
	return 0;
}

static int copy_from(void *host, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	const uint8_t *at = find_range(dm, offset, length, "ibv_memcpy_from_dm");

	if (!at)
		return vb_return_errno_of("ibv_memcpy_from_dm", -EINVAL);
	memcpy(host, at, length);
	return 0;
}

static struct ibv_dm *give_dm(struct vb_dm *dm, bool imported)
{
	int err = vb_given_add(VB_GIVEN_DM, dm);

	if (err && imported)
		vb_dm_unimport(dm);
	else if (err)
		vb_dm_free(dm);
	if (err)
		return vb_return_null_of(imported ? "ibv_import_dm" : "ibv_alloc_dm", err);
	dm->ibv.memcpy_to_dm = copy_to;
	dm->ibv.memcpy_from_dm = copy_from;
	return &dm->ibv;
}

struct ibv_dm *vb_ops_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	VB_NO_CANCEL;
	struct vb_dm *dm;
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_alloc_dm");

	if (!err)
		err = vb_dm_alloc(context, attr, &dm);
	return err ? vb_return_null(err) : give_dm(dm, false);
}

int vb_ops_free_dm(struct ibv_dm *dm)
{
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_DM, dm, "ibv_free_dm");

	if (!err)
		err = vb_given_ended(VB_GIVEN_DM, dm, vb_dm_free(vb_dm(dm)));
	return vb_return_errno(err);
}

/* The man page wants a zero-based region: all addresses are offsets in the region. */
static int check_region(const struct vb_pd *pd, const struct vb_dm *dm, uint64_t offset,
			size_t length, unsigned access)
{
	const char *why = NULL;

	if (!(access & IBV_ACCESS_ZERO_BASED))
		why = "IBV_ACCESS_ZERO_BASED is missing";
	else if (access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB))
		why = "on-demand paging and huge pages are for host memory";
	else if (!vb_dm_range(dm, offset, length))
		why = "not inside the device memory, not in multiples of 4, or it was freed";
	else if (vb_context(pd->ibv.context)->export != dm->export)
		why = "the PD belongs to another device";
	if (!why)
		return vb_mr_check_access(access);
	vb_explain("ibv_reg_dm_mr: %s", why);
	return -EINVAL;
}

struct ibv_mr *vb_ops_reg_dm_mr(struct ibv_pd *ibv_pd, struct ibv_dm *ibv_dm, uint64_t offset,
				size_t length, unsigned int access)
{
	VB_NO_CANCEL;
	struct vb_pd *pd = vb_pd(ibv_pd);
	struct vb_dm *dm = vb_dm(ibv_dm);
	struct vb_mr_spec spec = { .length = length, .access = access };
	struct vb_mr *mr;
	int err = vb_verbs_check_pd(ibv_pd, "ibv_reg_dm_mr");

	if (!err)
		err = vb_given_check(VB_GIVEN_DM, ibv_dm, "ibv_reg_dm_mr");
	if (!err)
		err = check_region(pd, dm, offset, length, access);
	if (err)
		return vb_return_null(err);
	spec.addr = (uintptr_t)dm->bytes + offset;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return vb_return_null(-ENOMEM);
	mr->dm = dm->ibv.handle + 1;
	vb_dm_use(dm->export, dm->ibv.handle, 1);
	err = vb_mr_create(mr, pd, &spec);
	if (!err)
		return vb_verbs_give_mr(mr, 0);
	vb_dm_use(dm->export, dm->ibv.handle, -1);
	return vb_return_null(err);
}

VB_PUBLIC int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	VB_SYSTEM_PASS(dm, ibv_dm_export_dmabuf_fd, (dm));
	VB_NO_CANCEL;

	static const char call[] = "ibv_dm_export_dmabuf_fd";
	int fd = vb_given_check(VB_GIVEN_DM, dm, call);

	if (!fd)
		fd = vb_dm_make_dmabuf(vb_dm(dm));
	if (fd == -EOPNOTSUPP)
		vb_explain("%s: only /dev/udmabuf makes dma-bufs of memory, and this machine has "
			   "none",
			   call);
	else if (fd == -EACCES || fd == -EPERM)
		vb_explain("%s: this user may not open /dev/udmabuf", call);
	return fd < 0 ? vb_return_minus_one(fd) : fd;
}

VB_PUBLIC struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_import_dm, (context, dm_handle));
	VB_NO_CANCEL;
	struct vb_dm *dm;
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_import_dm");

	if (!err)
		err = vb_dm_import(context, dm_handle, &dm);
	return err ? vb_return_null(err) : give_dm(dm, true);
}

VB_PUBLIC void ibv_unimport_dm(struct ibv_dm *dm)
{
	VB_SYSTEM_PASS_VOID(dm, ibv_unimport_dm, (dm));
	VB_NO_CANCEL;

	if (vb_given_end(VB_GIVEN_DM, dm, "ibv_unimport_dm"))
		return;
	vb_dm_unimport(vb_dm(dm));
	vb_given_ended(VB_GIVEN_DM, dm, 0);
}

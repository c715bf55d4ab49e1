/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: memory is registered. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "check/create.h"
#include "check/memory.h"
#include "check/report.h"
#include "check/watch.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/*
 * UCX and libfabric keep regions of memory that was freed, and learn when its pages go. A frame of
 * theirs in the stack tells.
 */
static bool made_by_cache(const struct vb_stack *stack)
{
	Dl_info info;

	for (uint32_t i = 0; i < stack->depth; i++)
		if (dladdr(stack->pc[i], &info) && info.dli_fname &&
		    (strstr(info.dli_fname, "/libucs.so") ||
		     strstr(info.dli_fname, "/libfabric.so")))
			return true;
	return false;
}

/* Pages of memory on demand may come and go. */
static void made_mr(struct ibv_mr *mr, uint64_t iova, int access, const struct vb_stack *stack)
{
	struct vb_object *object = mr ? vb_check_made(VB_KIND_MR, mr, stack) : NULL;

	if (!object)
		return;
	object->addr = (uintptr_t)mr->addr;
	object->length = mr->length;
	object->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	object->lkey = mr->lkey;
	object->rkey = mr->rkey;
	object->access = access;
	object->cached = made_by_cache(stack);
	object->host_memory = !(access & IBV_ACCESS_ON_DEMAND) && mr->addr;
	vb_check_enter();
	vb_object_name_keys(object);
	vb_check_leave();
	if (object->host_memory)
		vb_memory_registered(object);
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_mr *mr = VB_CHECK_REAL(ibv_reg_mr)(pd, addr, length, access);

	made_mr(mr, (uintptr_t)addr, access, stack);
	return mr;
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					 uint64_t iova, int access)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_mr *mr = VB_CHECK_REAL(ibv_reg_mr_iova)(pd, addr, length, iova, access);

	made_mr(mr, iova, access, stack);
	return mr;
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					  uint64_t iova, unsigned int access)
{
	const struct vb_stack *stack = VB_HERE();
	struct ibv_mr *mr = VB_CHECK_REAL(ibv_reg_mr_iova2)(pd, addr, length, iova, access);

	made_mr(mr, iova, (int)access, stack);
	return mr;
}

VB_PUBLIC int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			   size_t length, int access)
{
	const struct vb_stack *stack = VB_HERE();
	struct vb_object *object = vb_object_of(mr);
	const int access_now = flags & IBV_REREG_MR_CHANGE_ACCESS ? access
			       : object                           ? object->access
								  : 0;
	int err = VB_CHECK_REAL(ibv_rereg_mr)(mr, flags, pd, addr, length, access);

	if (err || !object)
		return err;
	vb_object_ended(object, true, stack);
	made_mr(mr, (uintptr_t)mr->addr, access_now, stack);
	return err;
}

VB_PUBLIC int ibv_dereg_mr(struct ibv_mr *mr)
{
	const struct vb_stack *stack = VB_HERE();
	struct vb_object *object = vb_object_of(mr);
	int err;

	if (object && atomic_load(&object->gone)) {
		vb_use_begin(object, "ibv_dereg_mr", stack);
		return errno = EINVAL;
	}
	if (object) {
		vb_check_in_flight(object, "ibv_dereg_mr", stack);
		vb_check_enter();
		vb_watch_forget_memory(object->addr, object->length);
		vb_check_leave();
		vb_object_dying(object);
	}
	err = VB_CHECK_REAL(ibv_dereg_mr)(mr);
	vb_object_ended(object, !err, stack);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* DMA handles. The checks are those of the kernel; devices of Linux differ in what they add. */
#include "nic/dmah.h"

#include <sched.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/context.h"
#include "nic/given.h"
#include "system/forward.h"

enum {
	MASK_KNOWN = IBV_DMAH_INIT_ATTR_MASK_CPU_ID | IBV_DMAH_INIT_ATTR_MASK_PH |
		     IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE,
	PH_MAX = 3, /* two bits of a PCIe header */
};

/* May this thread run there? A process may name the CPUs that it has. */
static bool has_cpu(uint32_t cpu)
{
	cpu_set_t *set = CPU_ALLOC(cpu + 1024);
	size_t size = CPU_ALLOC_SIZE(cpu + 1024);
	bool has = set && !sched_getaffinity(0, size, set) && CPU_ISSET_S(cpu, size, set);

	CPU_FREE(set);
	return has;
}

static int check_attr(const struct ibv_dmah_init_attr *attr)
{
	enum { CPU_LIMIT = 1 << 20 };
	const char *why = NULL;

	if (attr->comp_mask & ~(uint32_t)MASK_KNOWN)
		why = "the comp_mask has bits without a meaning";
	else if (attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_PH && attr->ph > PH_MAX)
		why = "a processing hint has two bits";
	else if (attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE &&
		 attr->tph_mem_type > IBV_TPH_MEM_TYPE_PM)
		why = "there is no such tph_mem_type";
	if (why) {
		vb_explain("ibv_alloc_dmah: %s", why);
		return -EINVAL;
	}
	if (attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_CPU_ID &&
	    (attr->cpu_id >= CPU_LIMIT || !has_cpu(attr->cpu_id))) {
		vb_explain("ibv_alloc_dmah: this thread may not run on CPU %u", attr->cpu_id);
		return -EPERM;
	}
	return 0;
}

VB_PUBLIC struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context,
					  struct ibv_dmah_init_attr *attr)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_alloc_dmah, (context, attr));
	VB_NO_CANCEL;
	struct vb_dmah *dmah;
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_alloc_dmah");

	if (!err)
		err = check_attr(attr);
	if (err)
		return vb_return_null(err);
	dmah = calloc(1, sizeof(*dmah));
	if (!dmah)
		return vb_return_null(-ENOMEM);
	dmah->ibv.context = context;
	if (vb_given_add(VB_GIVEN_DMAH, dmah)) {
		free(dmah);
		return vb_return_null(-ENOMEM);
	}
	atomic_fetch_add(&vb_context(context)->objects, 1);
	return &dmah->ibv;
}

static int free_dmah(struct vb_dmah *dmah)
{
	uint32_t users = atomic_load(&dmah->users);

	if (users) {
		vb_explain("ibv_dealloc_dmah: %u memory regions still use the DMA handle", users);
		return -EBUSY;
	}
	atomic_fetch_sub(&vb_context(dmah->ibv.context)->objects, 1);
	free(dmah);
	return 0;
}

VB_PUBLIC int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	VB_SYSTEM_PASS(dmah, ibv_dealloc_dmah, (dmah));
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_DMAH, dmah, "ibv_dealloc_dmah");

	if (!err)
		err = vb_given_ended(VB_GIVEN_DMAH, dmah, free_dmah(vb_dmah(dmah)));
	return vb_return_errno(err);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Thread domains, and parent domains that join them with a PD and the application's memory. */
#include <stdlib.h>

#include "abi/verbs.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "nic/given.h"
#include "nic/pd.h"
#include "verbs/ops.h"

enum {
	MASK_KNOWN = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
		     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
		     /* a right of the library, which needs no such memory */
		     IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
};

struct ibv_td *vb_ops_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	VB_NO_CANCEL;
	struct vb_td *td;

	if (attr->comp_mask)
		vb_explain("ibv_alloc_td: comp_mask 0x%x must be 0", attr->comp_mask);
	if (attr->comp_mask || vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_alloc_td"))
		return vb_return_null(-EINVAL);
	td = calloc(1, sizeof(*td));
	if (!td)
		return vb_return_null(-ENOMEM);
	td->ibv.context = context;
	if (vb_given_add(VB_GIVEN_TD, td)) {
		free(td);
		return vb_return_null(-ENOMEM);
	}
	atomic_fetch_add(&vb_context(context)->objects, 1);
	return &td->ibv;
}

static int dealloc_td(struct vb_td *td)
{
	uint32_t users = atomic_load(&td->users);

	if (users) {
		vb_explain("ibv_dealloc_td: %u parent domains still use the thread domain", users);
		return -EBUSY;
	}
	atomic_fetch_sub(&vb_context(td->ibv.context)->objects, 1);
	free(td);
	return 0;
}

int vb_ops_dealloc_td(struct ibv_td *td)
{
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_TD, td, "ibv_dealloc_td");

	if (!err)
		err = vb_given_ended(VB_GIVEN_TD, td,
				     dealloc_td(vb_container(td, struct vb_td, ibv)));
	return vb_return_errno(err);
}

static int check_parent(const struct ibv_context *context,
			const struct ibv_parent_domain_init_attr *attr)
{
	bool allocators = attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	static const char call[] = "ibv_alloc_parent_domain";
	const char *why = NULL;

	if (attr->comp_mask & ~(uint32_t)MASK_KNOWN)
		why = "the comp_mask has bits without a meaning";
	else if (allocators && (!attr->alloc || !attr->free))
		why = "alloc and free come together";
	if (why) {
		vb_explain("%s: %s", call, why);
		return -EINVAL;
	}
	if (vb_given_check(VB_GIVEN_CONTEXT, context, call) ||
	    vb_given_check_in(context, VB_GIVEN_PD, attr->pd, call) ||
	    (attr->td && vb_given_check_in(context, VB_GIVEN_TD, attr->td, call)))
		return -EINVAL;
	return 0;
}

struct ibv_pd *vb_ops_alloc_parent_domain(struct ibv_context *context,
					  struct ibv_parent_domain_init_attr *attr)
{
	VB_NO_CANCEL;
	struct vb_allocator allocator = { 0 };
	struct vb_pd *pd;
	int err = check_parent(context, attr);

	if (err)
		return vb_return_null(err);
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		allocator.alloc = attr->alloc;
		allocator.free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		allocator.context = attr->pd_context;
	err = vb_pd_alloc_parent(vb_pd(attr->pd),
				 attr->td ? vb_container(attr->td, struct vb_td, ibv) : NULL,
				 &allocator, &pd);
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_PD, pd);
	if (err)
		vb_pd_dealloc(pd);
	return err ? vb_return_null(err) : &pd->ibv;
}

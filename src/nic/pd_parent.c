/* SPDX-License-Identifier: BSD-2-Clause */
/* Parent domains: a PD together with a thread domain and the application's allocator. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "nic/pd.h"

enum { ALIGNMENT = 64 };

/* In front of each buffer: its origin, as the application's allocator may pass a request on. */
struct origin {
	_Alignas(ALIGNMENT) void *whole; /* from calloc; NULL: from the application */
};
static_assert(sizeof(struct origin) == ALIGNMENT, "the buffer behind it is aligned");

int vb_pd_alloc_parent(struct vb_pd *base, struct vb_td *td, const struct vb_allocator *allocator,
		       struct vb_pd **out)
{
	struct vb_pd *pd;
	int err;

	if (base->base) {
		vb_explain("ibv_alloc_parent_domain: the PD is itself a parent domain");
		return -EINVAL;
	}
	err = vb_pd_adopt(base);
	if (err)
		return err;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	pd->ibv = base->ibv;
	pd->nic = base->nic;
	pd->id = base->id;
	pd->base = base;
	vb_list_init(&pd->same);
	pd->td = td;
	pd->allocator = *allocator;
	atomic_fetch_add(&base->users, 1);
	if (td)
		atomic_fetch_add(&td->users, 1);
	atomic_fetch_add(&vb_context(pd->ibv.context)->objects, 1);
	*out = pd;
	return 0;
}

/* Not aligned_alloc and memset: an entry of a large queue costs memory only once it is used. */
static struct origin *alloc_default(size_t size)
{
	void *whole = calloc(1, size + ALIGNMENT);
	struct origin *origin;

	if (!whole)
		return NULL;
	origin = (void *)(((uintptr_t)whole + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
	origin->whole = whole;
	return origin;
}

static struct origin *alloc_custom(struct vb_pd *pd, size_t size, enum vb_buffer_type type)
{
	const struct vb_allocator *by = &pd->allocator;
	struct origin *origin = by->alloc(&pd->ibv, by->context, size, ALIGNMENT, type);

	if (origin == IBV_ALLOCATOR_USE_DEFAULT)
		return alloc_default(size);
	if (!origin) {
		vb_explain("the allocator of the parent domain has no %zu bytes", size);
		return NULL;
	}
	memset(origin, 0, size); /* the allocator should, but garbage in a queue is hard to find */
	return origin;
}

void *vb_buffer_alloc(struct vb_pd *pd, size_t size, enum vb_buffer_type type)
{
	size_t whole = (sizeof(struct origin) + size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	struct origin *origin =
		pd && pd->allocator.alloc ? alloc_custom(pd, whole, type) : alloc_default(whole);

	return origin ? origin + 1 : NULL;
}

void vb_buffer_free(struct vb_pd *pd, void *at, enum vb_buffer_type type)
{
	struct origin *origin = at ? (struct origin *)at - 1 : NULL;

	if (origin && !origin->whole)
		pd->allocator.free(&pd->ibv, pd->allocator.context, origin, type);
	else if (origin)
		free(origin->whole);
}

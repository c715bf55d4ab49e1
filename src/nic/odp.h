/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * On-demand paging: the memory of a region may be missing at registration, and may go and come back
 * later. Peers reach all memory through the kernel, which tells them what is missing. This process
 * copies with plain loads and stores, which must not hit a hole. So while it has such a region, its
 * copies from and to application memory go through the kernel as well.
 */
#ifndef VB_NIC_ODP_H
#define VB_NIC_ODP_H

#include <string.h>

#include "base/annotate.h"
#include "nic/mr.h"

static inline bool vb_odp_in_use(void)
{
	const struct vb_nic *nic = vb_nic_current();

	return nic && atomic_load_explicit(&nic->on_demand, memory_order_relaxed);
}

/* Does the region cover the whole address space? */
static inline bool vb_odp_implicit(const struct vb_mr_spec *spec)
{
	return spec->access & IBV_ACCESS_ON_DEMAND && !spec->addr && spec->length == UINT64_MAX;
}

/* -EOPNOTSUPP: copies through the kernel are forbidden here. */
int vb_odp_check(void);
int vb_odp_check_implicit(const struct vb_mr_spec *spec);
/* Counts regions on demand: a region has changed its access flags. */
void vb_odp_count(struct vb_nic *nic, unsigned before, unsigned after);

/* Makes the range present, as a page fault of a NIC does; -EFAULT: it is not mapped. */
int vb_odp_make_present(uint64_t addr, uint64_t length, bool write);

int vb_odp_advise(struct vb_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  const struct ibv_sge *sge, uint32_t count);

/* Copy through the kernel; false: memory of the application is missing. */
bool vb_odp_read(void *to, const void *from, size_t length);
bool vb_odp_write(void *to, const void *from, size_t length);

/* From application memory, which may be on demand, to ours; false: memory is missing. */
static inline bool vb_user_read(void *to, const void *from, size_t length)
{
	if (__builtin_expect(vb_odp_in_use(), 0))
		return vb_odp_read(to, from, length);
	memcpy(to, from, length);
	return true;
}

/* From our memory to application memory, likewise. */
static inline bool vb_user_write(void *to, const void *from, size_t length)
{
	if (__builtin_expect(vb_odp_in_use(), 0))
		return vb_odp_write(to, from, length);
	memcpy(to, from, length);
	vb_tell_filled(to, length);
	return true;
}

#endif

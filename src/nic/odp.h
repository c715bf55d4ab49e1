/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * On-demand paging: regions whose memory need not be there when they are registered, and may go and
 * come back later. Peers reach all memory through the kernel, which tells them what is missing. The
 * own process copies with plain loads and stores, which must not hit a hole: while it has such a
 * region, its copies from and to application memory go through the kernel as well.
 */
#ifndef VB_NIC_ODP_H
#define VB_NIC_ODP_H

#include <string.h>

#include "nic/mr.h"

static inline bool vb_odp_in_use(void)
{
	const struct vb_nic *nic = vb_nic_current();

	return nic && atomic_load_explicit(&nic->on_demand, memory_order_relaxed);
}

/* Whole address space? */
static inline bool vb_odp_implicit(const struct vb_mr_spec *spec)
{
	return spec->access & IBV_ACCESS_ON_DEMAND && !spec->addr && spec->length == UINT64_MAX;
}

/* 0, -EOPNOTSUPP where copies through the kernel are forbidden. */
int vb_odp_check(void);
int vb_odp_check_implicit(const struct vb_mr_spec *spec);
/* A region has changed its access flags. */
void vb_odp_count(struct vb_nic *nic, unsigned before, unsigned after);

/* Makes the range present, as a page fault of a NIC does; -EFAULT: it is not there. */
int vb_odp_make_present(uint64_t addr, uint64_t length, bool write);

int vb_odp_advise(struct vb_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  const struct ibv_sge *sge, uint32_t count);

/* Through the kernel; false: memory of the application is missing. */
bool vb_odp_read(void *to, const void *from, size_t length);
bool vb_odp_write(void *to, const void *from, size_t length);

/* From application memory, which may be on demand, to ours; false: it is not there. */
static inline bool vb_user_read(void *to, const void *from, size_t length)
{
	if (__builtin_expect(vb_odp_in_use(), 0))
		return vb_odp_read(to, from, length);
	memcpy(to, from, length);
	return true;
}

/* The other way round. */
static inline bool vb_user_write(void *to, const void *from, size_t length)
{
	if (__builtin_expect(vb_odp_in_use(), 0))
		return vb_odp_write(to, from, length);
	memcpy(to, from, length);
	return true;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: a private object, and an entry in the key table that peers read. */
#ifndef VB_NIC_MR_H
#define VB_NIC_MR_H

#include "nic/pd.h"

struct vb_mr {
	struct ibv_mr ibv; /* first */
	struct vb_nic *nic;
	struct vb_key_entry *entry; /* in our segment */
	struct vb_pd *pd;
	uint32_t index;
	uint32_t access;
	uint64_t iova, length, addr;
	_Atomic uint32_t used_by_recv; /* a receive named it once: dereg must look for those */
};

static inline struct vb_mr *vb_mr(struct ibv_mr *ibv)
{
	return vb_container(ibv, struct vb_mr, ibv);
}

struct vb_mr_spec {
	uint64_t addr, length, iova;
	unsigned access;
};

/* -EINVAL: flags or range; -EFAULT: memory that is not there or may not be written. */
int vb_mr_register(struct vb_pd *pd, const struct vb_mr_spec *spec, struct vb_mr **out);
int vb_mr_deregister(struct vb_mr *mr);
/* new_spec or new_pd may be NULL: unchanged. */
int vb_mr_reregister(struct vb_mr *mr, const struct vb_mr_spec *spec, struct vb_pd *pd);

struct vb_mr *vb_mr_by_lkey(struct vb_nic *nic, uint32_t lkey);
/* Checks one scatter/gather element against the region behind its lkey; NULL if it does not fit. */
struct vb_mr *vb_mr_lookup(struct vb_nic *nic, const struct vb_pd *pd, const struct ibv_sge *sge,
			   unsigned access);

/*
 * The region that a queue used last, by value: most programs use the same one again. Valid for one
 * PD and one kind of access, those of the queue.
 */
struct vb_mr_cache {
	uint32_t lkey;
	uint32_t generation; /* 0: empty */
	uint64_t iova, length;
	uint64_t delta;      /* from an address of the region to one of this process */
};

/* Looks the element's region up and remembers it; NULL as vb_mr_lookup. */
struct vb_mr *vb_mr_cache_fill(struct vb_mr_cache *cache, struct vb_nic *nic, const struct vb_pd *pd,
			       const struct ibv_sge *sge, unsigned access);

/* The element fits the region that is remembered: its address in this process. */
static inline bool vb_mr_cached(const struct vb_mr_cache *cache, const struct vb_nic *nic,
				const struct ibv_sge *sge, uint64_t *address)
{
	uint64_t inside = sge->addr - cache->iova;

	*address = sge->addr + cache->delta;
	return cache->lkey == sge->lkey &&
	       cache->generation == atomic_load_explicit(&nic->mr_generation,
							 memory_order_acquire) &&
	       inside <= cache->length && sge->length <= cache->length - inside;
}

/* Where a byte of the region lies in this process. */
static inline char *vb_mr_ptr(const struct vb_mr *mr, uint64_t va)
{
	return (char *)(uintptr_t)(mr->addr + (va - mr->iova));
}

#endif

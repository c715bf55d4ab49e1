/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions. Each is a private object, and an entry in the key table that peers read. */
#ifndef VB_NIC_MR_H
#define VB_NIC_MR_H

#include "abi/flush.h"
#include "nic/pd.h"

/* The memory of this process behind null regions (mr_null.c), VB_MSG_MAX bytes each. */
struct vb_null {
	uint64_t zeros; /* address that null regions read from */
	uint64_t sink;  /* address that null regions write to */
};

struct vb_mr {
	struct ibv_mr ibv; /* first */
	struct vb_nic *nic;
	struct vb_key_entry *entry; /* in our segment */
	struct vb_pd *pd;
	uint32_t index;
	uint32_t access;
	uint64_t iova, length, addr;
	const struct vb_null *null;   /* a null region; NULL: a real one */
	struct vb_indirect *indirect; /* an indirect key (umr.h), which has no memory; or NULL */
	struct vb_export *export;     /* file with a record of the region, referenced; or NULL */
	uint32_t dm;                  /* 1 + handle of the device memory that it lies in, or 0 */
	bool imported;                /* stands for another region of this process; has no entry */
	bool foreign;   /* made from another process's record, with the keys of that process */
	bool destroyed; /* deregistered through an imported object: only this object is left */
	void *mapping;  /* mapped for the region, and unmapped with it; or NULL */
	size_t mapping_length;
	struct vb_dmah *dmah;          /* counted among its users; or NULL */
	struct ibv_buf *buf;           /* it lies there, and holds it; or NULL */
	_Atomic uint32_t used_by_recv; /* a receive named it: deregistration looks at receives */
};

static inline struct vb_mr *vb_mr(struct ibv_mr *ibv)
{
	return vb_container(ibv, struct vb_mr, ibv);
}

/* The memory may be missing: copies make it present first, and expect faults (odp.h). */
static inline bool vb_mr_on_demand(const struct vb_mr *mr)
{
	return mr->access & IBV_ACCESS_ON_DEMAND;
}

struct vb_mr_spec {
	uint64_t addr, length, iova;
	unsigned access;
};

/* -EINVAL: flags or range; -EFAULT: memory is missing or may not be written. */
int vb_mr_register(struct vb_pd *pd, const struct vb_mr_spec *spec, struct vb_mr **out);
/* A null region: reads give zeros, writes vanish. It has no rkey. */
int vb_mr_alloc_null(struct vb_pd *pd, struct vb_mr **out);
int vb_null_get(struct vb_nic *nic, const struct vb_null **null);
/*
 * Completes an allocated region whose null, dm or mapping is set and whose memory is known to be
 * good. Frees mr on failure.
 */
int vb_mr_create(struct vb_mr *mr, struct vb_pd *pd, const struct vb_mr_spec *spec);
int vb_mr_check_access(unsigned access);
/* -EBUSY: a window is bound to the region, or a peer does not stop using it. */
int vb_mr_deregister(struct vb_mr *mr);
/* Ends the region; its object stays. */
int vb_mr_take_back(struct vb_mr *mr);
/*
 * Not for null, imported and dma-buf regions. pd NULL: unchanged. After an error nothing has
 * changed, with one exception: if a peer does not stop using the region (-EBUSY), the region can
 * only be deregistered.
 */
int vb_mr_reregister(struct vb_mr *mr, const struct vb_mr_spec *spec, struct vb_pd *pd);

/* Does the range lie in the mapping of a region? Slow. */
bool vb_mr_mapping_covers(struct vb_nic *nic, uint64_t addr, uint64_t length);

struct vb_mr *vb_mr_by_lkey(struct vb_nic *nic, uint32_t lkey);
/* Checks one scatter/gather element against the region behind its lkey; NULL if it does not fit. */
struct vb_mr *vb_mr_lookup(struct vb_nic *nic, const struct vb_pd *pd, const struct ibv_sge *sge,
			   unsigned access);

/*
 * A copy of the region that a queue used last: most programs use the same region again. The cache
 * is valid for the queue's PD and kind of access only.
 */
struct vb_mr_cache {
	uint32_t lkey;
	uint32_t generation; /* 0: empty */
	uint32_t access;     /* the rights of the region */
	uint64_t iova, length;
	uint64_t delta; /* from an address of the region to one of this process */
};

/* Looks the element's region up and remembers it, unless it is null or on demand; NULL as
 * vb_mr_lookup. */
struct vb_mr *vb_mr_cache_fill(struct vb_mr_cache *cache, struct vb_nic *nic,
			       const struct vb_pd *pd, const struct ibv_sge *sge, unsigned access);

/* True: the element fits the remembered region. *address is its address in this process. */
__attribute__((always_inline)) static inline bool vb_mr_cached(const struct vb_mr_cache *cache,
							       const struct vb_nic *nic,
							       const struct ibv_sge *sge,
							       uint64_t *address)
{
	uint64_t inside = sge->addr - cache->iova;

	*address = sge->addr + cache->delta;
	return cache->lkey == sge->lkey &&
	       cache->generation ==
		       atomic_load_explicit(&nic->mr_generation, memory_order_acquire) &&
	       inside <= cache->length && sge->length <= cache->length - inside;
}

/* The address of an element in this process, for this kind of access. */
static inline uint64_t vb_mr_at(const struct vb_mr *mr, uint64_t va, unsigned access)
{
	if (__builtin_expect(mr->null != NULL, 0))
		return access & IBV_ACCESS_LOCAL_WRITE ? mr->null->sink : mr->null->zeros;
	return mr->addr + (va - mr->iova);
}

/* The address of a byte of a region that is not null. */
static inline char *vb_mr_ptr(const struct vb_mr *mr, uint64_t va)
{
	return (char *)(uintptr_t)(mr->addr + (va - mr->iova));
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Indirect keys (UMR): a region without memory of its own, which a work request fills with parts
 * of other regions, or with a pattern of parts that repeats. Its entry in the key table grants no
 * right, so an access that uses the key fails first; the code of that failure looks for the
 * pattern (shm/pattern.h). Accesses to ordinary keys are as fast as without it.
 */
#ifndef VB_NIC_UMR_H
#define VB_NIC_UMR_H

#include "nic/mr.h"
#include "shm/pattern.h"

struct vb_indirect {
	struct vb_list node; /* in nic->indirects, under nic->umr_lock */
	struct vb_mr *mr;
	struct vb_pattern *pattern; /* shown; written under nic->umr_lock */
	uint64_t offset;            /* of the pattern, in the segment */
	uint32_t room;              /* parts that it can have */
	uint32_t *lkeys;            /* regions of the parts, as many as the pattern has; likewise */
};

struct vb_umr_part {
	uint64_t addr, bytes; /* as the region's addresses */
	uint64_t stride;
	uint32_t lkey;
};

/* A work request puts this into the key. */
struct vb_umr {
	uint32_t lkey; /* of the indirect key */
	bool empties;  /* the key opens nothing afterwards */
	unsigned access;
	uint64_t base; /* the address of the first byte */
	uint64_t rounds;
	uint32_t count;
	struct vb_umr_part parts[];
};

/* An empty key. -EINVAL: access, or no or too many parts; -ENOMEM. */
int vb_umr_create(struct vb_pd *pd, uint32_t room, unsigned access, struct vb_mr **out);
/* Executes a work request. False: refused, and the key is as it was. */
bool vb_umr_fill(struct vb_nic *nic, const struct vb_pd *pd, const struct vb_umr *umr);
/* A region ends: keys with parts of it open nothing from now on. */
void vb_umr_forget(struct vb_mr *mr);
/* The indirect key itself ends: no work request finds it any more. */
void vb_umr_withdraw(struct vb_mr *mr);
/* Frees the pattern, once no peer can look at it. Under nic->lock. */
void vb_umr_free(struct vb_mr *mr);

/* A child of fork frees its copy: the segment is its parent's. */
void vb_umr_drop(struct vb_mr *mr);

/* The pieces of an element whose lkey is indirect. False: it is not, or does not open them. */
bool vb_umr_find(struct vb_nic *nic, const struct vb_pd *pd, const struct ibv_sge *sge,
		 unsigned access, struct vb_pieces *pieces);

/* The region with a piece of an indirect key; NULL: it has ended. */
struct vb_mr *vb_umr_region(struct vb_nic *nic, uint32_t lkey, uint64_t addr, uint64_t length);

#endif

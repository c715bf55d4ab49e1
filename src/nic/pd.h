/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_NIC_PD_H
#define VB_NIC_PD_H

#include "nic/context.h"

struct vb_td {                  /* a thread domain: one thread at a time uses its objects */
	struct ibv_td ibv;      /* first */
	_Atomic uint32_t users; /* count of parent domains */
};

/* The application's own allocator, for the memory of its objects. */
struct vb_allocator {
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		       uint64_t type);
	void (*free)(struct ibv_pd *pd, void *context, void *at, uint64_t type);
	void *context;
};

struct vb_pd {
	struct ibv_pd ibv; /* first */
	struct vb_nic *nic;
	uint32_t id; /* names the domain in shared memory; a parent domain has the id of its PD */
	/* Count of MRs, MWs, AHs, QPs, SRQs, CQs and parent domains, and VB_PD_UNIMPORTED. */
	_Atomic uint32_t users;
	struct vb_pd *base; /* of a parent domain: the PD; NULL: this is no parent domain */
	struct vb_td *td;   /* of a parent domain, or NULL */
	struct vb_allocator allocator; /* of a parent domain; alloc NULL: none */
	struct vb_export *export; /* file with a record of the PD, referenced; or NULL (import.h) */
	struct vb_list same;      /* the objects that stand for one PD; under vb_export_lock */
	bool destroyed;           /* deallocated through another of these: the object is left */
};

/* A flag in users: the PD is freed with its last user. In one word with the count, so that only one
 * thread finds that it released the last user. */
#define VB_PD_UNIMPORTED (1u << 31)

static inline uint32_t vb_pd_user_count(const struct vb_pd *pd)
{
	return atomic_load(&pd->users) & ~VB_PD_UNIMPORTED;
}

static inline struct vb_pd *vb_pd(struct ibv_pd *ibv)
{
	return vb_container(ibv, struct vb_pd, ibv);
}

/* Do both mean the same protection domain? A parent domain stands for its PD. */
static inline bool vb_pd_same(const struct vb_pd *a, const struct vb_pd *b)
{
	return a == b || a->id == b->id;
}

/* The application promises that one thread at a time uses the objects of the PD. */
static inline bool vb_pd_single_threaded(const struct vb_pd *pd)
{
	return pd && pd->td;
}

int vb_pd_alloc(struct ibv_context *ctx, struct vb_pd **out);
/* A forked child goes on with an inherited PD, in its own NIC: 0 or -errno. */
int vb_pd_adopt(struct vb_pd *pd);
/*
 * An object of pd is gone; nic is the object's. Inherited objects never counted in an adopted PD.
 */
void vb_pd_release(struct vb_pd *pd, const struct vb_nic *nic);
/* Gives the PD a number of this NIC; -ENOMEM. */
int vb_pd_number(struct vb_nic *nic, struct vb_pd *pd);
/* -EBUSY: objects belong to the PD, or to a PD that was imported from it. */
int vb_pd_dealloc(struct vb_pd *pd);

/* --- parent domains (pd_parent.c) --- */

int vb_pd_alloc_parent(struct vb_pd *base, struct vb_td *td, const struct vb_allocator *allocator,
		       struct vb_pd **out);

enum vb_buffer_type { VB_BUFFER_SQ = 1, VB_BUFFER_RQ, VB_BUFFER_CQ };

/*
 * Zeroed memory for an object of pd, from the application's allocator if pd has one; pd may be
 * NULL. NULL: out of memory. The memory must be freed through the same pd.
 */
void *vb_buffer_alloc(struct vb_pd *pd, size_t size, enum vb_buffer_type type);
void vb_buffer_free(struct vb_pd *pd, void *at, enum vb_buffer_type type);

#endif

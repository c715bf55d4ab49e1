/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_NIC_PD_H
#define VB_NIC_PD_H

#include "nic/context.h"

struct vb_td {                  /* a thread domain: its objects are used by one thread at a time */
	struct ibv_td ibv;      /* first */
	_Atomic uint32_t users; /* parent domains */
};

/* What the application said of the memory of its objects. */
struct vb_allocator {
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		       uint64_t type);
	void (*free)(struct ibv_pd *pd, void *context, void *at, uint64_t type);
	void *context;
};

struct vb_pd {
	struct ibv_pd ibv; /* first */
	struct vb_nic *nic;
	uint32_t id; /* names the domain in shared memory; a parent domain has its PD's */
	_Atomic uint32_t
		users;      /* MRs, MWs, AHs, QPs, SRQs; CQs and parent domains; VB_PD_UNIMPORTED */
	struct vb_pd *base; /* of a parent domain: the PD; NULL: this is no parent domain */
	struct vb_td *td;   /* of a parent domain, or NULL */
	struct vb_allocator allocator; /* of a parent domain; alloc NULL: none */
	struct vb_export *export; /* that has a record of it, referenced; NULL: none (import.h) */
	struct vb_list same;      /* others for this PD, which were imported; vb_export_lock */
	bool destroyed;           /* through one of those: only the object is left */
};

/* In its users: it goes with the last of them. In one word, so that only one finds itself the last. */
#define VB_PD_UNIMPORTED (1u << 31)

static inline uint32_t vb_pd_user_count(const struct vb_pd *pd)
{
	return atomic_load(&pd->users) & ~VB_PD_UNIMPORTED;
}

static inline struct vb_pd *vb_pd(struct ibv_pd *ibv)
{
	return vb_container(ibv, struct vb_pd, ibv);
}

/* They mean the same protection domain: a parent domain stands for its PD. */
static inline bool vb_pd_same(const struct vb_pd *a, const struct vb_pd *b)
{
	return a == b || a->id == b->id;
}

/* Its objects are used by one thread at a time, says the application. */
static inline bool vb_pd_single_threaded(const struct vb_pd *pd)
{
	return pd && pd->td;
}

int vb_pd_alloc(struct ibv_context *ctx, struct vb_pd **out);
/* A forked child goes on with a PD that it inherited, in its own NIC: 0 or -errno. */
int vb_pd_adopt(struct vb_pd *pd);
/* An object of pd is gone; what a child inherited never counted in an adopted PD. */
void vb_pd_release(struct vb_pd *pd, const struct vb_nic *nic);
/* How the NIC names it; -ENOMEM. */
int vb_pd_number(struct vb_nic *nic, struct vb_pd *pd);
/* -EBUSY while anything belongs to it, or to one that was imported from it. */
int vb_pd_dealloc(struct vb_pd *pd);

/* --- parent domains (pd_parent.c) --- */

int vb_pd_alloc_parent(struct vb_pd *base, struct vb_td *td, const struct vb_allocator *allocator,
		       struct vb_pd **out);

enum vb_buffer_type { VB_BUFFER_SQ = 1, VB_BUFFER_RQ, VB_BUFFER_CQ };

/*
 * Memory of an object of pd (NULL: of none), filled with zeros, from the application's allocator if
 * it has one. NULL: there is none. Freed through the same pd.
 */
void *vb_buffer_alloc(struct vb_pd *pd, size_t size, enum vb_buffer_type type);
void vb_buffer_free(struct vb_pd *pd, void *at, enum vb_buffer_type type);

#endif

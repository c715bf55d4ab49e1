/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: an rkey for a part of a region, given and taken by work requests. Every QP of the
 * PD may use a window of type 1. Only the QP that bound it may use a window of type 2 (2B).
 */
#ifndef VB_NIC_MW_H
#define VB_NIC_MW_H

#include "nic/mr.h"

struct vb_mw {
	struct ibv_mw ibv;   /* first */
	struct vb_list node; /* in nic->mws */
	struct vb_nic *nic;
	struct vb_pd *pd;
	struct vb_key_entry *entry;
	_Atomic uint32_t *invalid; /* word in which senders take the window back; lent */
	uint32_t index;
	_Atomic uint32_t bound_lkey; /* of the region, while the entry is valid */
	/* Deallocated. The struct stays in nic->free_mws: a bind that names it may be queued. */
	_Atomic bool gone;
};

static inline struct vb_mw *vb_mw(struct ibv_mw *ibv)
{
	return vb_container(ibv, struct vb_mw, ibv);
}

struct vb_mw_bind {
	struct vb_mw *mw;
	uint32_t lkey; /* of the region; looked up when the request is executed */
	uint32_t rkey; /* the window's new key, from vb_mw_rkey */
	uint64_t addr, length;
	unsigned access;
	uint32_t rkey_before; /* the window's old key, restored if the request is not posted */
};

int vb_mw_alloc(struct vb_pd *pd, enum ibv_mw_type type, struct vb_mw **out);
int vb_mw_dealloc(struct vb_mw *mw);
/* The key that a bind gives the window; only the low 8 bits of asked count. */
uint32_t vb_mw_rkey(const struct vb_mw *mw, uint32_t asked);

/*
 * Executes a bind through a QP; length 0 unbinds type 1. False: refused (IBV_WC_MW_BIND_ERR), also
 * if the window was deallocated after the post. Runs inside a hazard: a thread that takes the
 * window or the region back waits.
 */
bool vb_mw_bind(const struct vb_mw_bind *bind, const struct vb_pd *pd, uint32_t qpn);
/* Writes why a bind was refused. Empty: nothing forbids it now. */
void vb_mw_words(const struct vb_mw_bind *bind, const struct vb_pd *pd, char *text, size_t size);
/* Takes a type 2 window of the target back by its rkey. False: no such window. */
bool vb_mw_invalidate(struct vb_peer *target, uint32_t rkey, uint32_t pd, uint32_t qpn);
/* A completion says that a sender took this window back: from now on no peer can undo that. */
void vb_mw_settle(struct vb_nic *nic, uint32_t rkey, uint32_t qpn);

bool vb_mw_any_bound_to(const struct vb_mr *mr);
/* The same without a sentence; under nic->lock. */
bool vb_mw_has_bound_to(const struct vb_mr *mr);

#endif

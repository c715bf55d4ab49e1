/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: basic SRQs, XRC SRQs, and SRQs that match tags. */
#ifndef VB_NIC_SRQ_H
#define VB_NIC_SRQ_H

#include "nic/cq.h"
#include "nic/rq.h"

struct vb_xrcd;
struct vb_tm;

struct vb_srq {
	struct ibv_srq ibv;  /* first */
	struct vb_list node; /* in nic->srqs */
	struct vb_pd *pd;
	struct vb_rq rq;
	uint32_t number;
	_Atomic uint32_t users; /* count of QPs */
	/* XRC only (xrcd_srq.c); NULL: a basic SRQ, for QPs that are created with it */
	struct vb_xrcd *xrcd;
	struct vb_cq *cq;
	struct vb_cq_queue receives; /* the queue that is attached to cq */
	struct vb_srq_entry *entry;
	_Atomic uint32_t async_taken;
	struct vb_tm *tm;       /* tag matching (tm.h); NULL: none */
	_Atomic uint8_t damage; /* enum vb_srq_damage */
};

/* Has a peer damaged a cell of the SRQ, and does the application know? */
enum vb_srq_damage { VB_SRQ_SOUND, VB_SRQ_DAMAGED, VB_SRQ_DAMAGE_TOLD };

static inline struct vb_srq *vb_srq(struct ibv_srq *ibv)
{
	return vb_container(ibv, struct vb_srq, ibv);
}

int vb_srq_create(struct vb_pd *pd, struct ibv_srq_init_attr *attr, struct vb_srq **out);
int vb_srq_modify(struct vb_srq *srq, const struct ibv_srq_attr *attr, int mask);
void vb_srq_query(struct vb_srq *srq, struct ibv_srq_attr *attr);
int vb_srq_destroy(struct vb_srq *srq); /* -EBUSY: QPs use it */
/* Raises the limit event, once, if a sender found the queue below its limit. */
void vb_srq_collect_limit(struct vb_srq *srq);
/* A receive was lost: IBV_EVENT_SRQ_ERR is due, once. The caller may hold any lock. */
void vb_srq_damaged(struct vb_srq *srq);
void vb_srq_collect_damage(struct vb_srq *srq);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC: a domain ties shared receive queues to the QPs that may bring messages for them. An
 * XRC_RECV QP belongs to a domain, not to a PD, and has neither queues nor CQs; an XRC SRQ belongs
 * to a domain and to a PD and completes at a CQ of its own. Messages name the SRQ by its number,
 * slot << 12 | index, so that the process that owns it is known without asking anybody.
 *
 * A domain that was opened with a file is the same in all processes that open it with that file;
 * that it exists is told by an abstract name that each of them holds (xrcd_claim.c).
 */
#ifndef VB_NIC_XRCD_H
#define VB_NIC_XRCD_H

#include "nic/qp.h"

struct vb_xrcd {
	struct ibv_xrcd ibv; /* first */
	struct vb_list node; /* in nic->xrcds */
	struct vb_nic *nic;
	struct vb_xrcd_id id;
	uint32_t number;        /* for listings */
	int claim;              /* -1: private */
	int file;               /* keeps the inode whose number is the identity; -1: private */
	_Atomic uint32_t users; /* SRQs and QPs, opened ones included */
};

static inline struct vb_xrcd *vb_xrcd(struct ibv_xrcd *ibv)
{
	return vb_container(ibv, struct vb_xrcd, ibv);
}

static inline bool vb_xrcd_same(const struct vb_xrcd_id *a, const struct vb_xrcd_id *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

/*
 * What ibv_open_qp gives: one more user of an XRC_RECV QP. Calls that post look at the NIC, the type
 * and the state of a QP first, and find one here that takes no work: it is never shown to peers, and
 * stays in RESET without queues.
 */
struct vb_xrc_handle {
	struct vb_qp qp;     /* first; of it ibv, nic, type, xrcd and async_taken are in use */
	struct vb_list node; /* in real->handles, or in nic->xrc_handles */
	struct vb_qp *real;  /* if it is in this process; else NULL ... */
	int session;         /* ... and the socket to the process that has it; -1: none */
	bool silent;         /* that process did not answer the last time; it may be stopped */
};

/* The handle that the application's QP is, or NULL: a QP that is one itself is shown to peers. */
static inline struct vb_xrc_handle *vb_xrc_handle(struct vb_qp *qp)
{
	if (qp->type != IBV_QPT_XRC_RECV || qp->entry)
		return NULL;
	return vb_container(qp, struct vb_xrc_handle, qp);
}

/* fd -1: a domain of this process alone. -EBADF, -EAGAIN (no O_CREAT and nobody has it), -EINVAL
 * (O_EXCL and somebody has it), -ENOMEM. */
int vb_xrcd_open(struct ibv_context *ctx, int fd, int oflags, struct vb_xrcd **out);
int vb_xrcd_close(struct vb_xrcd *xrcd); /* -EBUSY: SRQs or QPs use it */

/* Holds a name of the domain, so that others see that it exists: a descriptor, or -errno as above. */
int vb_xrcd_claim(const struct vb_xrcd_id *id, int oflags);

/* In a forked child: the parent's claims and connections are not ours. */
void vb_xrc_forget(struct vb_nic *nic);

/* --- SRQs (xrcd_srq.c) --- */

/* An SRQ that was just created becomes one of the domain, completing at cq. 0 or -errno. */
int vb_srq_join_xrcd(struct vb_srq *srq, struct vb_xrcd *xrcd, struct vb_cq *cq);
/* No message finds it any more, and nobody who was inside still is. */
int vb_srq_leave_xrcd(struct vb_srq *srq);

/* --- QPs (xrcd_qp.c) --- */

/* attr has no CQs or PD then: they are put in their place. */
int vb_xrc_qp_create(struct vb_xrcd *xrcd, const struct ibv_qp_init_attr *attr, struct vb_qp **out);
/* Another handle for a QP of this process. */
int vb_xrc_qp_open(struct vb_xrcd *xrcd, struct vb_qp *real, void *qp_context,
		   struct vb_xrc_handle **out);
/* A handle that stands for a QP elsewhere; it is not in any list yet. NULL: no memory. */
struct vb_xrc_handle *vb_xrc_handle_make(struct vb_xrcd *xrcd, void *qp_context, uint32_t qpn);
/* An event of it, to everybody who has it. */
void vb_xrc_qp_raise(struct vb_qp *real, enum ibv_event_type type);
/*
 * Handles that were opened, and those of other processes, keep a QP whose creator let go. Hold:
 * false, it is about to be destroyed. Drop: true for the last one, who then destroys it; all others
 * must not touch it any more.
 */
bool vb_xrc_qp_hold(struct vb_qp *real);
bool vb_xrc_qp_drop(struct vb_qp *real);
/* The creator's handle is destroyed: no events for it any more, and those it took are acked. */
void vb_xrc_creator_leaves(struct vb_qp *real);
/* The handle's part: its events are gone, its domain has one user less. */
void vb_xrc_handle_free(struct vb_xrc_handle *handle);

#endif

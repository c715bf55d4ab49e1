/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC: a domain ties shared receive queues to the QPs that may bring messages for them. An
 * XRC_RECV QP belongs to a domain, not to a PD, and has neither queues nor CQs. An XRC SRQ belongs
 * to a domain and to a PD, and completes at a CQ of its own. Messages name the SRQ by its number,
 * slot << 12 | index, so that a sender knows the owner's process from the number.
 *
 * All processes that open a domain with the same file share the domain. Each of them holds an
 * abstract name, which tells others that the domain exists (xrcd_claim.c).
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
	int file;               /* keeps the inode, whose number is the identity; -1: private */
	_Atomic uint32_t users; /* count of SRQs and QPs, opened handles included */
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
 * The result of ibv_open_qp: one more user of an XRC_RECV QP. Calls that post look at the NIC, the
 * type and the state of a QP first. This QP takes no work: peers never see it, and it stays in
 * RESET without queues.
 */
struct vb_xrc_handle {
	struct vb_qp qp;     /* first; only ibv, nic, type, xrcd and async_taken are in use */
	struct vb_list node; /* in real->handles, or in nic->xrc_handles */
	struct vb_qp *real;  /* the QP, if it is in this process; else NULL ... */
	int session;         /* ... and the socket to the process that has the QP; -1: none */
	bool silent;         /* that process did not answer last time; it may be stopped */
};

/* The handle behind the application's QP; NULL: the QP is no handle, for it has an entry. */
static inline struct vb_xrc_handle *vb_xrc_handle(struct vb_qp *qp)
{
	if (qp->type != IBV_QPT_XRC_RECV || qp->entry)
		return NULL;
	return vb_container(qp, struct vb_xrc_handle, qp);
}

/* fd -1: a domain of this process alone. -EBADF; -EAGAIN: no O_CREAT, and no process has it open;
 * -EINVAL: O_EXCL, and a process has it open; -ENOMEM. */
int vb_xrcd_open(struct ibv_context *ctx, int fd, int oflags, struct vb_xrcd **out);
int vb_xrcd_close(struct vb_xrcd *xrcd); /* -EBUSY: SRQs or QPs use it */

/* Holds a name of the domain, so that other processes see it: a descriptor, or -errno as above. */
int vb_xrcd_claim(const struct vb_xrcd_id *id, int oflags);

/* In a forked child: closes the copies of the parent's claims and connections. */
void vb_xrc_forget(struct vb_nic *nic);

/* --- SRQs (xrcd_srq.c) --- */

/* A new SRQ joins the domain, and completes at cq. 0 or -errno. */
int vb_srq_join_xrcd(struct vb_srq *srq, struct vb_xrcd *xrcd, struct vb_cq *cq);
/* Afterwards no message finds the SRQ, and no thread is inside any more. */
int vb_srq_leave_xrcd(struct vb_srq *srq);

/* --- QPs (xrcd_qp.c) --- */

/* attr has no CQs and no PD: the QP gets nic->xrc_cq and nic->xrc_pd. */
int vb_xrc_qp_create(struct vb_xrcd *xrcd, const struct ibv_qp_init_attr *attr, struct vb_qp **out);
/* Another handle for a QP of this process. */
int vb_xrc_qp_open(struct vb_xrcd *xrcd, struct vb_qp *real, void *qp_context,
		   struct vb_xrc_handle **out);
/* A handle for a QP of another process, not in any list yet. NULL: no memory. */
struct vb_xrc_handle *vb_xrc_handle_make(struct vb_xrcd *xrcd, void *qp_context, uint32_t qpn);
/* Raises an event for every handle of the QP. */
void vb_xrc_qp_raise(struct vb_qp *real, enum ibv_event_type type);
/*
 * Opened handles, also those of other processes, keep a QP whose creator has destroyed its handle.
 * Hold: false if the QP is being destroyed. Drop: true for the last holder, which then destroys the
 * QP; all others must not touch it any more.
 */
bool vb_xrc_qp_hold(struct vb_qp *real);
bool vb_xrc_qp_drop(struct vb_qp *real);
/* The creator's handle is destroyed: ends its events, and waits until fetched ones are acked. */
void vb_xrc_creator_leaves(struct vb_qp *real);
/* Frees a handle: drops its events, and releases its domain. */
void vb_xrc_handle_free(struct vb_xrc_handle *handle);

#endif

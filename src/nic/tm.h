/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: an SRQ with a list of tagged buffers. A message that begins with a tag matching
 * header goes into the first buffer whose tag it matches, anything else into an ordinary receive.
 *
 * The list is private to its process. So QPs of such an SRQ get packets from everybody, also from
 * processes of this host, and messages are matched in one place, under the wire lock
 * (path/roce/place_tm.c). All completions go straight to the CQ of the SRQ, in one order.
 *
 * Phases: tags that are added while there are unexpected messages that the application has not
 * counted yet (unexpected_cnt) match nothing until it has: one of those may be theirs.
 */
#ifndef VB_NIC_TM_H
#define VB_NIC_TM_H

#include "nic/cq.h"
#include "nic/qp.h"
#include "nic/srq.h"

enum vb_tag_state {
	VB_TAG_FREE,
	VB_TAG_IDLE, /* added out of phase: matches nothing yet */
	VB_TAG_LISTED,
	VB_TAG_TAKEN,   /* a message is on its way into it */
	VB_TAG_READING, /* a rendezvous: its data is being read */
};

struct vb_tag {              /* all under tm->lock, but for who has it TAKEN or READING */
	struct vb_list node; /* in tm->spare, or in tm->tags in the order of adding */
	enum vb_tag_state state;
	bool missed; /* TAKEN, and a removal was told so: it must complete */
	uint32_t handle;
	uint64_t recv_wr_id, tag, mask;
	uint32_t length, sge_count;
	struct ibv_sge sge[VB_TM_SGE_MAX];
};

struct vb_tm {
	struct vb_srq *srq;
	struct vb_cq_queue queue; /* completions of the SRQ's CQ */
	struct vb_loose loose;
	struct vb_spin lock;
	struct vb_list tags, spare;
	struct vb_tag *table;
	uint32_t tag_max, op_max;
	uint32_t ops;                /* posted */
	_Atomic uint32_t ops_polled; /* those whose completion, or a later one's, was polled */
	uint16_t unexpected;         /* messages that matched nothing */
	uint16_t counted;            /* how many of them the application has told of */
};

/* The message that a tag was found for. */
struct vb_tm_message {
	uint64_t tag;
	uint32_t app_ctx;
	uint32_t length; /* of the payload */
	uint32_t imm;
	unsigned wc_flags;
	uint32_t qpn, src_qpn;
	bool solicited;
};

int vb_tm_create(struct vb_srq *srq, struct vb_cq *cq, const struct ibv_tm_cap *cap);
void vb_tm_destroy(struct vb_srq *srq);
/* The SRQ has another depth: its CQ counts with that. Under nic->lock. */
void vb_tm_resized(struct vb_tm *tm);

/* One operation of ibv_post_srq_ops. 0, -EINVAL, or -ENOMEM: the list or the queue is full. */
int vb_tm_post(struct vb_tm *tm, struct ibv_ops_wr *op);

/* The first tag that matches, TAKEN; NULL: none does. */
struct vb_tag *vb_tm_match(struct vb_tm *tm, uint64_t tag);
/* A message matched nothing; and one of those will never complete after all. */
void vb_tm_unexpected(struct vb_tm *tm);
void vb_tm_unexpected_undo(struct vb_tm *tm);
/* What was TAKEN for a message that will never end is there for others. */
void vb_tm_give_back(struct vb_tm *tm, struct vb_tag *tag);

/* A message is in its tagged buffer, or failed there; the tag is free. False: the CQ overran. */
bool vb_tm_received(struct vb_tm *tm, struct vb_tag *tag, const struct vb_tm_message *message,
		    enum ibv_wc_status status, uint32_t reason);
/* A rendezvous matched: the tag is READING from now on. */
bool vb_tm_matched(struct vb_tm *tm, struct vb_tag *tag, const struct vb_tm_message *message);
/* A message, or a WRITE with immediate, in an ordinary receive, which is consumed. wc has all but the wr_id. */
bool vb_tm_plain(struct vb_tm *tm, uint32_t index, struct ibv_wc *wc, bool solicited);

/* --- rendezvous (tm_rndv.c): the SRQ's QP reads the data itself, and tells the sender --- */

struct vb_rendezvous {
	uint64_t va;
	uint32_t rkey, length;
	uint64_t tag;
	uint32_t app_ctx; /* comes back with the FIN */
	bool solicited;   /* the message that asked for it */
};

/* A send queue with room for what its QP posts itself, beside the application's. */
int vb_tm_sq_init(struct vb_sq *sq, const struct ibv_qp_cap *cap);
/* Room for one more in the send queue of the QP? */
bool vb_tm_rndv_room(struct vb_qp *qp);
void vb_tm_rndv_post(struct vb_qp *qp, struct vb_tag *tag, const struct vb_rendezvous *rndv);
/* A work request of its own was completed, flushed or forgotten. */
void vb_tm_rndv_done(struct vb_qp *qp, const struct vb_wqe *wqe);
/* Frees the entries of such, and what is unsignalled before them, where nobody polls. */
void vb_tm_rndv_retire(struct vb_qp *qp);
void vb_tm_rndv_forget(struct vb_qp *qp);

#endif

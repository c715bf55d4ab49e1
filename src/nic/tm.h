/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: an SRQ with a list of tagged buffers. A message that begins with a tag matching
 * header goes into the first buffer whose tag it matches. All other messages go into ordinary
 * receives.
 *
 * The list is private to its process. So QPs of such an SRQ get packets from all peers, also from
 * processes of this host, and messages are matched in one place, under the lock of the first lane
 * (path/roce/place_tm.c). All completions go straight to the CQ of the SRQ, in one order.
 *
 * Phases: the application counts unexpected messages (unexpected_cnt). A tag that is added before
 * that count has caught up matches nothing until it has: an uncounted message may be for that tag.
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

struct vb_tag { /* under tm->lock; while TAKEN or READING the message reads it freely */
	struct vb_list node; /* in tm->spare, or in tm->tags in the order of adding */
	enum vb_tag_state state;
	bool missed; /* TAKEN or READING, and a removal has failed: the tag must complete */
	uint32_t handle;
	uint64_t recv_wr_id, tag, mask;
	uint32_t length, sge_count;
	struct ibv_sge sge[VB_TM_SGE_MAX];
};

struct vb_tm {
	struct vb_srq *srq;
	struct vb_cq_queue queue; /* the queue that is attached to the SRQ's CQ */
	struct vb_loose loose;
	struct vb_spin lock;
	struct vb_list tags, spare;
	struct vb_tag *table;
	uint32_t tag_max, op_max;
	uint32_t ops;                /* count of posted operations */
	_Atomic uint32_t ops_polled; /* value of ops at the last operation that was polled */
	uint16_t unexpected;         /* count of messages that matched nothing */
	uint16_t counted;            /* the application's count of them */
};

/* A message that matched a tag. */
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
/* Tells the CQ the new depth of the SRQ. Under nic->lock. */
void vb_tm_resized(struct vb_tm *tm);

/* One operation of ibv_post_srq_ops. 0, -EINVAL, or -ENOMEM: the list or the queue is full. */
int vb_tm_post(struct vb_tm *tm, struct ibv_ops_wr *op);

/* The first tag that matches, TAKEN from now on; NULL: none matches. */
struct vb_tag *vb_tm_match(struct vb_tm *tm, uint64_t tag);
/*
 * Counts a message that matched nothing. The undo is for such a message that will never complete.
 */
void vb_tm_unexpected(struct vb_tm *tm);
void vb_tm_unexpected_undo(struct vb_tm *tm);
/* The message that has the tag TAKEN will never end: other messages may match the tag. */
void vb_tm_give_back(struct vb_tm *tm, struct vb_tag *tag);

/* A message has arrived in its tagged buffer, or failed there; frees the tag. False: the CQ
 * overran. */
bool vb_tm_received(struct vb_tm *tm, struct vb_tag *tag, const struct vb_tm_message *message,
		    enum ibv_wc_status status, uint32_t reason);
/* A rendezvous matched: the tag is READING from now on. */
bool vb_tm_matched(struct vb_tm *tm, struct vb_tag *tag, const struct vb_tm_message *message);
/* A message, or a WRITE with immediate, has arrived in an ordinary receive: consumes the receive.
 * wc has all but the wr_id. */
bool vb_tm_plain(struct vb_tm *tm, uint32_t index, struct ibv_wc *wc, bool solicited);

/* --- rendezvous (tm_rndv.c): the SRQ's QP reads the data itself, and tells the sender --- */

struct vb_rendezvous {
	uint64_t va;
	uint32_t rkey, length;
	uint64_t tag;
	uint32_t app_ctx; /* goes back to the sender with the FIN */
	bool solicited;   /* the request for the rendezvous was a solicited message */
};

/* A send queue with room for internal WQEs beside the application's. */
int vb_tm_sq_init(struct vb_sq *sq, const struct ibv_qp_cap *cap);
/* Has the send queue of the QP room for one more rendezvous? */
bool vb_tm_rndv_room(struct vb_qp *qp);
void vb_tm_rndv_post(struct vb_qp *qp, struct vb_tag *tag, const struct vb_rendezvous *rndv);
/* An internal WQE was completed, flushed or forgotten. */
void vb_tm_rndv_done(struct vb_qp *qp, const struct vb_wqe *wqe);
/* Retires finished internal WQEs, and the unsignalled ones before them, where the program does not
 * poll. */
void vb_tm_rndv_retire(struct vb_qp *qp);
void vb_tm_rndv_forget(struct vb_qp *qp);

#endif

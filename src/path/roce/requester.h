/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the files of the requester: requester.c takes turns and makes packets, requester_begin.c
 * begins work requests and ends them, requester_read.c asks for READs and ATOMICs,
 * requester_pace.c keeps to a rate, requester_wait.c waits, goes back and gives up.
 */
#ifndef VB_PATH_ROCE_REQUESTER_H
#define VB_PATH_ROCE_REQUESTER_H

#include "path/roce/roce.h"

/* What one turn knows about the WQE that it is at. */
struct vb_requester_turn {
	struct vb_wired *wired;
	unsigned budget;
	bool starved; /* others have the whole share */
	uint32_t end; /* of what is posted */
	bool checked; /* sge is that of the WQE with checked_index */
	uint32_t checked_index;
	struct ibv_sge sge[VB_SGE_MAX];
	unsigned sge_count;
};

static inline bool vb_requester_reliable(const struct vb_wired *wired)
{
	return vb_qp_reliable(wired->qp);
}

static inline uint8_t vb_requester_transport(const struct vb_wired *wired)
{
	return vb_qp_is_xrc(wired->qp)        ? VB_TRANSPORT_XRC
	       : vb_requester_reliable(wired) ? VB_TRANSPORT_RC
					      : VB_TRANSPORT_UC;
}

static inline uint32_t vb_requester_in_flight(const struct vb_requester *req)
{
	return (uint32_t)vb_psn_diff(req->next_psn, req->una_psn);
}

static inline bool vb_requester_reads_out(const struct vb_requester *req)
{
	return req->reads_head != req->reads_tail;
}

static inline void vb_requester_account(struct vb_wired *wired)
{
	vb_roce_account(wired, vb_requester_reliable(wired)
				       ? (uint64_t)vb_requester_in_flight(&wired->req) * wired->mtu
				       : 0);
}

/* requester.c */
/* Window, share and caution let a packet go. */
bool vb_requester_may_send(struct vb_requester_turn *turn);
/* A packet of this WQE is out, with PSNs for count; the cursor and next_psn go on. */
void vb_requester_sent(struct vb_requester_turn *turn, const struct vb_wqe *wqe, uint32_t count,
		       bool asks);
/* The WQE's elements are in turn->sge; VB_OK or VB_WHY_LOCAL_KEY. */
enum vb_reason vb_requester_memory(struct vb_requester_turn *turn, const struct vb_wqe *wqe,
				   uint32_t index, struct vb_report *report);

/* requester_begin.c */
/* The WQE at the cursor can never be sent: it fails once everything before it is done. */
void vb_requester_stop(struct vb_wired *wired, enum vb_reason reason,
		       const struct vb_report *report);
/* The WQE at req->begun, which is the next; false: not now. */
bool vb_requester_begin(struct vb_requester_turn *turn, struct vb_wqe *wqe);
void vb_requester_drained(struct vb_wired *wired);

/* requester_read.c */
/* Asks for the next piece of a READ, or for an ATOMIC; false: not now. */
bool vb_requester_read(struct vb_requester_turn *turn, const struct vb_wqe *wqe);
/* Requests whose answers reach to psn or beyond are going to be asked for again. */
void vb_requester_forget_reads(struct vb_requester *req, uint32_t psn);

/* requester_pace.c */
/* The rate lets the packet of the WQE go that comes next, and is charged for it; false: later. */
bool vb_requester_pace(struct vb_wired *wired, const struct vb_wqe *wqe, uint32_t rate_kbps);
/* UC: the pace of the whole process (pace.c). */
bool vb_requester_pace_all(struct vb_wired *wired);
/* What follows has to wait for the rate. */
bool vb_requester_pace_holds(const struct vb_wired *wired);

/* requester_wait.c */
void vb_requester_set_timer(struct vb_wired *wired);

#endif

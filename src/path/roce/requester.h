/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the files of the requester: requester.c takes turns and makes packets, requester_begin.c
 * begins and ends WQEs, requester_read.c sends requests of READs and ATOMICs, requester_pace.c
 * keeps to a rate, requester_wait.c waits, goes back and gives up.
 */
#ifndef VB_PATH_ROCE_REQUESTER_H
#define VB_PATH_ROCE_REQUESTER_H

#include "path/roce/roce.h"

/* One turn of a QP. */
struct vb_requester_turn {
	struct vb_wired *wired;
	unsigned budget; /* packets left */
	bool starved;    /* other QPs have the whole share */
	uint32_t end;    /* index behind the last posted WQE */
	bool checked;    /* sge belongs to the WQE with checked_index */
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

/* PSNs that are under way. Those that the peer holds behind a gap are not, and early answers. */
static inline uint32_t vb_requester_in_flight(const struct vb_requester *req)
{
	const uint32_t out = (uint32_t)vb_psn_diff(req->next_psn, req->una_psn);
	const uint32_t there = req->repair.held + req->answers.count;

	return out > there ? out - there : 0;
}

static inline bool vb_requester_reads_out(const struct vb_requester *req)
{
	return req->reads_head != req->reads_tail;
}

static inline void vb_requester_account(struct vb_wired *wired)
{
	const struct vb_requester *req = &wired->req;
	const uint64_t bytes = (uint64_t)vb_requester_in_flight(req) * wired->mtu;

	vb_roce_account(wired,
			vb_requester_reliable(wired) ? vb_share_bytes(&req->congestion, bytes) : 0);
}

/* requester.c */
/* True: window, share and caution let a packet leave. */
bool vb_requester_may_send(struct vb_requester_turn *turn);
/* A packet of this WQE has left, with count PSNs; moves the cursor and next_psn on. */
void vb_requester_sent(struct vb_requester_turn *turn, const struct vb_wqe *wqe, uint32_t count,
		       bool asks);
/* Sends the packet of a WQE that has this PSN. False: its memory is not mapped any more. */
bool vb_requester_send(struct vb_requester_turn *turn, const struct vb_wqe *wqe, uint32_t psn,
		       bool asks);
/* Translates the WQE's elements to turn->sge; VB_OK or VB_WHY_LOCAL_KEY. */
enum vb_reason vb_requester_memory(struct vb_requester_turn *turn, const struct vb_wqe *wqe,
				   uint32_t index, struct vb_report *report);

/* requester_begin.c */
/* The WQE at the cursor can never be sent: it fails once all WQEs before it are done. */
void vb_requester_stop(struct vb_wired *wired, enum vb_reason reason,
		       const struct vb_report *report);
/* Begins the WQE at req->begun; false: not now. */
bool vb_requester_begin(struct vb_requester_turn *turn, struct vb_wqe *wqe);
void vb_requester_drained(struct vb_wired *wired);

/* requester_read.c */
/* Sends the request of the next piece of a READ, or of an ATOMIC; false: not now. */
bool vb_requester_read(struct vb_requester_turn *turn, const struct vb_wqe *wqe);
/* Sends a request of the WQE at index again, with the *count PSNs that it had from psn on. VB_OK or
 * a reason: memory of the WQE is missing. */
enum vb_reason vb_requester_read_again(struct vb_requester_turn *turn, uint32_t index, uint32_t psn,
				       uint32_t *count, struct vb_report *report);
/* True: a READ is at una_psn. */
bool vb_requester_una_reads(const struct vb_wired *wired);
/* Asks again for answers that are missing, and for no more. */
void vb_requester_ask_parts(struct vb_requester_turn *turn);
/* Forgets requests whose answers reach to psn or beyond: they are going to be sent again. */
void vb_requester_forget_reads(struct vb_requester *req, uint32_t psn);

/* requester_pace.c */
/* True: the rate lets the next packet of the WQE leave, and was charged for it; false: later. */
bool vb_requester_pace(struct vb_wired *wired, const struct vb_wqe *wqe, uint32_t rate_kbps);
/* UC: true if the pace of the whole process (pace.c) lets a packet leave. */
bool vb_requester_pace_all(struct vb_wired *wired);
/* This many packets leave, or are asked for: the pause that congestion asks for begins. */
void vb_requester_gap_begin(struct vb_wired *wired, uint32_t count);
/* True: that pause is over; false: the timer is set to its end. */
bool vb_requester_gap_over(struct vb_wired *wired);
/* True: the next packet has to wait for the rate. */
bool vb_requester_pace_holds(const struct vb_wired *wired);

/* requester_wait.c */
/* Packets, or answers, are lost: window and share may have to shrink. */
void vb_requester_lost(struct vb_wired *wired, uint32_t packets);
void vb_requester_set_timer(struct vb_wired *wired);

#endif

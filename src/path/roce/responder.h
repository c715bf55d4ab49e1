/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the files of RC's responder: responder.c compares PSNs and executes SENDs and WRITEs,
 * responder_gap.c has the packets behind gaps, responder_read.c executes requests with an answer of
 * their own, responder_refuse.c refuses.
 */
#ifndef VB_PATH_ROCE_RESPONDER_H
#define VB_PATH_ROCE_RESPONDER_H

#include "path/roce/roce.h"

/* responder.c */
/* The request is done, and its PSNs are used up. */
void vb_responder_executed(struct vb_wired *wired, const struct vb_packet *packet, uint32_t psns);

/* Before the first message: a packet came with another PSN than the one that is expected. */
void vb_responder_explain_psn(struct vb_wired *wired, uint32_t psn);

/* responder_gap.c */
/* A request came behind a gap. */
void vb_responder_gap(struct vb_wired *wired, const struct vb_packet *packet);
/* A request that was missing has come. */
void vb_responder_gap_filled(struct vb_wired *wired, const struct vb_packet *packet);
/* expected_psn was executed, or refused. */
void vb_responder_gap_moved(struct vb_wired *wired);

/* responder_read.c: READ, ATOMIC, ATOMIC WRITE, FLUSH */
void vb_responder_answer(struct vb_wired *wired, const struct vb_packet *packet);
/* The same for a duplicate. */
void vb_responder_answer_again(struct vb_wired *wired, const struct vb_packet *packet);
/* The number of PSNs that the request uses up. */
uint32_t vb_responder_psns(const struct vb_wired *wired, const struct vb_packet *packet);

/* responder_refuse.c */
/* UC, UD: the message is dropped. Once per reason: a datagram may come from any host. arrival: of a
 * datagram; NULL: UC. have: the number of its sentence (exec/reason.c). */
void vb_responder_explain_drop(struct vb_wired *wired, const struct vb_packet *packet,
			       const struct vb_arrival *arrival, enum vb_reason reason,
			       uint64_t have);
void vb_responder_nak(struct vb_wired *wired, uint8_t syndrome, uint32_t psn);
/* The QP fails once all requests before are answered and the NAK has left. */
void vb_responder_refuse(struct vb_wired *wired, const struct vb_packet *packet,
			 enum vb_reason reason);
/* The request is executed and acknowledged. Then the QP fails, and its receive has the status. */
void vb_responder_fail_behind(struct vb_wired *wired, const struct vb_packet *packet,
			      enum vb_reason reason);
/* Explains a refused request on this side. target: as the request sees this process. */
void vb_responder_explain(const struct vb_wired *wired, const struct vb_remote *target,
			  enum vb_family family, const struct vb_report *report);
void vb_responder_not_ready(struct vb_wired *wired, const struct vb_packet *packet);
/* The request is right, but cannot be executed at the moment: it is dropped as if it were lost,
 * with all that follow it. A sequence NAK would use up the requester's retries. */
void vb_responder_postpone(struct vb_wired *wired);
/* The number of answers due that count against max_dest_rd_atomic. */
uint32_t vb_responder_resources(const struct vb_responder *resp);

#endif

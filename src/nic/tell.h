/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hints for tools about work requests (base/annotate.h). Until its completion is polled, the
 * buffers of a work request belong to the NIC. So the NIC's accesses are told as accesses of the
 * thread that polls, and a thread of the program that touches a buffer before that races with it.
 *
 * These happen before a poll: the post of the work request that it finds; for a receive, the post
 * of the SEND as well, by another thread of this process. An atomic or a READ sees what an earlier
 * WRITE or atomic of this process at the same address has told.
 */
#ifndef VB_NIC_TELL_H
#define VB_NIC_TELL_H

#include "base/annotate.h"
#include "base/probe.h"
#include "nic/cq.h"
#include "nic/rq.h"
#include "nic/sq.h"

struct vb_qp;

/* Out of line: only for a program that a tool watches. */
/* Before the work requests may be seen by another thread. */
void vb_tool_post_send(const struct vb_qp *qp, const struct ibv_send_wr *wr);
void vb_tool_sent(const struct vb_qp *qp, const struct vb_wqe *wqe, const struct ibv_wc *wc);
void vb_tool_received(const struct vb_rq *rq, uint32_t index, const struct ibv_wc *wc);

/* A completion is in *wc; its WQE or receive is still there. */
static inline void vb_tell_sent(const struct vb_qp *qp, const struct vb_wqe *wqe,
				const struct ibv_wc *wc)
{
	VB_PROBE(poll, wc->qp_num, wc->wr_id, wc->status, 0);
	if (vb_is_watched())
		vb_tool_sent(qp, wqe, wc);
}

static inline void vb_tell_received(const struct vb_rq *rq, uint32_t index, const struct ibv_wc *wc)
{
	VB_PROBE(poll, wc->qp_num, wc->wr_id, wc->status, 1);
	if (vb_is_watched())
		vb_tool_received(rq, index, wc);
}

/* Peers may write to the memory at any time from now on, and nothing tells when. */
void vb_tell_opened(uint64_t addr, uint64_t length, unsigned access);

#endif

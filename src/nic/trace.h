/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stations of work requests, for a program that traces (capture/record.h). All functions are out of
 * line: their callers have found that a tool watches, or that a program captures.
 */
#ifndef VB_NIC_TRACE_H
#define VB_NIC_TRACE_H

#include "capture/ring.h"
#include "nic/rq.h"
#include "nic/sq.h"

struct vb_qp;

/* Work requests `first` to `end` of the send queue are posted. */
void vb_trace_posted(const struct vb_qp *qp, uint32_t first, uint32_t end);
/* Before scanned moves past the WQE. */
void vb_trace_polled(const struct vb_qp *qp, const struct vb_wqe *wqe, const struct ibv_wc *wc);
/* The WQE at next, by packets up to this PSN. */
void vb_trace_begun(const struct vb_qp *qp, const struct vb_wqe *wqe, uint32_t index, uint32_t psn);
/* Work requests `first` to `end` are complete, on the wire. */
void vb_trace_done(const struct vb_qp *qp, uint32_t first, uint32_t end);
void vb_trace_waits(const struct vb_qp *qp, enum vb_trace_wait why);

void vb_trace_recv_posted(const struct vb_rq *rq, uint32_t first, uint32_t end);
void vb_trace_recv_placed(uint32_t qpn, uint32_t src_qpn, uint32_t index, uint32_t psn);
void vb_trace_recv_polled(const struct vb_rq *rq, uint32_t index, const struct ibv_wc *wc);

#endif

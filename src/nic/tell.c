/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/tell.h"

#include "nic/qp.h"
#include "nic/trace.h"
#include "wire/opcode.h"

enum {
	GROUP_QPN = 0xffffff, /* the target of datagrams to a group */
	REMOTE_WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	OPENED_MAX_LOG = 40, /* longer regions are address space, not memory */
};

/* A trace is interested in the work request alone. */
static bool memory_is_watched(void)
{
	return vb_tools & ~(unsigned)VB_TOOL_TRACE;
}

/* --- posts --- */

/* The target may belong to this process. If it does not, no thread acquires. */
static void release_target(const struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	const struct vb_wr_row *row = vb_wr_row_any(wr->opcode);

	if (row->recv_opcode)
		vb_tool_release(vb_sync_at(qp->type == IBV_QPT_UD ? wr->wr.ud.remote_qpn
								  : qp->attr.dest_qp_num));
	if (row->family == VB_FAMILY_ATOMIC)
		vb_tool_release(vb_sync_at(wr->wr.atomic.remote_addr));
	else if (row->access & IBV_ACCESS_REMOTE_WRITE)
		vb_tool_release(vb_sync_at(wr->wr.rdma.remote_addr));
}

void vb_tool_post_send(const struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	if (!memory_is_watched())
		return;
	vb_tool_release(&qp->sq);
	for (; wr; wr = wr->next)
		release_target(qp, wr);
}

/* --- completions --- */

/* The region may be gone by now: the program deregistered it before it polled. */
static void element_sent(const struct vb_qp *qp, const struct ibv_sge *sge, bool returns)
{
	const unsigned access = returns ? IBV_ACCESS_LOCAL_WRITE : 0;
	const struct vb_mr *mr = sge->length ? vb_mr_lookup(qp->nic, qp->pd, sge, access) : NULL;

	if (!mr || mr->null)
		return;
	if (returns)
		vb_tool_written(vb_mr_ptr(mr, sge->addr), sge->length);
	else
		vb_tool_read(vb_mr_ptr(mr, sge->addr), sge->length);
}

void vb_tool_sent(const struct vb_qp *qp, const struct vb_wqe *wqe, const struct ibv_wc *wc)
{
	const bool returns = vb_wr_returns(wqe->opcode);

	if (vb_tools & VB_TOOL_TRACE)
		vb_trace_polled(qp, wqe, wc);
	if (!memory_is_watched())
		return;
	vb_tool_filled(wc, sizeof(*wc));
	vb_tool_acquire(&qp->sq);
	if (wc->status != IBV_WC_SUCCESS || wqe->inlined || vb_wr_stays(wqe->opcode))
		return;
	if (returns)
		vb_tool_acquire(vb_sync_at(wqe->remote_addr));
	for (unsigned i = 0; i < wqe->sge_count; i++)
		element_sent(qp, &wqe->sge[i], returns);
}

void vb_tool_received(const struct vb_rq *rq, uint32_t index, const struct ibv_wc *wc)
{
	const struct vb_recv_wqe *twin = vb_rq_twin(rq, index);
	uint32_t left = wc->byte_len;

	if (vb_tools & VB_TOOL_TRACE)
		vb_trace_recv_polled(rq, index, wc);
	if (!memory_is_watched())
		return;
	vb_tool_filled(wc, sizeof(*wc));
	vb_tool_acquire(rq);
	vb_tool_acquire(vb_sync_at(wc->qp_num));
	vb_tool_acquire(vb_sync_at(GROUP_QPN));
	if (wc->status != IBV_WC_SUCCESS || wc->opcode != IBV_WC_RECV)
		return;
	for (unsigned i = 0; left && i < twin->sge_count; i++) {
		uint32_t part = twin->sge[i].length < left ? twin->sge[i].length : left;

		vb_tool_written((void *)(uintptr_t)twin->sge[i].addr, part);
		left -= part;
	}
}

/* --- memory --- */

void vb_tell_opened(uint64_t addr, uint64_t length, unsigned access)
{
	if (memory_is_watched() && access & REMOTE_WRITES && !(length >> OPENED_MAX_LOG))
		vb_tool_filled((void *)(uintptr_t)addr, length);
}

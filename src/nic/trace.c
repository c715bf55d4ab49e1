/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/trace.h"

#include "nic/cq.h"
#include "nic/qp.h"
#include "nic/srq.h"

/* The number of a CQ in listings (engine/attach/describe.h). */
static uint32_t cq_number(const struct vb_cq *cq)
{
	return cq ? (uint32_t)(cq->shared_offset / 64) : 0;
}

static struct vb_capture_station of_wqe(const struct vb_qp *qp, const struct vb_wqe *wqe,
					uint32_t index, enum vb_station station)
{
	return (struct vb_capture_station){ .station = station,
					    .qpn = qp->ibv.qp_num,
					    .index = index,
					    .wr_id = wqe->wr_id,
					    .opcode = wqe->opcode,
					    .length = wqe->length,
					    .status = wqe->status,
					    .cq = cq_number(qp->send_cq) };
}

void vb_trace_posted(const struct vb_qp *qp, uint32_t first, uint32_t end)
{
	for (; first != end; first++) {
		const struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, first);
		struct vb_capture_station station = of_wqe(qp, wqe, first, VB_STATION_POSTED);

		station.status = IBV_WC_SUCCESS; /* that of an older WQE */
		vb_capture_station(&station);
	}
}

void vb_trace_polled(const struct vb_qp *qp, const struct vb_wqe *wqe, const struct ibv_wc *wc)
{
	struct vb_capture_station station = of_wqe(qp, wqe, qp->sq.scanned, VB_STATION_POLLED);

	station.status = (uint8_t)wc->status;
	vb_capture_station(&station);
}

void vb_trace_begun(const struct vb_qp *qp, const struct vb_wqe *wqe, uint32_t index, uint32_t psn)
{
	struct vb_capture_station station = of_wqe(qp, wqe, index, VB_STATION_BEGUN);

	station.status = IBV_WC_SUCCESS;
	station.psn = psn;
	station.peer_qpn = qp->type == IBV_QPT_UD ? wqe->remote_qpn : qp->attr.dest_qp_num;
	vb_capture_station(&station);
}

void vb_trace_done(const struct vb_qp *qp, uint32_t first, uint32_t end)
{
	for (; first != end; first++) {
		const struct vb_capture_station station =
			of_wqe(qp, vb_sq_wqe(&qp->sq, first), first, VB_STATION_DONE);

		vb_capture_station(&station);
	}
}

void vb_trace_waits(const struct vb_qp *qp, enum vb_trace_wait why)
{
	const struct vb_capture_station station = { .station = VB_STATION_WAITS,
						    .qpn = qp->ibv.qp_num,
						    .index = qp->sq.next,
						    .why = (uint8_t)why };

	vb_capture_station(&station);
}

/* --- receives --- */

void vb_trace_recv_posted(const struct vb_rq *rq, uint32_t first, uint32_t end)
{
	const struct vb_capture_station station = { .station = VB_STATION_RECV_POSTED,
						    .qpn = rq->qpn,
						    .srq = rq->srq ? rq->srq->number : 0,
						    .receive = first,
						    .length = end - first };

	if (first != end)
		vb_capture_station(&station);
}

void vb_trace_recv_placed(uint32_t qpn, uint32_t src_qpn, uint32_t index, uint32_t psn)
{
	const struct vb_capture_station station = { .station = VB_STATION_RECV_PLACED,
						    .qpn = qpn,
						    .peer_qpn = src_qpn,
						    .receive = index,
						    .psn = psn };

	vb_capture_station(&station);
}

static const struct vb_cq *cq_of(const struct vb_rq *rq, uint32_t qpn)
{
	const struct vb_qp *qp = vb_nic_qp(rq->nic, qpn);

	return qp ? qp->recv_cq : NULL;
}

void vb_trace_recv_polled(const struct vb_rq *rq, uint32_t index, const struct ibv_wc *wc)
{
	const struct vb_capture_station station = {
		.station = VB_STATION_RECV_POLLED,
		.qpn = wc->qp_num,
		.srq = rq->srq ? rq->srq->number : 0,
		.peer_qpn = wc->src_qp,
		.receive = index,
		.wr_id = wc->wr_id,
		.length = wc->byte_len,
		.status = (uint8_t)wc->status,
		.opcode = wc->opcode & 1,
		.cq = cq_number(cq_of(rq, wc->qp_num)),
	};

	vb_capture_station(&station);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * While a program captures, each work request of the local path leaves a record from which its
 * packets can be made (capture/record.h). Nothing counts PSNs here otherwise, so those of a
 * connection begin with the capture: each work request before it counts as one packet.
 */
#include <string.h>

#include "base/clock.h"
#include "capture/ring.h"
#include "path/local/step.h"
#include "wire/packet.h"

/* The answer of the target, and the packets that it had before. */
struct answer {
	bool any;
	uint8_t syndrome;
	uint32_t packet; /* NAK: the packet that it answers */
	uint32_t count;  /* request packets that were sent */
};

static uint32_t mtu_of(const struct vb_qp *qp)
{
	enum ibv_mtu mtu = qp->type == IBV_QPT_UD ? IBV_MTU_4096 : qp->attr.path_mtu;

	return 128u << (mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? mtu : IBV_MTU_1024);
}

static uint32_t packets_of(uint32_t length, uint32_t mtu)
{
	return length ? (length + mtu - 1) / mtu : 1;
}

/* Counts the work requests that were not captured. */
static void catch_up(struct vb_sq *sq)
{
	sq->captured.psn += sq->next - sq->captured.index;
	sq->captured.messages += sq->next - sq->captured.index;
	sq->captured.index = sq->next;
}

/* False: the work request failed before it would have sent a packet. */
static bool answer_of(const struct vb_step_context *step, const struct vb_wqe *wqe,
		      enum vb_reason reason, uint32_t mtu, struct answer *answer)
{
	const struct vb_reason_row *row = vb_reason_row(reason);
	const uint32_t all = packets_of(wqe->length, mtu);

	*answer = (struct answer){ vb_qp_reliable(step->qp), VB_CREDITS_NONE, 0, all };
	if (reason == VB_OK || row->status == IBV_WC_SUCCESS)
		return true;
	answer->count = 1;
	answer->syndrome = row->syndrome;
	if (reason == VB_WHY_NO_RECEIVE)
		answer->syndrome = VB_SYNDROME_RNR |
				   (step->qp->remote.entry->min_rnr_timer & VB_SYNDROME_VALUE);
	if (reason == VB_WHY_RECV_SHORT) { /* the first packet that does not fit */
		answer->packet = (uint32_t)(step->report.have / mtu);
		if (answer->packet >= all)
			answer->packet = all - 1;
		answer->count = answer->packet + 1;
	}
	answer->any = answer->any && answer->syndrome;
	return answer->any || row->status == IBV_WC_RETRY_EXC_ERR;
}

static void work_describe(const struct vb_step_context *step, const struct vb_wqe *wqe,
			  struct vb_capture_work *work)
{
	const struct vb_qp *qp = step->qp;
	const bool datagram = qp->type == IBV_QPT_UD;
	const struct vb_av *av = datagram ? &wqe->ah->av : &qp->av;

	memcpy(work->sgid, av->sgid.raw, sizeof(work->sgid));
	memcpy(work->dgid, av->dgid.raw, sizeof(work->dgid));
	work->traffic_class = av->traffic_class;
	work->hop_limit = av->hop_limit;
	work->sl = av->sl;
	work->infiniband = av->dlid != 0;
	work->wr_id = wqe->wr_id;
	work->remote_addr = datagram ? 0 : wqe->remote_addr;
	work->operand[0] = wqe->operand[0];
	work->operand[1] = wqe->operand[1];
	work->original = 0;
	work->qpn = qp->ibv.qp_num;
	work->dest_qpn = datagram ? wqe->remote_qpn : qp->attr.dest_qp_num;
	work->srqn = qp->type == IBV_QPT_XRC_SEND ? wqe->srqn : 0;
	work->length = wqe->length;
	work->rkey = datagram ? 0 : wqe->rkey;
	work->imm = wqe->imm;
	work->qkey = datagram ? vb_qp_datagram_qkey(qp, wqe->remote_qkey) : 0;
	work->pkey = vb_qp_pkey(qp);
	work->opcode = wqe->opcode;
	work->type = qp->type;
	work->solicited = wqe->solicited && vb_wr_consumes(wqe->opcode);
}

/* The bytes of the packets from `first` on; bytes that are missing are left out. */
static size_t payload_gather(const struct vb_step_context *step, const struct vb_capture_work *work,
			     uint32_t first, uint32_t count, uint8_t *out)
{
	const uint64_t end = (uint64_t)(first + count) * work->mtu;
	uint8_t *at = out;

	for (uint64_t offset = (uint64_t)first * work->mtu; offset < end && offset < work->length;
	     offset += work->mtu) {
		uint32_t left = work->length - (uint32_t)offset;
		uint32_t keep = left < work->mtu ? left : work->mtu;

		if (keep > work->bytes)
			keep = work->bytes;
		if (!vb_path_gather(step->sge, step->sge_count, offset, keep, at))
			break;
		at += keep;
	}
	return (size_t)(at - out);
}

/* Writes a record for packets `first` to `first` + `count`, with the answer behind the last. */
static void work_record(const struct vb_step_context *step, const struct vb_capture_work *model,
			uint32_t first, uint32_t count)
{
	const size_t head = sizeof(struct vb_capture_head);
	const bool reads = model->opcode == IBV_WR_RDMA_READ;
	const size_t room = (size_t)count * (model->bytes < model->mtu ? model->bytes : model->mtu);
	struct vb_capture_work *work =
		vb_capture_begin(VB_CAPTURE_WORK, sizeof(*work) + room,
				 count + (model->answers && !first), step->begun_ns);

	if (!work)
		return;
	memcpy((uint8_t *)work + head, (const uint8_t *)model + head, sizeof(*work) - head);
	work->first = first;
	work->count = count;
	if (!reads)
		work->answers = model->answers && first + count == model->count;
	/* Records have a fixed size here; the reader takes the bytes that the packets need. */
	if (model->bytes && payload_gather(step, model, first, count, (uint8_t *)(work + 1)) == 0)
		work->bytes = 0;
	vb_capture_end();
}

static bool has_payload(const struct vb_capture_work *work)
{
	return work->opcode != IBV_WR_FLUSH && work->opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
	       work->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* A long message leaves several records. */
static void work_records(struct vb_step_context *step, struct vb_capture_work *work)
{
	const uint32_t kept = work->bytes < work->mtu ? work->bytes : work->mtu;
	const uint32_t most = kept ? VB_CAPTURE_PAYLOAD / kept : UINT32_MAX;

	for (uint32_t first = 0; first < work->count; first += most) {
		uint32_t left = work->count - first;

		work_record(step, work, first, left < most ? left : most);
		if (left <= most)
			break;
	}
}

/*
 * The bytes of the work request lie at these elements; false: they cannot be read now. Nobody knows
 * whether the memory of a work request that failed, or of a datagram that was dropped, is there.
 */
static bool find_bytes(struct vb_step_context *step, const struct vb_wqe *wqe,
		       enum vb_reason reason)
{
	struct vb_report report;

	return !reason && !step->report.reason &&
	       !vb_path_check_sges(step->qp, wqe, 0, step->sge, &step->sge_count, &report);
}

static void capture(struct vb_step_context *step, const struct vb_wqe *wqe, enum vb_reason reason)
{
	struct vb_sq *sq = &step->qp->sq;
	struct vb_capture_work work = { .mtu = mtu_of(step->qp), .bytes = vb_capture_bytes() };
	struct answer answer;
	bool found;

	if (!answer_of(step, wqe, reason, work.mtu, &answer))
		return;
	work_describe(step, wqe, &work);
	work.ended_ns = vb_now_ns();
	work.status = (uint8_t)vb_reason_row(reason)->status;
	work.psn = vb_psn_add(step->qp->attr.sq_psn, sq->captured.psn);
	work.msn = (sq->captured.messages + (answer.syndrome == VB_CREDITS_NONE)) & VB_PSN_MASK;
	work.answers = answer.any;
	work.syndrome = answer.syndrome;
	work.naked = answer.packet;
	work.count = answer.count;
	found = find_bytes(step, wqe, reason);
	if (vb_wr_is_word(wqe->opcode) && work.bytes < sizeof(uint64_t))
		work.bytes = sizeof(uint64_t); /* an ATOMIC WRITE has one length */
	if (!found || !has_payload(&work))
		work.bytes = 0;
	if (found && !has_payload(&work) && vb_wr_returns(wqe->opcode))
		(void)vb_path_gather(step->sge, step->sge_count, 0, sizeof(work.original),
				     (uint8_t *)&work.original);
	work_records(step, &work);
}

/* A datagram that was put aside is done already, and has no place in the queue. */
static void trace_done(const struct vb_step_context *step, const struct vb_wqe *wqe,
		       enum vb_reason reason)
{
	const struct vb_qp *qp = step->qp;
	struct vb_capture_station station = { .station = VB_STATION_DONE,
					      .qpn = qp->ibv.qp_num,
					      .index = qp->sq.next,
					      .wr_id = wqe->wr_id,
					      .opcode = wqe->opcode,
					      .length = wqe->length,
					      .begun_ns = step->begun_ns,
					      .status = (uint8_t)vb_reason_row(reason)->status };

	if (!reason && !step->report.reason && vb_wr_consumes(wqe->opcode)) {
		station.peer_qpn = qp->type == IBV_QPT_UD ? wqe->remote_qpn : qp->attr.dest_qp_num;
		station.receive = step->receive;
	}
	if (!step->aside)
		vb_capture_station(&station);
}

void vb_step_capture(struct vb_step_context *step, enum vb_reason reason)
{
	struct vb_sq *sq = &step->qp->sq;
	const struct vb_wqe *wqe = step->aside ? &step->aside->wqe : vb_sq_wqe(sq, sq->next);

	if (vb_captures(VB_WANT_STATIONS))
		trace_done(step, wqe, reason);
	if (!vb_captures(VB_WANT_PACKETS))
		return;
	catch_up(sq);
	if (!vb_wr_stays(wqe->opcode) && !wqe->foreign_ah)
		capture(step, wqe, reason);
	if (reason == VB_OK || vb_reason_row(reason)->status == IBV_WC_SUCCESS) {
		sq->captured.psn +=
			vb_wr_stays(wqe->opcode) ? 0 : packets_of(wqe->length, mtu_of(step->qp));
		sq->captured.messages++;
	}
	sq->captured.index += !step->aside; /* the WQE at next completes */
}

void vb_step_capture_rnr(struct vb_step_context *step)
{
	if (!vb_captures(VB_WANT_PACKETS))
		return;
	catch_up(&step->qp->sq);
	capture(step, step->wqe, VB_WHY_NO_RECEIVE);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The send queue of a raw packet QP: each work request is one Ethernet frame, without its FCS. */
#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/message.h"
#include "net/netif.h"
#include "nic/rate.h"
#include "path/raw/raw.h"
#include "path/raw/tso.h"

enum { FULL_WAIT_NS = 50000 }; /* the socket's buffer is full: the interface needs a while */

struct sending {
	struct vb_run *run;
	struct vb_raw_port *port;
	uint32_t length_max;
	uint64_t again_ns; /* time of the next try, for a frame that could not leave */
	struct vb_report report;
};

static uint32_t length_max(const struct vb_raw_port *port)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const struct vb_netif *netif = vb_netif_by_index(all, port->ifindex);
	uint32_t mtu = netif ? netif->mtu : 0;

	vb_netif_snapshot_put(all);
	return (mtu < 65536 ? mtu : 65536) + VB_FRAME_MIN + VB_VLAN_TAG;
}

/* Opcode and length: a message must fit into port->out. */
static enum vb_reason wqe_check(struct sending *sending, const struct vb_wqe *wqe)
{
	const struct vb_tso *tso;

	sending->report.want = sending->length_max;
	if (!vb_wr_on(vb_wr_row(wqe->opcode), IBV_QPT_RAW_PACKET))
		return VB_WHY_OPCODE_TRANSPORT;
	if (wqe->opcode != IBV_WR_TSO)
		return wqe->length < VB_FRAME_MIN || wqe->length > sending->length_max
			       ? VB_WHY_RAW_LENGTH
			       : VB_OK;
	tso = vb_tso_at(sending->run->qp, sending->run->qp->sq.next);
	if ((uint32_t)tso->header_length + tso->mss > sending->length_max)
		return VB_WHY_RAW_LENGTH;
	sending->report.want = VB_TSO_MAX;
	return wqe->length > VB_TSO_MAX ? VB_WHY_LENGTH_MAX : VB_OK;
}

/* Copies the bytes of a WQE to port->out. Their memory may be deregistered at any time. */
static enum vb_reason wqe_gather(struct sending *sending, const struct vb_wqe *wqe)
{
	struct vb_qp *qp = sending->run->qp;
	struct vb_thread *thread = sending->run->thread;
	struct ibv_sge sge[VB_SGE_MAX];
	unsigned count;
	enum vb_reason reason;

	vb_hazard_enter(thread, qp->nic->self->head_slot);
	reason = vb_path_check_sges(qp, wqe, 0, sge, &count, &sending->report);
	if (!reason && !vb_path_gather(sge, count, 0, wqe->length, sending->port->out))
		reason = VB_WHY_LOCAL_MEMORY;
	vb_hazard_leave(thread);
	return reason;
}

/* False: the socket is full, try again later. */
static bool frame_to_interface(struct vb_raw_port *port, const struct vb_frame *frame)
{
	if (vb_sendto(port->fd, frame->at, frame->length, MSG_DONTWAIT, NULL, 0) >= 0) {
		port->counts.frames_out++;
		port->counts.bytes_out += frame->length;
		return true;
	}
	if (errno == EAGAIN || errno == EINTR)
		return false;
	port->counts.send_errors++; /* the frame is lost, as on a cable without a link */
	return true;
}

/* False: the rate of the QP, or the interface, lets it go at again_ns. The interface comes before
 * the own flows: those take each frame. */
static bool frame_transmit(struct sending *sending, struct vb_frame *frame)
{
	struct vb_raw_port *port = sending->port;
	struct vb_qp *qp = sending->run->qp;
	uint32_t rate_kbps = atomic_load_explicit(&qp->rate_kbps, memory_order_relaxed);
	uint64_t now_ns = vb_now_ns();

	sending->again_ns = rate_kbps ? vb_rate_wait_ns(qp, &qp->raw->paid, rate_kbps, now_ns) : 0;
	if (sending->again_ns)
		return false;
	if ((vb_frame_is_multicast(frame) || !vb_raw_is_at_home(port, frame)) &&
	    !frame_to_interface(port, frame)) {
		sending->again_ns = now_ns + FULL_WAIT_NS;
		return false;
	}
	if (rate_kbps)
		vb_rate_pay(&qp->raw->paid, frame->length, rate_kbps);
	vb_raw_steer(port, sending->run->thread, frame);
	return true;
}

/* Only a VLAN tag may make a frame longer than the interface's MTU. */
static enum vb_reason frame_check(struct sending *sending, const struct vb_frame *frame)
{
	sending->report.want =
		sending->length_max - (frame->headers.key.tagged ? 0 : (uint32_t)VB_VLAN_TAG);
	return frame->length > sending->report.want ? VB_WHY_RAW_LENGTH : VB_OK;
}

static bool send_frame(struct sending *sending, const struct vb_wqe *wqe, enum vb_reason *reason)
{
	struct vb_frame frame;

	vb_frame_parse(&frame, sending->port->out, wqe->length);
	frame.from_here = true;
	*reason = frame_check(sending, &frame);
	if (*reason)
		return true;
	if (wqe->checksum)
		vb_frame_checksum_fill(&frame);
	return frame_transmit(sending, &frame);
}

/* Goes on at the segment that could not leave. A WQE without payload is one header. */
static bool send_segments(struct sending *sending, const struct vb_wqe *wqe, enum vb_reason *reason)
{
	struct vb_qp *qp = sending->run->qp;
	const struct vb_tso *tso = vb_tso_at(qp, qp->sq.next);
	uint8_t *out = sending->port->out;
	uint32_t offset = atomic_load_explicit(&qp->sq.offset, memory_order_relaxed);
	struct vb_frame frame;

	do {
		if (!vb_tso_segment(tso, out, wqe->length, offset, out + VB_FRAME_MAX, &frame))
			*reason = VB_WHY_OPCODE_TRANSPORT;
		else
			*reason = frame_check(sending, &frame);
		if (*reason)
			return true;
		frame.from_here = true;
		atomic_store_explicit(&qp->sq.offset, offset, memory_order_relaxed);
		if (!frame_transmit(sending, &frame))
			return false;
		offset += tso->mss;
	} while (offset < wqe->length);
	return true;
}

static bool wqe_step(struct sending *sending, const struct vb_wqe *wqe)
{
	struct vb_run *run = sending->run;
	enum vb_reason reason;

	sending->report = (struct vb_report){ 0 };
	reason = wqe_check(sending, wqe);
	if (!reason)
		reason = wqe_gather(sending, wqe);
	if (!reason && !(wqe->opcode == IBV_WR_TSO ? send_segments(sending, wqe, &reason)
						   : send_frame(sending, wqe, &reason)))
		return false;
	run->budget_bytes -= wqe->length;
	vb_path_complete(run->qp, reason, &sending->report, &run->notice);
	return true;
}

static bool qp_flushes(const struct vb_qp *qp)
{
	enum ibv_qp_state state = vb_qp_state(qp);

	return state == IBV_QPS_ERR || state == IBV_QPS_SQE;
}

static enum vb_run_verdict run_queue(struct sending *sending)
{
	struct vb_run *run = sending->run;
	struct vb_qp *qp = run->qp;

	while (qp->sq.next != run->end) {
		if (qp_flushes(qp)) {
			vb_path_flush(qp, run->end, &run->notice);
			break;
		}
		if (vb_qp_state(qp) == IBV_QPS_SQD && !vb_qp_has_begun(qp))
			break;
		if (run->budget_bytes <= 0)
			return VB_RUN_MORE;
		if (!wqe_step(sending, vb_sq_wqe(&qp->sq, qp->sq.next))) {
			atomic_store(&qp->pend.wake_ns, sending->again_ns);
			return VB_RUN_PEND;
		}
	}
	return VB_RUN_IDLE;
}

enum vb_run_verdict vb_raw_run(struct vb_run *run)
{
	struct sending sending = { .run = run };
	enum vb_run_verdict verdict;

	if (run->qp->sq.next == run->end)
		return VB_RUN_IDLE;
	sending.port = run->qp->raw->port;
	sending.length_max = length_max(sending.port);
	pthread_mutex_lock(&sending.port->lock);
	verdict = run_queue(&sending);
	pthread_mutex_unlock(&sending.port->lock);
	return verdict;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester of UD: one packet per work request, each to a target of its own. */
#include <errno.h>
#include <string.h>

#include "base/probe.h"
#include "capture/ring.h"
#include "nic/trace.h"
#include "path/roce/roce.h"

static uint32_t address_hash(const struct vb_av *av, uint32_t qpn)
{
	uint32_t sum = qpn;

	for (unsigned i = 0; i < 16; i++)
		sum = sum * 31 + av->dgid.raw[i];
	return sum;
}

/* Packets to this process itself go through no socket, and their way names no peer. */
static bool is_to(const struct vb_way *way, const struct vb_peer *peer)
{
	return peer && peer->self ? way->kind == VB_WAY_MEMORY : way->peer == peer;
}

static bool way_leads_to(const struct vb_way *way, const struct vb_av *av,
			 const struct vb_peer *peer)
{
	return way->resolved && is_to(way, peer) && !memcmp(&way->sgid, &av->sgid, 16) &&
	       !memcmp(&way->dgid, &av->dgid, 16) && way->traffic_class == av->traffic_class &&
	       way->hop_limit == av->hop_limit && way->dlid == av->dlid &&
	       way->ifindex == av->ifindex && way->local == (av->local && !av->multicast);
}

/* Ways of address handles are kept: programs use few of them over and over. */
static struct vb_way *way_find(struct vb_roce *roce, const struct vb_av *av, struct vb_peer *peer,
			       uint32_t qpn)
{
	struct vb_way *way = &roce->ways[address_hash(av, qpn) % VB_WAY_CACHE];

	if (way_leads_to(way, av, peer))
		return way;
	vb_tx_flush(&roce->tx); /* bursts may name the way that goes */
	vb_way_release(way);
	*way = (struct vb_way){ 0 };
	if (roce->sink.resolve(roce->sink.arg, av, peer, address_hash(av, qpn), way))
		return NULL;
	way->ifindex = av->ifindex;
	way->resolved = true;
	return way;
}

void vb_roce_forget_ended(struct vb_roce *roce)
{
	vb_tx_flush(&roce->tx); /* bursts may name ways that go */
	for (unsigned i = 0; i < VB_WAY_CACHE; i++) {
		struct vb_way *way = &roce->ways[i];

		if (way->peer && atomic_load(&way->peer->state) == VB_PEER_GONE)
			vb_way_release(way);
	}
}

void vb_roce_forget_ways(struct vb_roce *roce)
{
	vb_tx_flush(&roce->tx);
	for (unsigned i = 0; i < VB_WAY_CACHE; i++)
		vb_way_release(&roce->ways[i]);
}

static uint8_t packet_link(const struct vb_av *av)
{
	if (!av->dlid)
		return 0;
	return (uint8_t)((av->sl & VB_LINK_SL) | (av->grh ? VB_LINK_GRH : 0));
}

/* False: the memory of the WQE is not mapped any more. */
static bool datagram_send(struct vb_roce *roce, struct vb_qp *qp, const struct vb_wqe *wqe,
			  const struct vb_way *way, const struct ibv_sge *sge, unsigned count)
{
	bool imm = vb_wr_has_imm(wqe->opcode);
	struct vb_wired *wired = atomic_load(&qp->wired);
	struct vb_packet packet = {
		.opcode =
			(uint8_t)((imm ? VB_OP_SEND_ONLY_IMM : VB_OP_SEND_ONLY) | VB_TRANSPORT_UD),
		.solicited = wqe->solicited,
		.migreq = true,
		.pkey = vb_qp_pkey(qp),
		.dest_qpn = wqe->remote_qpn,
		.psn = vb_psn_add(qp->attr.sq_psn, wired ? wired->datagram_psn++ : 0),
		.qkey = vb_qp_datagram_qkey(qp, wqe->remote_qkey),
		.src_qpn = qp->ibv.qp_num,
		.link = packet_link(&wqe->ah->av),
		.imm = wqe->imm,
		.payload_length = wqe->length,
	};

	VB_PROBE(begin, qp->ibv.qp_num, wqe->wr_id);
	roce->tx.qpn = qp->ibv.qp_num;
	if (vb_captured())
		vb_path_capture_psns(qp, wqe, qp->sq.next, (struct vb_psn_range){ packet.psn, 1 });
	vb_pace_pay(roce, way, wqe->length);
	if (!vb_path_gather(sge, count, 0, wqe->length, vb_tx_begin(&roce->tx, way, &packet))) {
		vb_tx_cancel(&roce->tx);
		return false;
	}
	vb_tx_end(&roce->tx);
	return true;
}

/* The time at which a datagram may leave; 0: now. A process of another user that does not read must
 * not hold up other datagrams of the queue, so there is no wait for it. */
static uint64_t datagram_wait_ns(struct vb_roce *roce, struct vb_qp *qp, const struct vb_wqe *wqe,
				 const struct vb_way *way)
{
	struct vb_wired *wired = atomic_load(&qp->wired);
	uint64_t wait_ns = way->peer && way->peer->stranger ? 0 : vb_pace_wait_ns(roce, way);

	return wait_ns || !wired ? wait_ns
				 : vb_requester_pace_datagram(wired, &wqe->ah->av, wqe->length);
}

uint64_t vb_roce_datagram(struct vb_roce *roce, struct vb_qp *qp, struct vb_peer *peer,
			  struct vb_notice *notice)
{
	const struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, qp->sq.next);
	struct vb_report report = { .want = qp->datagram_max };
	struct ibv_sge sge[VB_SGE_MAX];
	const struct vb_way *way;
	enum vb_reason reason;
	unsigned count;
	uint64_t wait_ns;

	if (wqe->length > qp->datagram_max) {
		vb_path_complete(qp, VB_WHY_UD_LENGTH, &report, notice);
		return 0;
	}
	reason = vb_path_check_sges(qp, wqe, 0, sge, &count, &report);
	if (reason) {
		vb_path_complete(qp, reason, &report, notice);
		return 0;
	}
	way = way_find(roce, &wqe->ah->av, peer, qp->ibv.qp_num);
	wait_ns = way ? datagram_wait_ns(roce, qp, wqe, way) : 0;
	if (wait_ns)
		return wait_ns;
	if (!way)
		vb_path_explain(qp, VB_WHY_NOT_THIS_HOST, &report);
	else if (!datagram_send(roce, qp, wqe, way, sge, count))
		reason = VB_WHY_LOCAL_MEMORY;
	if (vb_captured())
		vb_trace_done(qp, qp->sq.next, qp->sq.next + 1);
	/* A datagram without a way is lost, and its WQE succeeds. */
	vb_path_complete(qp, reason, &report, notice);
	return 0;
}

bool vb_roce_datagram_aside(struct vb_roce *roce, struct vb_qp *qp, const struct vb_wqe *wqe,
			    struct vb_peer *peer)
{
	const struct ibv_sge sge = { (uintptr_t)wqe->bytes, wqe->length, 0 };
	const struct vb_way *way = way_find(roce, &wqe->ah->av, peer, qp->ibv.qp_num);

	if (way && datagram_wait_ns(roce, qp, wqe, way))
		return false;
	if (way)
		(void)datagram_send(roce, qp, wqe, way, &sge, 1);
	return true;
}

int vb_roce_mad(struct vb_roce *roce, const struct vb_av *av, const uint8_t mad[VB_MAD_SIZE])
{
	const bool smp = vb_mad_is_smp(mad[1]);
	const uint32_t qpn = smp ? VB_SMI_QPN : VB_GSI_QPN;
	const struct vb_way *way = way_find(roce, av, NULL, qpn);
	const struct vb_packet packet = {
		.opcode = VB_OP_SEND_ONLY | VB_TRANSPORT_UD,
		.migreq = true,
		.pkey = vb_pkey_at(0),
		.dest_qpn = qpn,
		.psn = roce->mad_psn++ & VB_PSN_MASK,
		.qkey = smp ? 0 : VB_GSI_QKEY,
		.src_qpn = qpn,
		.payload_length = VB_MAD_SIZE,
	};

	if (!way)
		return -ENETUNREACH;
	roce->tx.qpn = qpn;
	memcpy(vb_tx_begin(&roce->tx, way, &packet), mad, VB_MAD_SIZE);
	vb_tx_end(&roce->tx);
	vb_tx_flush(&roce->tx);
	return 0;
}

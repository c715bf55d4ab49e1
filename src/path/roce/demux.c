/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a packet belongs, and everything that must be true before a QP looks at it. */
#include "base/log.h"
#include "net/gid.h"
#include "nic/mcast.h"
#include "nic/migrate.h"
#include "path/roce/roce.h"

#include <string.h>

enum {
	ECN_MASK = 3,
	ECN_MARKED = 3, /* congestion experienced */
};

static bool transport_fits(const struct vb_wired *wired, uint8_t opcode)
{
	switch (opcode & VB_TRANSPORT_MASK) {
	case VB_TRANSPORT_RC:
		return wired->qp->type == IBV_QPT_RC;
	case VB_TRANSPORT_UC:
		return wired->qp->type == IBV_QPT_UC;
	case VB_TRANSPORT_UD:
		return wired->qp->type == IBV_QPT_UD;
	case VB_TRANSPORT_XRC: /* one of them only asks, the other only answers */
		return wired->qp->type == (vb_opcode_row(opcode)->headers & VB_HEADER_XRCETH
						   ? IBV_QPT_XRC_RECV
						   : IBV_QPT_XRC_SEND);
	case VB_TRANSPORT_CNP:
		return true;
	}
	return false;
}

/* The packet that says that the peer has migrated comes with the key of the other path. */
static bool fits_alternate(const struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_qp *qp = wired->qp;

	return packet->migreq && vb_mig_state(qp) == IBV_MIG_ARMED &&
	       vb_pkey_fits(vb_pkey_at(qp->attr.alt_pkey_index), packet->pkey);
}

static bool pkey_fits(const struct vb_wired *wired, const struct vb_packet *packet)
{
	return __builtin_expect(vb_pkey_fits(vb_qp_pkey(wired->qp), packet->pkey), 1) ||
	       fits_alternate(wired, packet);
}

/* Nothing is answered, so that its sender learns no more than that there is silence. */
static void wrong_pkey(struct vb_wired *wired, const struct vb_packet *packet)
{
	atomic_fetch_add(&wired->qp->lent->bad_pkey, 1);
	if (wired->roce->pkey_explained)
		return;
	wired->roce->pkey_explained = true;
	vb_explain(
		"QP 0x%06x drops packets with P_Key 0x%04x, its own is 0x%04x: they must name one "
		"partition, and not two limited members",
		wired->qp->ibv.qp_num, packet->pkey, vb_qp_pkey(wired->qp));
}

static bool can_receive(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

static bool can_complete(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

/* The first message of the peer: an application in RTR is told. */
static void established(struct vb_wired *wired, enum ibv_qp_state state)
{
	if (!wired->resp.heard || wired->resp.told)
		return;
	wired->resp.told = true;
	if (state == IBV_QPS_RTR)
		vb_qp_raise(wired->qp, IBV_EVENT_COMM_EST);
}

static bool is_answer(const struct vb_packet *packet)
{
	const enum vb_family family = vb_opcode_row(packet->opcode)->family;

	return family == VB_FAMILY_ACK || family == VB_FAMILY_READ_RESPONSE ||
	       family == VB_FAMILY_ATOMIC_ACK || family == VB_FAMILY_CNP;
}

static void to_reliable(struct vb_wired *wired, const struct vb_packet *packet,
			enum ibv_qp_state state)
{
	void (*completer)(struct vb_wired *, const struct vb_packet *) = NULL;

	switch ((enum vb_family)vb_opcode_row(packet->opcode)->family) {
	case VB_FAMILY_ACK:
		completer = vb_completer_ack;
		break;
	case VB_FAMILY_READ_RESPONSE:
		completer = vb_completer_read;
		break;
	case VB_FAMILY_ATOMIC_ACK:
		completer = vb_completer_atomic;
		break;
	default:
		vb_responder_reliable(wired, packet);
		established(wired, state);
		return;
	}
	if (can_complete(state))
		completer(wired, packet);
	else
		vb_roce_count(wired->roce, VB_PACKET_DROP_STATE);
}

/* It is about a packet that was under way a moment ago; it may be nobody's who got one. */
static void congestion_notified(struct vb_wired *wired)
{
	wired->counters.cnp_handled++;
	if (wired->req.una_psn != wired->req.sent_psn)
		vb_congestion_marked(&wired->req.congestion, wired->roce->now_ns);
}

/* How much of a READ is on its way is for who asked to say, not for who answers. */
static void note_mark(struct vb_wired *wired, const struct vb_packet *packet,
		      const struct vb_arrival *arrival)
{
	if ((arrival->traffic_class & ECN_MASK) != ECN_MARKED || wired->qp->type == IBV_QPT_UD)
		return;
	if (vb_opcode_row(packet->opcode)->family == VB_FAMILY_READ_RESPONSE && wired->req.started)
		vb_congestion_marked(&wired->req.congestion, wired->roce->now_ns);
	wired->cnp_due = true;
	vb_roce_todo(wired);
}

static void deliver(struct vb_wired *wired, const struct vb_packet *packet,
		    const struct vb_arrival *arrival)
{
	/* The gate closes before its owner has learnt of it. */
	enum ibv_qp_state state = vb_gate_state(vb_qp_gate(wired->qp));

	if (!can_receive(state)) {
		vb_roce_count(wired->roce, VB_PACKET_DROP_STATE);
		if (state == IBV_QPS_ERR && !is_answer(packet))
			vb_responder_refuse_again(wired, packet);
		return;
	}
	if ((packet->opcode & VB_TRANSPORT_MASK) == VB_TRANSPORT_CNP) {
		congestion_notified(wired);
		return;
	}
	note_mark(wired, packet, arrival);
	if (wired->qp->type == IBV_QPT_UD) {
		vb_responder_datagram(wired, packet, arrival);
	} else if (wired->qp->type == IBV_QPT_UC) {
		vb_responder_unreliable(wired, packet);
		established(wired, state);
	} else {
		to_reliable(wired, packet, state);
	}
}

/*
 * A datagram comes from anybody, but from where it says: the kernel sees to that on UDP. Through a slot
 * socket, a process of this host says what it likes.
 */
static bool has_own_source(const struct vb_roce *roce, const struct vb_arrival *arrival)
{
	const union ibv_gid src = vb_flow_gid(arrival->flow, arrival->flow->src);

	return !arrival->peer ||
	       (roce->sink.is_own_address && roce->sink.is_own_address(roce->sink.arg, &src));
}

static bool comes_from_sender(struct vb_wired *wired, const struct vb_packet *packet,
			      const struct vb_arrival *arrival)
{
	return wired->qp->type == IBV_QPT_UD ? has_own_source(wired->roce, arrival)
					     : vb_roce_from_peer(wired, packet, arrival);
}

static bool acceptable(struct vb_roce *roce, struct vb_wired *wired, const struct vb_packet *packet,
		       const struct vb_arrival *arrival)
{
	enum vb_packet_drop drop;

	if (!wired)
		drop = VB_PACKET_DROP_UNKNOWN_QP;
	else if (!transport_fits(wired, packet->opcode))
		drop = VB_PACKET_DROP_TRANSPORT;
	else if (!pkey_fits(wired, packet))
		drop = VB_PACKET_DROP_PKEY;
	else if (!comes_from_sender(wired, packet, arrival))
		drop = VB_PACKET_DROP_ADDRESS;
	else
		return true;
	if (drop == VB_PACKET_DROP_PKEY)
		wrong_pkey(wired, packet);
	vb_roce_count(roce, drop);
	return false;
}

/* One IPv4 group may have members on both: datagrams of InfiniBand ports say what they are. */
static bool is_of_fabric(const struct vb_packet *packet, const struct vb_arrival *arrival)
{
	const bool infiniband = packet->link & VB_LINK_GRH;

	return infiniband == (arrival->fabric == VB_FABRIC_INFINIBAND);
}

/* To every member, the sender included if it is one (IBA 10.5.2). */
static void to_group(struct vb_roce *roce, const struct vb_packet *packet,
		     const struct vb_arrival *arrival)
{
	const union ibv_gid gid = vb_flow_gid(arrival->flow, arrival->flow->dst);
	uint32_t qpns[VB_MCAST_QP_MAX];
	unsigned count = arrival->fabric && is_of_fabric(packet, arrival)
				 ? vb_mcast_members(roce->nic, &gid, arrival->fabric, qpns)
				 : 0;

	if (!count)
		vb_roce_count(roce, VB_PACKET_DROP_UNKNOWN_QP);
	for (unsigned i = 0; i < count; i++) {
		struct vb_wired *wired = vb_roce_find(roce, qpns[i]);

		if (!acceptable(roce, wired, packet, arrival))
			continue;
		vb_hazard_enter(roce->thread, roce->nic->self->head_slot);
		deliver(wired, packet, arrival);
		vb_hazard_leave(roce->thread);
	}
}

/* The ICRC covers the addresses, so that a NAT breaks it, in every packet and without a word. */
static void explain_icrc(struct vb_roce *roce, const struct vb_packet *packet,
			 const struct vb_arrival *arrival)
{
	const union ibv_gid src = vb_flow_gid(arrival->flow, arrival->flow->src);
	char text[VB_GID_TEXT];

	if (roce->icrc_explained ||
	    (packet->dest_qpn != VB_GSI_QPN && !vb_roce_find(roce, packet->dest_qpn)))
		return;
	roce->icrc_explained = true;
	vb_explain("packets from %s for QP 0x%06x have a wrong ICRC and are dropped: something on "
		   "the way damages them, or changes addresses or ports (NAT)",
		   vb_gid_print(&src, text), packet->dest_qpn);
}

void vb_roce_input(struct vb_roce *roce, const struct vb_arrival *arrival)
{
	struct vb_packet packet;
	enum vb_packet_flaw flaw = vb_packet_parse(arrival->bytes, arrival->length, &packet);
	struct vb_wired *wired;

	if (flaw) {
		roce->flaws[flaw]++;
		vb_roce_count(roce, VB_PACKET_DROP_MALFORMED);
		return;
	}
	if (!vb_ident_check(&roce->idents, arrival->flow, arrival->bytes,
			    arrival->length - VB_ICRC_LENGTH, arrival->position, roce->now_ns)) {
		vb_roce_count(roce, VB_PACKET_DROP_ICRC);
		explain_icrc(roce, &packet, arrival);
		return;
	}
	wired = vb_roce_find(roce, packet.dest_qpn);
	/* QP 1 belongs to the host, and is in the partitions of all its processes: which those are its
	 * message says, to the one that it is for. */
	if (!wired && packet.dest_qpn == VB_GSI_QPN && roce->sink.gsi) {
		roce->sink.gsi(roce->sink.arg, &packet, arrival);
		return;
	}
	if (packet.dest_qpn == VB_MULTICAST_QPN) {
		to_group(roce, &packet, arrival);
		return;
	}
	if (!acceptable(roce, wired, &packet, arrival))
		return;
	wired->heard_ns = roce->now_ns;
	vb_hazard_enter(roce->thread, roce->nic->self->head_slot);
	deliver(wired, &packet, arrival);
	vb_hazard_leave(roce->thread);
}

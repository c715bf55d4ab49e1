/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP of a packet, and all checks before that QP sees the packet. */
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "net/gid.h"
#include "nic/lane.h"
#include "nic/mcast.h"
#include "nic/migrate.h"
#include "nic/qp_edges.h"
#include "path/roce/stretch.h"

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
	case VB_TRANSPORT_XRC: /* XRC_RECV gets requests only, XRC_SEND answers only */
		return wired->qp->type == (vb_opcode_row(opcode)->headers & VB_HEADER_XRCETH
						   ? IBV_QPT_XRC_RECV
						   : IBV_QPT_XRC_SEND);
	case VB_TRANSPORT_VENDOR:
		if (wired->qp->type == IBV_QPT_RC)
			return true;
		return vb_opcode_row(opcode)->family != VB_FAMILY_MASKED &&
		       wired->qp->type == ((opcode & ~VB_TRANSPORT_MASK) == VB_OP_GAPS
						   ? IBV_QPT_XRC_SEND
						   : IBV_QPT_XRC_RECV);
	case VB_TRANSPORT_CNP:
		return true;
	}
	return false;
}

/* The packet by which the peer migrates has the P_Key of the alternate path. */
static bool alternate_pkey_fits(const struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_qp *qp = wired->qp;

	return packet->migreq && vb_mig_state(qp) == IBV_MIG_ARMED &&
	       vb_pkey_fits(vb_pkey_at(qp->attr.alt_pkey_index), packet->pkey);
}

static bool pkey_fits(const struct vb_wired *wired, const struct vb_packet *packet)
{
	return __builtin_expect(vb_pkey_fits(vb_qp_pkey(wired->qp), packet->pkey), 1) ||
	       alternate_pkey_fits(wired, packet);
}

/* The packet gets no answer, so that its sender learns nothing. */
static void pkey_complain(struct vb_wired *wired, const struct vb_packet *packet)
{
	atomic_fetch_add(&wired->qp->lent->bad_pkey, 1);
	if (wired->roce->pkey_explained)
		return;
	wired->roce->pkey_explained = true;
	vb_explain_work(
		"QP 0x%06x drops packets with P_Key 0x%04x, its own is 0x%04x: they must name one "
		"partition, and not two limited members",
		wired->qp->ibv.qp_num, packet->pkey, vb_qp_pkey(wired->qp));
}

/* Once per reason: any host can send such packets. */
static bool is_told(struct vb_roce *roce, enum vb_packet_drop drop)
{
	const uint32_t bit = 1u << drop;
	const bool told = roce->drops_told & bit;

	roce->drops_told |= bit;
	return told;
}

static const char *source_words(const struct vb_arrival *arrival, char text[VB_GID_TEXT])
{
	const union ibv_gid src = vb_flow_gid(arrival->flow, arrival->flow->src);

	return vb_gid_print(&src, text);
}

/* The sender learns nothing of it, and gives up after its timeout. */
static void unknown_explain(struct vb_roce *roce, const struct vb_packet *packet,
			    const struct vb_arrival *arrival)
{
	const struct vb_qp_entry *entry = vb_peer_qp(roce->nic->self, packet->dest_qpn);
	const uint64_t gate = entry ? atomic_load(&entry->gate) : 0;
	char text[VB_GID_TEXT];

	if (!vb_config_explain() || is_told(roce, VB_PACKET_DROP_UNKNOWN_QP))
		return;
	if (gate)
		vb_explain_note("a packet from %s for QP 0x%06x is dropped: the QP is in %s, and "
				"receives from RTR on",
				source_words(arrival, text), packet->dest_qpn,
				vb_qp_state_str(vb_gate_state(gate)));
	else
		vb_explain_note(
			"a packet from %s for QP 0x%06x is dropped: this process has no such QP",
			source_words(arrival, text), packet->dest_qpn);
}

static void address_explain(struct vb_wired *wired, const struct vb_packet *packet,
			    const struct vb_arrival *arrival)
{
	char from[VB_GID_TEXT], peer[VB_GID_TEXT];

	if (!vb_config_explain() || is_told(wired->roce, VB_PACKET_DROP_ADDRESS))
		return;
	vb_explain_note("a packet from %s for QP 0x%06x is dropped: the QP is connected to %s",
			source_words(arrival, from), packet->dest_qpn,
			vb_gid_print(&wired->qp->av.dgid, peer));
}

static void transport_explain(struct vb_wired *wired, const struct vb_packet *packet,
			      const struct vb_arrival *arrival)
{
	char from[VB_GID_TEXT];

	if (!vb_config_explain() || is_told(wired->roce, VB_PACKET_DROP_TRANSPORT))
		return;
	vb_explain_note(
		"a packet from %s for QP 0x%06x is dropped: it is %s, and the QP is of type %s",
		source_words(arrival, from), packet->dest_qpn, vb_opcode_row(packet->opcode)->name,
		vb_qp_type_str(wired->qp->type));
}

/* An answer for a QP that is not there: its host may mean another one, which waits. */
static void stray_note(struct vb_roce *roce, const struct vb_packet *packet,
		       const struct vb_arrival *arrival)
{
	if (!vb_config_explain())
		return;
	roce->stray.host = vb_flow_gid(arrival->flow, arrival->flow->src);
	roce->stray.qpn = packet->dest_qpn;
	roce->stray.ns = roce->now_ns;
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

/* The first message of the peer has arrived: a program whose QP is in RTR is told. */
static void connection_established(struct vb_wired *wired, enum ibv_qp_state state)
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
	       family == VB_FAMILY_ATOMIC_ACK || family == VB_FAMILY_CNP ||
	       family == VB_FAMILY_GAPS || family == VB_FAMILY_GAPS_ASK;
}

static void deliver_reliable(struct vb_wired *wired, const struct vb_packet *packet,
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
	case VB_FAMILY_GAPS:
		completer = vb_completer_gaps;
		break;
	case VB_FAMILY_GAPS_ASK:
		vb_responder_asked(wired);
		return;
	default:
		vb_responder_reliable(wired, packet);
		connection_established(wired, state);
		return;
	}
	if (can_complete(state))
		completer(wired, packet);
	else
		vb_roce_count(wired->roce, VB_PACKET_DROP_STATE);
}

/* A CNP is about a packet that was under way a moment ago. Else it may be forged. */
static void cnp_take(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	uint64_t now_ns = wired->roce->now_ns;

	wired->counters.cnp_handled++;
	/* The ACK of that packet is often ahead of the CNP. */
	if (req->una_psn != req->sent_psn || vb_congestion_acked_lately(&req->congestion, now_ns))
		vb_congestion_marked(&req->congestion, now_ns);
}

static bool is_marked(const struct vb_arrival *arrival)
{
	return (arrival->traffic_class & ECN_MASK) == ECN_MARKED;
}

/* The requester of a READ decides how much of it is under way: a mark on its answer cuts here. */
static void ecn_note(struct vb_wired *wired, const struct vb_packet *packet,
		     const struct vb_arrival *arrival)
{
	if (!is_marked(arrival) || wired->qp->type == IBV_QPT_UD)
		return;
	if (vb_opcode_row(packet->opcode)->family == VB_FAMILY_READ_RESPONSE && wired->req.started)
		vb_congestion_marked(&wired->req.congestion, wired->roce->now_ns);
	wired->cnp_due = true;
	vb_roce_todo(wired);
}

static void packet_deliver(struct vb_wired *wired, const struct vb_packet *packet,
			   const struct vb_arrival *arrival)
{
	/* The gate may close before the owner has learnt of the failure. */
	enum ibv_qp_state state = vb_gate_state(vb_qp_gate(wired->qp));

	if (!can_receive(state)) {
		vb_roce_count(wired->roce, VB_PACKET_DROP_STATE);
		if (state == IBV_QPS_ERR && !is_answer(packet))
			vb_responder_refuse_again(wired, packet);
		return;
	}
	if ((packet->opcode & VB_TRANSPORT_MASK) == VB_TRANSPORT_CNP) {
		cnp_take(wired);
		return;
	}
	ecn_note(wired, packet, arrival);
	if (wired->qp->type == IBV_QPT_UD) {
		vb_responder_datagram(wired, packet, arrival);
	} else if (wired->qp->type == IBV_QPT_UC) {
		vb_responder_unreliable(wired, packet);
		connection_established(wired, state);
	} else {
		deliver_reliable(wired, packet, state);
	}
}

/*
 * A datagram may come from any host, but must have a true source address. On UDP the kernel ensures
 * that. Through a slot socket a process of this host can claim any address.
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

static bool packet_is_acceptable(struct vb_roce *roce, struct vb_wired *wired,
				 const struct vb_packet *packet, const struct vb_arrival *arrival)
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
		pkey_complain(wired, packet);
	else if (drop == VB_PACKET_DROP_UNKNOWN_QP && !is_answer(packet))
		unknown_explain(roce, packet, arrival);
	else if (drop == VB_PACKET_DROP_UNKNOWN_QP)
		stray_note(roce, packet, arrival);
	else if (drop == VB_PACKET_DROP_TRANSPORT && !is_answer(packet))
		transport_explain(wired, packet, arrival);
	else if (drop == VB_PACKET_DROP_ADDRESS && wired->qp->type != IBV_QPT_UD)
		address_explain(wired, packet, arrival);
	vb_roce_count(roce, drop);
	return false;
}

/* An IPv4 group may have members on both fabrics: datagrams of InfiniBand ports carry a flag. */
static bool packet_is_of_fabric(const struct vb_packet *packet, const struct vb_arrival *arrival)
{
	const bool infiniband = packet->link & VB_LINK_GRH;

	return infiniband == (arrival->fabric == VB_FABRIC_INFINIBAND);
}

/* Every member gets the packet, the sender included if it is a member (IBA 10.5.2). */
static void deliver_to_group(struct vb_roce *roce, const struct vb_packet *packet,
			     const struct vb_arrival *arrival)
{
	const union ibv_gid gid = vb_flow_gid(arrival->flow, arrival->flow->dst);
	uint32_t qpns[VB_MCAST_QP_MAX];
	unsigned count = arrival->fabric && packet_is_of_fabric(packet, arrival)
				 ? vb_mcast_members(roce->nic, &gid, arrival->fabric, qpns)
				 : 0;

	if (!count)
		vb_roce_count(roce, VB_PACKET_DROP_UNKNOWN_QP);
	for (unsigned i = 0; i < count; i++) {
		struct vb_wired *wired = vb_roce_find(roce, qpns[i]);

		/* Members in other lanes get the packet there. */
		if (vb_lane_of_qpn(roce->nic, qpns[i]) != (int)roce->lane)
			continue;
		if (!packet_is_acceptable(roce, wired, packet, arrival))
			continue;
		vb_hazard_enter(roce->thread, roce->nic->self->head_slot);
		packet_deliver(wired, packet, arrival);
		vb_hazard_leave(roce->thread);
	}
}

/* The ICRC covers the addresses: a NAT breaks it in every packet, and reports nothing. */
static void explain_icrc(struct vb_roce *roce, const struct vb_packet *packet,
			 const struct vb_arrival *arrival)
{
	const union ibv_gid src = vb_flow_gid(arrival->flow, arrival->flow->src);
	char text[VB_GID_TEXT];

	if (roce->icrc_explained ||
	    (packet->dest_qpn != VB_GSI_QPN && !vb_roce_find(roce, packet->dest_qpn)))
		return;
	roce->icrc_explained = true;
	vb_explain_work(
		"packets from %s for QP 0x%06x have a wrong ICRC and are dropped: something on "
		"the way damages them, or changes addresses or ports (NAT)",
		vb_gid_print(&src, text), packet->dest_qpn);
}

/* --- packets that continue a message --- */

/*
 * Nearly all packets of long messages are in the middle of them. Those of one burst differ in PSN,
 * ACK request and payload alone: what was found out about one of them holds for the next.
 */
static void sequel_note(struct vb_wired *wired, const struct vb_packet *packet,
			const struct vb_arrival *arrival, uint32_t icrc_head)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_sequel *sequel = &wired->roce->sequel;

	if (row->place != VB_PLACE_MIDDLE || row->headers)
		return;
	sequel->burst = arrival->burst;
	sequel->wired = wired;
	sequel->length = arrival->length;
	sequel->icrc_head = icrc_head;
	memcpy(sequel->bytes, arrival->bytes, sizeof(sequel->bytes));
	sequel->packet = *packet;
}

static bool is_sequel(const struct vb_sequel *sequel, const struct vb_arrival *arrival)
{
	return arrival->burst && arrival->burst == sequel->burst &&
	       arrival->length == sequel->length &&
	       !memcmp(arrival->bytes, sequel->bytes, sizeof(sequel->bytes));
}

void vb_roce_forget_sequel(struct vb_wired *wired)
{
	if (wired->roce->sequel.wired == wired)
		wired->roce->sequel.burst = 0;
	vb_known_forget(wired->roce, wired);
}

/* --- all packets --- */

static void drop_damaged(struct vb_roce *roce, const struct vb_packet *packet,
			 const struct vb_arrival *arrival)
{
	vb_roce_count(roce, VB_PACKET_DROP_ICRC);
	explain_icrc(roce, packet, arrival);
}

static void drop_malformed(struct vb_roce *roce, enum vb_packet_flaw flaw)
{
	roce->flaws[flaw]++;
	vb_roce_count(roce, VB_PACKET_DROP_MALFORMED);
}

static void wired_input(struct vb_wired *wired, const struct vb_packet *packet,
			const struct vb_arrival *arrival)
{
	struct vb_roce *roce = wired->roce;

	wired->heard_ns = roce->now_ns;
	vb_hazard_enter(roce->thread, roce->nic->self->head_slot);
	packet_deliver(wired, packet, arrival);
	vb_hazard_leave(roce->thread);
}

/* Nothing follows from reserved bits (IBA 9.2): switches set some, and a later version may. */
static void reserved_count(struct vb_roce *roce, const struct vb_packet *packet)
{
	if (__builtin_expect(packet->reserved, 0))
		roce->reserved++;
}

/* head: of the ICRC of this packet (wire/icrc.h). */
static bool icrc_is_right(struct vb_roce *roce, const struct vb_arrival *arrival, uint32_t head)
{
	return vb_ident_check_behind(&roce->idents, arrival->flow, head, arrival->bytes,
				     arrival->length - VB_ICRC_LENGTH, arrival->position,
				     roce->now_ns);
}

/* False: the packet was dropped. */
static bool sequel_parse(struct vb_roce *roce, const struct vb_arrival *arrival)
{
	struct vb_sequel *sequel = &roce->sequel;

	vb_packet_parse_next(arrival->bytes, &sequel->packet);
	if (!icrc_is_right(roce, arrival, sequel->icrc_head)) {
		drop_damaged(roce, &sequel->packet, arrival);
		return false;
	}
	reserved_count(roce, &sequel->packet);
	return true;
}

static void sequel_deliver(struct vb_wired *wired, struct vb_stretch *stretch,
			   const struct vb_arrival *arrival)
{
	const struct vb_packet *packet = &wired->roce->sequel.packet;

	wired->heard_ns = wired->roce->now_ns;
	if (vb_stretch_take(stretch, packet))
		return;
	vb_stretch_end(stretch);
	packet_deliver(wired, packet, arrival);
}

/* Takes in sequels, up to the first packet that is none; returns their number. */
static unsigned sequels_input(struct vb_roce *roce, const struct vb_arrival *arrival)
{
	struct vb_sequel *sequel = &roce->sequel;
	struct vb_wired *wired = sequel->wired;
	struct vb_arrival next = *arrival;
	struct vb_stretch stretch; /* not zeroed as a whole: its list of elements is large */
	unsigned count = 0;

	vb_hazard_enter(roce->thread, roce->nic->self->head_slot);
	vb_stretch_begin(&stretch, wired, &sequel->packet,
			 is_marked(arrival) ? 0 : arrival->more + 1);
	do {
		if (sequel_parse(roce, &next))
			sequel_deliver(wired, &stretch, &next);
		next.bytes += next.length;
		next.position++;
	} while (count++ < arrival->more && is_sequel(sequel, &next));
	vb_stretch_end(&stretch);
	vb_hazard_leave(roce->thread);
	return count;
}

static void any_input(struct vb_roce *roce, const struct vb_arrival *arrival)
{
	struct vb_packet packet;
	enum vb_packet_flaw flaw = vb_packet_parse(arrival->bytes, arrival->length, &packet);
	struct vb_wired *wired;
	uint32_t head;

	if (flaw) {
		drop_malformed(roce, flaw);
		return;
	}
	head = vb_icrc_head(arrival->flow, arrival->bytes, arrival->length - VB_ICRC_LENGTH);
	if (!icrc_is_right(roce, arrival, head)) {
		drop_damaged(roce, &packet, arrival);
		return;
	}
	reserved_count(roce, &packet);
	wired = vb_roce_find(roce, packet.dest_qpn);
	/* QP 0 and QP 1 belong to the host, and are in the partitions of all its processes. The
	 * message itself names the partition, to the process that it is for. */
	if (!wired && packet.dest_qpn <= VB_GSI_QPN && roce->sink.gsi) {
		roce->sink.gsi(roce->sink.arg, &packet, arrival);
		return;
	}
	if (packet.dest_qpn == VB_MULTICAST_QPN) {
		deliver_to_group(roce, &packet, arrival);
		return;
	}
	if (!packet_is_acceptable(roce, wired, &packet, arrival))
		return;
	if (arrival->burst)
		sequel_note(wired, &packet, arrival, head);
	vb_known_note(wired, &packet, arrival, head);
	wired_input(wired, &packet, arrival);
}

/* In the middle of a message: where more packets lie behind it, they are sequels. */
static void known_deliver(struct vb_known *known, const struct vb_arrival *arrival)
{
	reserved_count(known->wired->roce, &known->packet);
	if (arrival->more)
		sequel_note(known->wired, &known->packet, arrival, known->icrc_head);
	wired_input(known->wired, &known->packet, arrival);
}

static void known_input(struct vb_roce *roce, struct vb_known *known,
			const struct vb_arrival *arrival)
{
	enum vb_packet_flaw flaw = vb_packet_parse_again(arrival->bytes, &known->packet);

	if (flaw)
		drop_malformed(roce, flaw);
	else if (!icrc_is_right(roce, arrival, known->icrc_head))
		drop_damaged(roce, &known->packet, arrival);
	else
		known_deliver(known, arrival);
}

unsigned vb_roce_input(struct vb_roce *roce, const struct vb_arrival *arrival)
{
	struct vb_known *known;

	if (is_sequel(&roce->sequel, arrival))
		return sequels_input(roce, arrival);
	known = vb_known_find(roce, arrival);
	if (known)
		known_input(roce, known, arrival);
	else
		any_input(roce, arrival);
	return 1;
}

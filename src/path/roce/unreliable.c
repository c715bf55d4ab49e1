/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder of UC and UD: takes a message whole or not at all, and answers nothing. */
#include <string.h>

#include "exec/recv.h"
#include "net/gid.h"
#include "nic/lid.h"
#include "nic/mcast.h"
#include "nic/trace.h"
#include "path/roce/responder.h"
#include "wire/grh.h"

enum {
	LATE_PSNS = 256, /* UC: up to this far behind a packet is old, farther it is a new start */
	UDP_HEADER = 8,
};

/* --- UC --- */

/*
 * A broken message has begun to fill a receive. If it is the QP's own, the next message uses it. A
 * receive of an SRQ goes back there: the next message may never come.
 */
static void message_abandon(struct vb_wired *wired, enum vb_packet_drop drop)
{
	vb_roce_count(wired->roce, drop);
	atomic_fetch_add(&wired->qp->lent->dropped, 1);
	wired->resp.family = VB_FAMILY_UNKNOWN;
	wired->resp.skipping = true;
	vb_place_give_back(wired);
}

static bool packet_is_in_sequence(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_responder *resp = &wired->resp;
	bool begins = row->place == VB_PLACE_FIRST || row->place == VB_PLACE_ONLY;
	int32_t ahead = vb_psn_diff(packet->psn, resp->expected_psn);

	if (resp->heard && ahead < 0 && ahead > -LATE_PSNS) {
		wired->counters.duplicates++;
		return false;
	}
	resp->expected_psn = vb_psn_add(packet->psn, 1);
	resp->heard = true;
	if (ahead)
		wired->counters.out_of_sequence++;
	if (resp->family != VB_FAMILY_UNKNOWN && (ahead || begins))
		message_abandon(wired, VB_PACKET_DROP_SEQUENCE);
	if (!begins && (resp->skipping || resp->family != row->family)) {
		if (!resp->skipping)
			message_abandon(wired, VB_PACKET_DROP_SEQUENCE);
		return false;
	}
	return true;
}

/* The owner of the receive must know that its own key or memory is bad, or its CQ full. */
static void receive_fault(struct vb_wired *wired, enum vb_reason reason)
{
	if (reason == VB_WHY_RECV_KEY || reason == VB_WHY_RECV_MEMORY)
		vb_target_fail(&wired->resp.own, reason, vb_place_spoil(wired, reason));
	else if (reason == VB_WHY_TARGET_CQ_OVERRUN)
		vb_target_fail(&wired->resp.own, reason, false);
}

void vb_responder_unreliable(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_responder *resp = &wired->resp;
	enum vb_reason reason;

	if (!vb_responder_bind(wired)) {
		message_abandon(wired, VB_PACKET_DROP_RECEIVE);
		return;
	}
	if (!packet_is_in_sequence(wired, packet))
		return;
	resp->skipping = false;
	if (!vb_place_fits(wired, packet)) {
		message_abandon(wired, VB_PACKET_DROP_LENGTH);
		return;
	}
	if (row->family == VB_FAMILY_WRITE &&
	    !(atomic_load(&wired->qp->entry->access) & IBV_ACCESS_REMOTE_WRITE)) {
		vb_responder_explain_drop(wired, packet, NULL, VB_WHY_QP_RIGHT, 0);
		message_abandon(wired, VB_PACKET_DROP_ACCESS);
		return;
	}
	reason = row->family == VB_FAMILY_SEND ? vb_place_send(wired, packet)
					       : vb_place_write(wired, packet);
	if (reason) {
		vb_responder_explain_drop(
			wired, packet, NULL,
			reason == VB_WHY_NO_RECEIVE ? VB_WHY_DROP_NO_RECEIVE : reason, 0);
		receive_fault(wired, reason);
		message_abandon(wired, reason == VB_WHY_NO_RECEIVE || reason == VB_WHY_RECV_SHORT
					       ? VB_PACKET_DROP_RECEIVE
					       : VB_PACKET_DROP_ACCESS);
		return;
	}
	resp->family = row->place == VB_PLACE_LAST || row->place == VB_PLACE_ONLY
			       ? VB_FAMILY_UNKNOWN
			       : row->family;
}

/* --- UD --- */

static void address_gid(const struct vb_icrc_flow *flow, const uint8_t *ip, union ibv_gid *gid)
{
	if (flow->ipv6) {
		memcpy(gid->raw, ip, 16);
		return;
	}
	memset(gid->raw, 0, 10);
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, ip, 4);
}

/* The sender of a datagram of InfiniBand. */
struct source {
	uint16_t lid; /* 0: not known */
	bool own;     /* the sender is the port of this host */
};

static const struct vb_device *infiniband_device(const struct vb_wired *wired)
{
	const struct vb_device *dev = vb_context(wired->qp->ibv.context)->dev;

	return dev->infiniband ? dev : NULL;
}

/* The GID of a port on another host is not known here: a GID stands for its LID. */
static void grh_gids(const struct vb_device *ib, struct source source, struct vb_grh *grh)
{
	grh->dgid = vb_gid_from_guid(ib->guid);
	grh->sgid = source.own ? grh->dgid : vb_gid_from_lid(source.lid);
}

/* A multicast datagram of InfiniBand: the MGID is known here, the sender by its LID. */
static void grh_group(struct vb_wired *wired, const struct vb_device *ib, struct source source,
		      uint16_t fabric, struct vb_grh *grh)
{
	const union ibv_gid group = grh->dgid;

	grh_gids(ib, source, grh);
	if (!vb_mcast_mgid(wired->roce->nic, wired->qp->ibv.qp_num, &group, fabric, &grh->dgid))
		grh->dgid = group;
}

static void grh_fill(struct vb_wired *wired, const struct vb_arrival *arrival,
		     const struct vb_device *ib, struct source source, uint8_t out[VB_GRH_SIZE])
{
	struct vb_grh grh = {
		.traffic_class = arrival->traffic_class,
		.hop_limit = arrival->hop_limit,
		.payload_length = (uint16_t)(arrival->length + UDP_HEADER),
		.infiniband = ib,
	};

	address_gid(arrival->flow, arrival->flow->src, &grh.sgid);
	address_gid(arrival->flow, arrival->flow->dst, &grh.dgid);
	if (ib && !arrival->fabric)
		grh_gids(ib, source, &grh);
	else if (ib && !arrival->flow->ipv6)
		grh_group(wired, ib, source, arrival->fabric, &grh);
	vb_grh_emit(&grh, out);
}

static struct source arrival_source(const struct vb_wired *wired, const struct vb_device *ib,
				    const struct vb_arrival *arrival)
{
	const struct vb_roce_sink *sink = &wired->roce->sink;
	struct source source = { 0 };
	union ibv_gid gid;

	address_gid(arrival->flow, arrival->flow->src, &gid);
	if (sink->lid_at)
		source.lid = sink->lid_at(sink->arg, ib, &gid, &source.own);
	return source;
}

static uint8_t arrival_sl(const struct vb_arrival *arrival)
{
	return arrival->flow->ipv6 ? VB_GRH_SL_IPV6 : VB_GRH_SL_IPV4;
}

static void datagram_deliver(struct vb_wired *wired, const struct vb_packet *packet,
			     const struct vb_arrival *arrival, const struct vb_claim *claim)
{
	bool imm = vb_opcode_row(packet->opcode)->headers & VB_HEADER_IMM;
	const struct vb_device *ib = infiniband_device(wired);
	const struct source source = ib ? arrival_source(wired, ib, arrival) : (struct source){ 0 };
	/* Multicast datagrams always have a GRH. */
	const bool has_grh = !ib || arrival->fabric || packet->link & VB_LINK_GRH;
	const struct vb_message message = {
		.length = VB_GRH_SIZE + packet->payload_length,
		.imm = imm ? packet->imm : 0,
		.src_qpn = packet->src_qpn,
		.wc_opcode = IBV_WC_RECV & 0xff,
		.wc_flags = (uint8_t)((has_grh ? IBV_WC_GRH : 0) | (imm ? IBV_WC_WITH_IMM : 0)),
		.solicited = packet->solicited,
		.slid = source.lid,
		.sl = ib ? packet->link & VB_LINK_SL : arrival_sl(arrival),
	};
	struct vb_remote *own = &wired->resp.own;
	const struct vb_recv_sges *list = vb_recv_sges(own, claim);
	unsigned count = vb_recv_sge_count(own, list);
	uint8_t grh[VB_GRH_SIZE] = { 0 };
	enum vb_reason reason;
	bool lost, placed;

	if (has_grh)
		grh_fill(wired, arrival, ib, source, grh);
	placed = vb_path_scatter(list->sge, count, 0, VB_GRH_SIZE, grh) &&
		 vb_path_scatter(list->sge, count, VB_GRH_SIZE, packet->payload_length,
				 packet->payload);
	claim->cell->where = VB_PAYLOAD_PLACED;
	if (vb_captured())
		vb_trace_recv_placed(wired->qp->ibv.qp_num, message.src_qpn, claim->index,
				     packet->psn);
	reason = vb_recv_complete(own, claim, &message, placed ? VB_OK : VB_WHY_RECV_MEMORY, &lost);
	if (reason)
		receive_fault(wired, reason);
	else if (!placed)
		vb_target_fail(own, VB_WHY_RECV_MEMORY, true);
}

static void datagram_drop(struct vb_wired *wired, enum vb_packet_drop drop)
{
	vb_roce_count(wired->roce, drop);
	atomic_fetch_add(&wired->qp->lent->dropped, 1);
}

void vb_responder_datagram(struct vb_wired *wired, const struct vb_packet *packet,
			   const struct vb_arrival *arrival)
{
	struct vb_claim claim = { .fit = VB_GRH_SIZE + packet->payload_length };
	struct vb_message message = { .length = claim.fit, .src_qpn = packet->src_qpn };
	bool lost;

	if (packet->qkey != atomic_load(&wired->qp->entry->qkey)) {
		vb_responder_explain_drop(wired, packet, arrival, VB_WHY_DROP_QKEY,
					  atomic_load(&wired->qp->entry->qkey));
		atomic_fetch_add(&wired->qp->lent->bad_qkey, 1);
		datagram_drop(wired, VB_PACKET_DROP_QKEY);
		return;
	}
	if (!vb_responder_bind(wired) || !vb_recv_claim(&wired->resp.own, &claim) ||
	    claim.too_short) {
		vb_responder_explain_drop(wired, packet, arrival,
					  claim.too_short ? VB_WHY_DROP_SHORT
							  : VB_WHY_DROP_NO_RECEIVE,
					  claim.too_short ? claim.cell->posted_length : 0);
		datagram_drop(wired, VB_PACKET_DROP_RECEIVE);
		return;
	}
	if (vb_recv_check(&wired->resp.own, &claim, claim.fit, false)) {
		vb_recv_complete(&wired->resp.own, &claim, &message, VB_WHY_RECV_KEY, &lost);
		vb_target_fail(&wired->resp.own, VB_WHY_RECV_KEY, true);
		datagram_drop(wired, VB_PACKET_DROP_ACCESS);
		return;
	}
	datagram_deliver(wired, packet, arrival, &claim);
}

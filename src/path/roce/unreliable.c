/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder of UC and UD: a message is taken whole or not at all, and nobody is told. */
#include "exec/recv.h"
#include "net/gid.h"
#include "nic/lid.h"
#include "nic/mcast.h"
#include "path/roce/roce.h"
#include "wire/grh.h"

#include <string.h>

enum {
	LATE_PSNS = 256, /* UC: a packet that is this far behind is an old one, not a new start */
	UDP_HEADER = 8,
};

/* --- UC --- */

/*
 * A receive of the QP's own that a broken message had begun to fill is used for the next one. One of
 * an SRQ goes back there: the next message may never come.
 */
static void abandon(struct vb_wired *wired, enum vb_packet_drop drop)
{
	vb_roce_count(wired->roce, drop);
	atomic_fetch_add(&wired->qp->lent->dropped, 1);
	wired->resp.family = VB_FAMILY_UNKNOWN;
	wired->resp.skipping = true;
	vb_place_give_back(wired);
}

static bool in_sequence(struct vb_wired *wired, const struct vb_packet *packet)
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
		abandon(wired, VB_PACKET_DROP_SEQUENCE);
	if (!begins && (resp->skipping || resp->family != row->family)) {
		if (!resp->skipping)
			abandon(wired, VB_PACKET_DROP_SEQUENCE);
		return false;
	}
	return true;
}

/* What the owner of the receive has to know: its own key or memory is bad. */
static void own_fault(struct vb_wired *wired, enum vb_reason reason)
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
		abandon(wired, VB_PACKET_DROP_RECEIVE);
		return;
	}
	if (!in_sequence(wired, packet))
		return;
	resp->skipping = false;
	if (!vb_place_fits(wired, packet)) {
		abandon(wired, VB_PACKET_DROP_LENGTH);
		return;
	}
	if (row->family == VB_FAMILY_WRITE &&
	    !(atomic_load(&wired->qp->entry->access) & IBV_ACCESS_REMOTE_WRITE)) {
		abandon(wired, VB_PACKET_DROP_ACCESS);
		return;
	}
	reason = row->family == VB_FAMILY_SEND ? vb_place_send(wired, packet)
					       : vb_place_write(wired, packet);
	if (reason) {
		own_fault(wired, reason);
		abandon(wired, reason == VB_WHY_NO_RECEIVE || reason == VB_WHY_RECV_SHORT
				       ? VB_PACKET_DROP_RECEIVE
				       : VB_PACKET_DROP_ACCESS);
		return;
	}
	resp->family = row->place == VB_PLACE_LAST || row->place == VB_PLACE_ONLY
			       ? VB_FAMILY_UNKNOWN
			       : row->family;
}

/* --- UD --- */

static void gid_of(const struct vb_icrc_flow *flow, const uint8_t *ip, union ibv_gid *gid)
{
	if (flow->ipv6) {
		memcpy(gid->raw, ip, 16);
		return;
	}
	memset(gid->raw, 0, 10);
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, ip, 4);
}

static const struct vb_device *infiniband(const struct vb_wired *wired)
{
	const struct vb_device *dev = vb_context(wired->qp->ibv.context)->dev;

	return dev->infiniband ? dev : NULL;
}

/* The GID of a port on another host is not known here: one that stands for its LID. */
static void grh_gids(const struct vb_device *ib, uint16_t slid, struct vb_grh *grh)
{
	grh->dgid = vb_gid_from_guid(ib->guid);
	grh->sgid = slid == vb_device_lid(ib) ? grh->dgid : vb_gid_from_lid(slid);
}

/* A group of InfiniBand that came from the link: the MGID is known here, the sender by its LID. */
static void grh_group(struct vb_wired *wired, const struct vb_device *ib, uint16_t slid,
		      uint16_t fabric, struct vb_grh *grh)
{
	const union ibv_gid group = grh->dgid;

	grh_gids(ib, slid, grh);
	if (!vb_mcast_mgid(wired->roce->nic, wired->qp->ibv.qp_num, &group, fabric, &grh->dgid))
		grh->dgid = group;
}

static void grh_of(struct vb_wired *wired, const struct vb_arrival *arrival,
		   const struct vb_device *ib, uint16_t slid, uint8_t out[VB_GRH_SIZE])
{
	struct vb_grh grh = {
		.traffic_class = arrival->traffic_class,
		.hop_limit = arrival->hop_limit,
		.payload_length = (uint16_t)(arrival->length + UDP_HEADER),
		.infiniband = ib,
	};

	gid_of(arrival->flow, arrival->flow->src, &grh.sgid);
	gid_of(arrival->flow, arrival->flow->dst, &grh.dgid);
	if (ib && !arrival->fabric)
		grh_gids(ib, slid, &grh);
	else if (ib && !arrival->flow->ipv6)
		grh_group(wired, ib, slid, arrival->fabric, &grh);
	vb_grh_emit(&grh, out);
}

static uint16_t slid_of(const struct vb_device *ib, const struct vb_arrival *arrival)
{
	union ibv_gid gid;

	gid_of(arrival->flow, arrival->flow->src, &gid);
	return vb_lid_at(ib, &gid);
}

static uint8_t sl_of(const struct vb_arrival *arrival)
{
	return arrival->flow->ipv6 ? VB_GRH_SL_IPV6 : VB_GRH_SL_IPV4;
}

static void deliver(struct vb_wired *wired, const struct vb_packet *packet,
		    const struct vb_arrival *arrival, const struct vb_claim *claim)
{
	bool imm = vb_opcode_row(packet->opcode)->headers & VB_HEADER_IMM;
	const struct vb_device *ib = infiniband(wired);
	const uint16_t slid = ib ? slid_of(ib, arrival) : 0;
	/* Multicast always has one. */
	const bool has_grh = !ib || arrival->fabric || packet->link & VB_LINK_GRH;
	const struct vb_message message = {
		.length = VB_GRH_SIZE + packet->payload_length,
		.imm = imm ? packet->imm : 0,
		.src_qpn = packet->src_qpn,
		.wc_opcode = IBV_WC_RECV & 0xff,
		.wc_flags = (uint8_t)((has_grh ? IBV_WC_GRH : 0) | (imm ? IBV_WC_WITH_IMM : 0)),
		.solicited = packet->solicited,
		.slid = slid,
		.sl = ib ? packet->link & VB_LINK_SL : sl_of(arrival),
	};
	struct vb_remote *own = &wired->resp.own;
	const struct vb_recv_sges *list = vb_recv_sges(own, claim);
	unsigned count = vb_recv_sge_count(own, list);
	uint8_t grh[VB_GRH_SIZE] = { 0 };
	enum vb_reason reason;
	bool lost, placed;

	if (has_grh)
		grh_of(wired, arrival, ib, slid, grh);
	placed = vb_path_scatter(list->sge, count, 0, VB_GRH_SIZE, grh) &&
		 vb_path_scatter(list->sge, count, VB_GRH_SIZE, packet->payload_length,
				 packet->payload);
	claim->cell->where = VB_PAYLOAD_PLACED;
	reason = vb_recv_complete(own, claim, &message, placed ? VB_OK : VB_WHY_RECV_MEMORY, &lost);
	if (reason)
		own_fault(wired, reason);
	else if (!placed)
		vb_target_fail(own, VB_WHY_RECV_MEMORY, true);
}

static void drop(struct vb_wired *wired, enum vb_packet_drop drop)
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
		atomic_fetch_add(&wired->qp->lent->bad_qkey, 1);
		drop(wired, VB_PACKET_DROP_QKEY);
		return;
	}
	if (!vb_responder_bind(wired) || !vb_recv_claim(&wired->resp.own, &claim) ||
	    claim.too_short) {
		drop(wired, VB_PACKET_DROP_RECEIVE);
		return;
	}
	if (vb_recv_check(&wired->resp.own, &claim, claim.fit, false)) {
		vb_recv_complete(&wired->resp.own, &claim, &message, VB_WHY_RECV_KEY, &lost);
		vb_target_fail(&wired->resp.own, VB_WHY_RECV_KEY, true);
		drop(wired, VB_PACKET_DROP_ACCESS);
		return;
	}
	deliver(wired, packet, arrival, &claim);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs to a QP whose SRQ matches tags (nic/tm.h). The header in the first packet decides: the
 * message goes into a tagged buffer, without the header, or into an ordinary receive, with it. A
 * rendezvous consists of headers only, and this QP READs the data.
 */
#include <endian.h>
#include <infiniband/tm_types.h>
#include <string.h>

#include "exec/recv.h"
#include "nic/tm.h"
#include "path/roce/roce.h"

static struct vb_tm *qp_tm(const struct vb_wired *wired)
{
	return wired->qp->srq->tm;
}

static bool packet_begins(const struct vb_opcode_row *row)
{
	return row->place == VB_PLACE_FIRST || row->place == VB_PLACE_ONLY;
}

static bool packet_ends(const struct vb_opcode_row *row)
{
	return row->place == VB_PLACE_LAST || row->place == VB_PLACE_ONLY;
}

/* --- the header --- */

static bool header_is_well_formed(const struct vb_packet *packet, const struct ibv_tmh *header)
{
	if (header->opcode != IBV_TMH_RNDV)
		return header->opcode <= IBV_TMH_EAGER;
	return vb_opcode_row(packet->opcode)->place == VB_PLACE_ONLY &&
	       packet->payload_length >= sizeof(*header) + sizeof(struct ibv_rvh) &&
	       packet->payload_length <= VB_TM_RNDV_HEADER_MAX;
}

static enum vb_reason header_match(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_tm_arrival *arrival = &wired->resp.tm;
	struct ibv_tmh header;

	if (packet->payload_length < sizeof(header))
		return VB_WHY_TM_HEADER;
	memcpy(&header, packet->payload, sizeof(header));
	if (!header_is_well_formed(packet, &header))
		return VB_WHY_TM_HEADER;
	*arrival = (struct vb_tm_arrival){
		.opcode = header.opcode,
		.value = be64toh(header.tag),
		.app_ctx = be32toh(header.app_ctx),
	};
	wired->resp.offset = 0;
	if (header.opcode == IBV_TMH_EAGER || header.opcode == IBV_TMH_RNDV)
		arrival->tag = vb_tm_match(qp_tm(wired), arrival->value);
	if (!arrival->tag || header.opcode != IBV_TMH_RNDV || vb_tm_rndv_room(wired->qp))
		return VB_OK;
	vb_place_tm_give_back(wired); /* the sender tries again */
	return VB_WHY_NO_RECEIVE;
}

/* No tag matches: tags that are added later must wait until the program knows of the message. */
static enum vb_reason receive_take(struct vb_wired *wired)
{
	struct vb_tm_arrival *arrival = &wired->resp.tm;
	struct vb_remote *own = &wired->resp.own;
	struct vb_claim claim = { 0 };

	if (!vb_recv_claim(own, &claim))
		return VB_WHY_NO_RECEIVE;
	own->taken = claim.index;
	own->holds_taken = true;
	arrival->unexpected = arrival->opcode == IBV_TMH_EAGER || arrival->opcode == IBV_TMH_RNDV;
	if (arrival->unexpected)
		vb_tm_unexpected(qp_tm(wired));
	return VB_OK;
}

/* --- tagged buffers --- */

static struct vb_tm_message packet_message(const struct vb_wired *wired,
					   const struct vb_packet *packet)
{
	const struct vb_tm_arrival *arrival = &wired->resp.tm;
	uint16_t headers = packet ? vb_opcode_row(packet->opcode)->headers : 0;

	return (struct vb_tm_message){
		.tag = arrival->value,
		.app_ctx = arrival->app_ctx,
		.length = wired->resp.offset,
		.imm = headers & VB_HEADER_IMM    ? packet->imm
		       : headers & VB_HEADER_IETH ? packet->invalidate_rkey
						  : 0,
		.wc_flags = (headers & VB_HEADER_IMM ? IBV_WC_WITH_IMM : 0) |
			    (headers & VB_HEADER_IETH ? IBV_WC_WITH_INV : 0),
		.qpn = wired->qp->ibv.qp_num,
		.src_qpn = wired->qp->attr.dest_qp_num,
		.solicited = packet && packet->solicited,
	};
}

static enum vb_reason tag_scatter(struct vb_wired *wired, const uint8_t *bytes, uint32_t length)
{
	const struct vb_tag *tag = wired->resp.tm.tag;
	struct ibv_sge sge[VB_TM_SGE_MAX];

	if (length > tag->length - wired->resp.offset)
		return VB_WHY_RECV_SHORT;
	for (uint32_t i = 0; i < tag->sge_count; i++) {
		struct vb_mr *mr;

		sge[i] = tag->sge[i];
		if (!sge[i].length)
			continue;
		mr = vb_mr_lookup(wired->qp->nic, wired->qp->srq->pd, &sge[i],
				  IBV_ACCESS_LOCAL_WRITE);
		if (!mr)
			return VB_WHY_RECV_KEY;
		sge[i].addr = vb_mr_at(mr, sge[i].addr, IBV_ACCESS_LOCAL_WRITE);
	}
	return vb_path_scatter(sge, tag->sge_count, wired->resp.offset, length, bytes)
		       ? VB_OK
		       : VB_WHY_RECV_MEMORY;
}

static enum vb_reason tag_received(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_tm_message message = packet_message(wired, packet);
	struct vb_tag *tag = wired->resp.tm.tag;

	message.wc_flags |= IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;
	wired->resp.tm.tag = NULL;
	return vb_tm_received(qp_tm(wired), tag, &message, IBV_WC_SUCCESS, 0)
		       ? VB_OK
		       : VB_WHY_TARGET_CQ_OVERRUN;
}

/* SEND_WITH_INV takes the window back before the receive completes. */
static enum vb_reason packet_invalidate(struct vb_wired *wired, const struct vb_packet *packet)
{
	return !(vb_opcode_row(packet->opcode)->headers & VB_HEADER_IETH) ||
			       vb_place_invalidate(wired, packet->invalidate_rkey)
		       ? VB_OK
		       : VB_WHY_RECV_INVALIDATE;
}

static enum vb_reason place_tagged(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	uint32_t skip = packet_begins(row) ? sizeof(struct ibv_tmh) : 0;
	uint32_t length = packet->payload_length - skip;
	enum vb_reason reason = tag_scatter(wired, packet->payload + skip, length);

	if (reason)
		return reason;
	wired->resp.offset += length;
	if (!packet_ends(row))
		return VB_OK;
	reason = packet_invalidate(wired, packet);
	return reason ? reason : tag_received(wired, packet);
}

static enum vb_reason place_rendezvous(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_tm_arrival *arrival = &wired->resp.tm;
	struct vb_tag *tag = arrival->tag;
	struct vb_tm_message message = packet_message(wired, packet);
	struct vb_rendezvous rndv = { .tag = arrival->value, .app_ctx = arrival->app_ctx };
	struct ibv_rvh header;

	memcpy(&header, packet->payload + sizeof(struct ibv_tmh), sizeof(header));
	rndv.va = be64toh(header.va);
	rndv.rkey = be32toh(header.rkey);
	rndv.length = message.length = be32toh(header.len);
	if (rndv.length > tag->length)
		return VB_WHY_RECV_SHORT;
	if (packet_invalidate(wired, packet))
		return VB_WHY_RECV_INVALIDATE;
	rndv.solicited = message.solicited;
	message.wc_flags |= IBV_WC_TM_MATCH;
	arrival->tag = NULL;
	if (!vb_tm_matched(qp_tm(wired), tag, &message)) {
		vb_tm_give_back(qp_tm(wired), tag);
		return VB_WHY_TARGET_CQ_OVERRUN;
	}
	vb_tm_rndv_post(wired->qp, tag, &rndv);
	vb_roce_todo(wired);
	return VB_OK;
}

bool vb_place_tm(struct vb_wired *wired, const struct vb_packet *packet, enum vb_reason *reason)
{
	const struct vb_tm_arrival *arrival = &wired->resp.tm;

	*reason = VB_OK;
	if (packet_begins(vb_opcode_row(packet->opcode))) {
		*reason = header_match(wired, packet);
		if (!*reason && !arrival->tag)
			*reason = receive_take(wired);
		if (*reason)
			return true;
	}
	if (!arrival->tag)
		return false;
	*reason = arrival->opcode == IBV_TMH_RNDV ? place_rendezvous(wired, packet)
						  : place_tagged(wired, packet);
	return true;
}

/* --- ordinary receives --- */

static enum ibv_wc_opcode receive_opcode(const struct vb_wired *wired,
					 const struct vb_packet *packet)
{
	const uint8_t opcode = wired->resp.tm.opcode;

	if (packet && vb_opcode_row(packet->opcode)->family == VB_FAMILY_WRITE)
		return IBV_WC_RECV_RDMA_WITH_IMM;
	return opcode == IBV_TMH_NO_TAG || opcode == IBV_TMH_FIN ? IBV_WC_TM_NO_TAG
								 : IBV_WC_TM_RECV;
}

static bool receive_complete(struct vb_wired *wired, const struct vb_claim *claim,
			     const struct vb_packet *packet, enum vb_reason reason)
{
	const struct vb_tm_message message = packet_message(wired, packet);
	struct ibv_wc wc = {
		.opcode = receive_opcode(wired, packet),
		.status = vb_reason_row(reason)->recv_status,
		.vendor_err = reason,
		.byte_len = message.length,
		.imm_data = message.imm,
		.qp_num = message.qpn,
		.src_qp = message.src_qpn,
		.wc_flags = message.wc_flags,
	};

	wired->resp.own.holds_taken = false;
	return vb_tm_plain(qp_tm(wired), claim->index, &wc, message.solicited);
}

enum vb_reason vb_place_tm_complete(struct vb_wired *wired, const struct vb_claim *claim,
				    const struct vb_packet *packet)
{
	wired->resp.tm.unexpected = false; /* the program will count the message */
	return receive_complete(wired, claim, packet, VB_OK) ? VB_OK : VB_WHY_TARGET_CQ_OVERRUN;
}

/* --- messages that fail --- */

bool vb_place_tm_spoil(struct vb_wired *wired, enum vb_reason reason)
{
	const struct vb_tm_message message = packet_message(wired, NULL);
	struct vb_tag *tag = wired->resp.tm.tag;
	struct vb_claim claim = { 0 };
	bool told = false;

	if (vb_reason_row(reason)->recv_status != IBV_WC_SUCCESS && tag) {
		wired->resp.tm.tag = NULL;
		told = vb_tm_received(qp_tm(wired), tag, &message,
				      vb_reason_row(reason)->recv_status, reason);
	} else if (vb_reason_row(reason)->recv_status != IBV_WC_SUCCESS &&
		   vb_responder_follow(wired, true) && vb_recv_claim(&wired->resp.own, &claim)) {
		told = receive_complete(wired, &claim, NULL, reason);
	}
	vb_place_tm_give_back(wired);
	return told;
}

void vb_place_tm_give_back(struct vb_wired *wired)
{
	struct vb_tm_arrival *arrival = &wired->resp.tm;

	if (arrival->tag)
		vb_tm_give_back(qp_tm(wired), arrival->tag);
	if (arrival->unexpected)
		vb_tm_unexpected_undo(qp_tm(wired));
	arrival->tag = NULL;
	arrival->unexpected = false;
}

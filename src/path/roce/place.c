/* SPDX-License-Identifier: BSD-2-Clause */
/* The effect of a request packet on receives and memory of this process. */
#include "exec/recv.h"
#include "exec/rkey.h"
#include "exec/served.h"
#include "nic/trace.h"
#include "path/roce/roce.h"

static bool packet_ends(const struct vb_opcode_row *row)
{
	return row->place == VB_PLACE_LAST || row->place == VB_PLACE_ONLY;
}

static bool packet_begins(const struct vb_opcode_row *row)
{
	return row->place == VB_PLACE_FIRST || row->place == VB_PLACE_ONLY;
}

bool vb_place_fits(const struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);

	if (row->place == VB_PLACE_FIRST || row->place == VB_PLACE_MIDDLE)
		return packet->payload_length == wired->mtu;
	if (row->place == VB_PLACE_LAST && !packet->payload_length)
		return false;
	return packet->payload_length <= wired->mtu;
}

static void packet_message(const struct vb_wired *wired, const struct vb_packet *packet,
			   struct vb_message *message)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	bool imm = row->headers & VB_HEADER_IMM, invalidates = row->headers & VB_HEADER_IETH;

	*message = (struct vb_message){
		.length = wired->resp.offset,
		.imm = imm           ? packet->imm
		       : invalidates ? packet->invalidate_rkey
				     : 0,
		.src_qpn = wired->qp->attr.dest_qp_num,
		.wc_opcode =
			(row->family == VB_FAMILY_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) &
			0xff,
		.wc_flags = imm           ? IBV_WC_WITH_IMM
			    : invalidates ? IBV_WC_WITH_INV
					  : 0,
		.solicited = packet->solicited,
		.sl = wired->qp->attr.ah_attr.sl,
	};
}

/* Completes the receive; VB_OK also if its owner has flushed it a moment ago. */
static enum vb_reason receive_complete(struct vb_wired *wired, const struct vb_claim *claim,
				       const struct vb_packet *packet)
{
	struct vb_message message;
	bool lost;

	if (vb_matches_tags(wired))
		return vb_place_tm_complete(wired, claim, packet);
	packet_message(wired, packet, &message);
	claim->cell->where = VB_PAYLOAD_PLACED;
	if (vb_captured())
		vb_trace_recv_placed(wired->qp->ibv.qp_num, message.src_qpn, claim->index,
				     packet->psn);
	return vb_recv_complete(&wired->resp.own, claim, &message, VB_OK, &lost);
}

/* SEND_WITH_INV takes the window back before the receive completes. */
bool vb_place_invalidate(struct vb_wired *wired, uint32_t rkey)
{
	const struct vb_remote *own = &wired->resp.own;

	return vb_mw_invalidate(own->home, rkey, own->pd, own->entry->qpn);
}

static bool payload_scatter(struct vb_wired *wired, const struct vb_claim *claim,
			    const struct vb_packet *packet)
{
	const struct vb_responder *resp = &wired->resp;
	const struct vb_recv_sges *list = vb_recv_sges(&resp->own, claim);

	if (__builtin_expect(!resp->own.home->self, 0))
		return vb_home_scatter(wired, list, resp->offset, packet);
	return vb_path_scatter(list->sge, vb_recv_sge_count(&resp->own, list), resp->offset,
			       packet->payload_length, packet->payload);
}

/* In a shared queue the QP holds the receive until the message ends. */
static void receive_hold(struct vb_remote *own, const struct vb_claim *claim)
{
	own->taken = claim->index;
	own->holds_taken = own->many;
}

enum vb_reason vb_place_send(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_responder *resp = &wired->resp;
	struct vb_claim claim = { 0 };
	enum vb_reason reason;

	if (vb_matches_tags(wired) && vb_place_tm(wired, packet, &reason))
		return reason;
	if (!vb_recv_claim(&resp->own, &claim))
		return VB_WHY_NO_RECEIVE;
	receive_hold(&resp->own, &claim);
	if (packet_begins(row))
		resp->offset = 0;
	if ((uint64_t)resp->offset + packet->payload_length > VB_MSG_MAX)
		return VB_WHY_PACKET_LENGTH;
	reason = vb_recv_check(&resp->own, &claim, resp->offset + packet->payload_length, false);
	if (reason)
		return reason;
	if (!payload_scatter(wired, &claim, packet))
		return VB_WHY_RECV_MEMORY;
	resp->offset += packet->payload_length;
	if (!packet_ends(row))
		return VB_OK;
	if (row->headers & VB_HEADER_IETH && !vb_place_invalidate(wired, packet->invalidate_rkey))
		return VB_WHY_RECV_INVALIDATE;
	return receive_complete(wired, &claim, packet);
}

static enum vb_reason check_length(const struct vb_responder *resp, const struct vb_packet *packet,
				   const struct vb_opcode_row *row)
{
	uint64_t end = (uint64_t)resp->offset + packet->payload_length;

	if (resp->length > VB_MSG_MAX)
		return VB_WHY_PACKET_LENGTH;
	return end > resp->length || (packet_ends(row) && end != resp->length)
		       ? VB_WHY_PACKET_LENGTH
		       : VB_OK;
}

/* As below, through an indirect key. */
static enum vb_reason write_indirect(struct vb_responder *resp, const struct vb_packet *packet)
{
	enum vb_reason reason = VB_OK;

	if (!resp->offset)
		reason = vb_indirect_check(&resp->own, resp->rkey, resp->va, resp->length,
					   IBV_ACCESS_REMOTE_WRITE);
	if (reason)
		return reason;
	return vb_indirect_write(&resp->own, resp->rkey, resp->va + resp->offset, packet->payload,
				 packet->payload_length);
}

static enum vb_reason write_bytes(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_responder *resp = &wired->resp;
	uint64_t address;
	/* The first packet checks the range of the whole message, each later packet its own. */
	enum vb_reason reason =
		vb_rkey_check(resp->own.home, &resp->own.key_cache, resp->own.pd,
			      resp->own.entry->qpn, resp->rkey, resp->va + resp->offset,
			      resp->offset ? packet->payload_length : resp->length,
			      IBV_ACCESS_REMOTE_WRITE, &address);

	if (reason == VB_WHY_RKEY_INDIRECT)
		return write_indirect(resp, packet);
	if (reason)
		return reason;
	if (__builtin_expect(!resp->own.home->self, 0))
		return vb_home_write(wired, address, packet) ? VB_OK : VB_WHY_REMOTE_MEMORY;
	return vb_path_copy_ordered((uint8_t *)(uintptr_t)address, packet->payload,
				    packet->payload_length)
		       ? VB_OK
		       : VB_WHY_REMOTE_MEMORY;
}

enum vb_reason vb_place_write(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_responder *resp = &wired->resp;
	struct vb_claim claim = { 0 };
	enum vb_reason reason;

	if (packet_begins(row)) {
		resp->offset = 0;
		resp->va = packet->va;
		resp->rkey = packet->rkey;
		resp->length = packet->dma_length;
	}
	reason = check_length(resp, packet, row);
	if (!reason && resp->length)
		reason = write_bytes(wired, packet);
	if (reason)
		return reason;
	/* Without a receive the packet comes again, so its bytes do not count yet. */
	if (row->headers & VB_HEADER_IMM && !vb_recv_claim(&resp->own, &claim))
		return VB_WHY_NO_RECEIVE;
	resp->offset += packet->payload_length;
	if (packet_ends(row))
		vb_served_done(wired->qp->entry, wired->qp->lent, VB_SERVED_WRITE, resp->length);
	return row->headers & VB_HEADER_IMM ? receive_complete(wired, &claim, packet) : VB_OK;
}

/* The SRQ may belong to another process and be gone, or have another ring by now. */
static bool queue_find(struct vb_wired *wired)
{
	return vb_qp_is_xrc(wired->qp) ? vb_responder_aim_again(wired)
				       : vb_responder_follow(wired, true);
}

bool vb_place_spoil(struct vb_wired *wired, enum vb_reason reason)
{
	struct vb_message message = {
		.length = wired->resp.offset,
		.src_qpn = wired->qp->attr.dest_qp_num,
		.wc_opcode = IBV_WC_RECV & 0xff,
	};
	struct vb_claim claim = { 0 };
	bool lost;

	if (vb_matches_tags(wired))
		return vb_place_tm_spoil(wired, reason);
	if (vb_reason_row(reason)->recv_status == IBV_WC_SUCCESS || !queue_find(wired) ||
	    !vb_recv_claim(&wired->resp.own, &claim))
		return false;
	receive_hold(&wired->resp.own, &claim);
	return !vb_recv_complete(&wired->resp.own, &claim, &message, reason, &lost);
}

/* The thread that drops a QP may be inside a hazard already, or may not. */
static void give_back_receive(struct vb_wired *wired)
{
	struct vb_roce *roce = wired->roce;
	struct vb_thread *before = roce->thread, *thread = vb_thread_get();
	bool inside = thread && vb_hazard_slot(atomic_load(&thread->hazard->word));
	struct vb_remote *own = &wired->resp.own;
	struct vb_claim claim = { 0 };

	if (!thread)
		return; /* the receive is lost until this process ends */
	if (!inside)
		vb_hazard_enter(thread, roce->nic->self->head_slot);
	roce->thread = thread;
	if (queue_find(wired) && vb_recv_claim(own, &claim))
		vb_recv_unclaim(own, &claim);
	own->holds_taken = false;
	roce->thread = before;
	if (!inside)
		vb_hazard_leave(thread);
}

void vb_place_give_back(struct vb_wired *wired)
{
	if (vb_matches_tags(wired))
		vb_place_tm_give_back(wired);
	if (wired->resp.own.holds_taken)
		give_back_receive(wired);
}

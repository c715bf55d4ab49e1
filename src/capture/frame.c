/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/frame.h"

#include <infiniband/verbs.h>
#include <string.h>

#include "abi/flush.h"
#include "wire/mad.h"

enum { PAD_BITS = 0x30 }; /* of the second byte of the BTH */

/* The record at hand. */
struct framing {
	struct vb_capture_framer *framer;
	vb_capture_frame_each *each;
	void *arg;
	struct vb_capture_frame frame; /* fields that all frames of the record share */
	struct vb_capture_route route;
	const uint8_t *payload, *end; /* what is left of it in the record */
};

static bool is_same_flow(const struct vb_icrc_flow *a, const struct vb_icrc_flow *b)
{
	return a->ipv6 == b->ipv6 && a->src_port == b->src_port && a->dst_port == b->dst_port &&
	       !memcmp(a->src, b->src, sizeof(a->src)) && !memcmp(a->dst, b->dst, sizeof(a->dst));
}

static const struct vb_icrc_flow *flow_of(struct framing *framing)
{
	struct vb_capture_framer *framer = framing->framer;

	if (!framer->flow_known || !is_same_flow(&framer->flow, &framing->route.flow)) {
		framer->flow = framing->route.flow;
		vb_icrc_flow_init(&framer->flow);
		framer->flow_known = true;
	}
	return &framer->flow;
}

/*
 * The packet stands behind the headers' place: `kept` bytes, of `length` bytes that there were. A
 * packet that was cut is a packet, too: Wireshark calls one malformed that has more bytes by its
 * headers than in the file. So lengths and ICRC are those of the bytes that are there.
 */
static void hand_out(struct framing *framing, uint32_t kept, uint32_t length)
{
	const uint32_t headers = vb_capture_headers(&framing->route);
	struct vb_capture_frame *frame = &framing->frame;

	vb_capture_headers_put(&framing->route, framing->framer->bytes, kept);
	frame->bytes = framing->framer->bytes;
	frame->kept = headers + kept;
	frame->length = headers + length;
	framing->each(framing->arg, frame);
	frame->text_length = 0; /* once per record */
}

/* --- packets of the wire --- */

/* The receiver of a packet does not see its IPv4 identification: the ICRC tells. */
static void find_id(struct framing *framing, const uint8_t *packet, uint32_t length)
{
	uint16_t id = 0;

	if (length >= VB_BTH_LENGTH + VB_ICRC_LENGTH &&
	    vb_icrc_check(flow_of(framing), packet, length - VB_ICRC_LENGTH, &id))
		framing->route.id = id;
}

/* Ends a packet that was cut: a multiple of 4 bytes, no pad, ICRC. Returns its length. */
static uint32_t end_early(struct framing *framing, uint8_t *packet, uint32_t kept)
{
	const uint32_t headers = kept ? vb_opcode_row(packet[0])->headers_length : 0;

	if (kept < VB_BTH_LENGTH || kept < headers)
		return kept;
	kept = headers + ((kept - headers) & ~3u);
	packet[1] &= (uint8_t)~PAD_BITS;
	vb_icrc_put(flow_of(framing), framing->route.id, packet, kept);
	return kept + VB_ICRC_LENGTH;
}

static void packet_frame(struct framing *framing, const struct vb_capture_packet *record)
{
	struct vb_capture_route *route = &framing->route;
	uint32_t kept;
	uint8_t *at;

	if (record->length > 65000 || record->kept > record->length ||
	    record->kept > (size_t)(framing->end - framing->payload))
		return;
	route->flow.ipv6 = record->ipv6;
	memcpy(route->flow.src, record->src, record->ipv6 ? 16 : 4);
	memcpy(route->flow.dst, record->dst, record->ipv6 ? 16 : 4);
	route->flow.src_port = record->src_port;
	route->flow.dst_port = record->dst_port;
	route->traffic_class = record->traffic_class;
	route->hop_limit = record->hop_limit;
	route->id = record->id;
	at = framing->framer->bytes + vb_capture_headers(route);
	memcpy(at, framing->payload, record->kept);
	kept = record->kept;
	if (kept < record->length)
		kept = end_early(framing, at, kept);
	else if (record->head.kind == VB_CAPTURE_IN && !record->ipv6)
		find_id(framing, at, record->length);
	framing->frame.out = record->head.kind == VB_CAPTURE_OUT;
	framing->frame.by = record->by;
	framing->frame.src_qpn = record->qpn;
	if (record->kept >= VB_BTH_LENGTH) {
		framing->frame.dest_qpn = vb_packet_dest_qpn(at);
		framing->frame.psn = vb_get24(at + 9);
	}
	hand_out(framing, kept, record->length);
}

/* --- packets that nobody sent --- */

/* Takes up to `bytes` bytes of the packet's payload from the record. */
static void packet_emit(struct framing *framing, const struct vb_packet *packet, uint32_t bytes)
{
	const uint32_t there = (uint32_t)(framing->end - framing->payload);
	uint8_t *at = framing->framer->bytes + vb_capture_headers(&framing->route);
	struct vb_packet cut = *packet;
	uint32_t headers, length,
		keep = packet->payload_length < bytes ? packet->payload_length : bytes;

	if (!vb_opcode_row(packet->opcode)->name ||
	    (packet->payload_length && !vb_opcode_row(packet->opcode)->has_payload))
		return; /* no transport has such a packet: the record is forged */
	if (keep > there)
		keep = there;
	if (keep < packet->payload_length)
		cut.payload_length = keep & ~3u;
	headers = (uint32_t)vb_packet_emit(&cut, at);
	length = (uint32_t)vb_packet_length(&cut);
	memcpy(at + headers, framing->payload, cut.payload_length);
	framing->payload += keep;
	framing->frame.psn = packet->psn;
	framing->frame.dest_qpn = packet->dest_qpn;
	memset(at + headers + cut.payload_length, 0, length - headers - cut.payload_length);
	vb_icrc_put(flow_of(framing), 0, at, length - VB_ICRC_LENGTH);
	hand_out(framing, length, (uint32_t)vb_packet_length(packet));
}

static void mad_frame(struct framing *framing, const struct vb_capture_packet *record)
{
	const struct vb_packet packet = {
		.opcode = VB_OP_SEND_ONLY | VB_TRANSPORT_UD,
		.migreq = true,
		.pkey = 0xffff,
		.dest_qpn = VB_GSI_QPN,
		.psn = framing->framer->mad_psn++ & VB_PSN_MASK,
		.qkey = VB_GSI_QKEY,
		.src_qpn = VB_GSI_QPN,
		.payload_length = VB_MAD_SIZE,
	};

	if (framing->end - framing->payload < VB_MAD_SIZE)
		return;
	vb_capture_route(&framing->route, record->src, record->dst);
	framing->route.flow.src_port = 0xc000 | VB_GSI_QPN;
	framing->frame.out = framing->frame.local = true;
	framing->frame.src_qpn = VB_GSI_QPN;
	packet_emit(framing, &packet, VB_MAD_SIZE);
}

static uint8_t transport_of(uint8_t type)
{
	switch (type) {
	case IBV_QPT_UC:
		return VB_TRANSPORT_UC;
	case IBV_QPT_UD:
		return VB_TRANSPORT_UD;
	case IBV_QPT_XRC_SEND:
		return VB_TRANSPORT_XRC;
	default:
		return VB_TRANSPORT_RC;
	}
}

/* BTH operations of a message's packets: first, middle, last, only. */
static const uint8_t shapes[][4] = {
	[IBV_WR_SEND] = { VB_OP_SEND_FIRST, VB_OP_SEND_MIDDLE, VB_OP_SEND_LAST, VB_OP_SEND_ONLY },
	[IBV_WR_SEND_WITH_IMM] = { VB_OP_SEND_FIRST, VB_OP_SEND_MIDDLE, VB_OP_SEND_LAST_IMM,
				   VB_OP_SEND_ONLY_IMM },
	[IBV_WR_SEND_WITH_INV] = { VB_OP_SEND_FIRST, VB_OP_SEND_MIDDLE, VB_OP_SEND_LAST_INVALIDATE,
				   VB_OP_SEND_ONLY_INVALIDATE },
	[IBV_WR_RDMA_WRITE] = { VB_OP_WRITE_FIRST, VB_OP_WRITE_MIDDLE, VB_OP_WRITE_LAST,
				VB_OP_WRITE_ONLY },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { VB_OP_WRITE_FIRST, VB_OP_WRITE_MIDDLE,
					 VB_OP_WRITE_LAST_IMM, VB_OP_WRITE_ONLY_IMM },
	[IBV_WR_RDMA_READ] = { VB_OP_READ_RESPONSE_FIRST, VB_OP_READ_RESPONSE_MIDDLE,
			       VB_OP_READ_RESPONSE_LAST, VB_OP_READ_RESPONSE_ONLY },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { [3] = VB_OP_COMPARE_SWAP },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { [3] = VB_OP_FETCH_ADD },
	[IBV_WR_ATOMIC_WRITE] = { [3] = VB_OP_ATOMIC_WRITE },
	[IBV_WR_FLUSH] = { [3] = VB_OP_FLUSH },
};

static uint32_t packets_of(const struct vb_capture_work *work)
{
	return work->length ? (work->length + work->mtu - 1) / work->mtu : 1;
}

static uint8_t operation_of(const struct vb_capture_work *work, uint32_t index, uint32_t all)
{
	const uint8_t *shape = shapes[work->opcode];

	if (all == 1)
		return shape[3];
	return shape[!index ? 0 : index + 1 == all ? 2 : 1];
}

static bool is_atomic(const struct vb_capture_work *work)
{
	return work->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* A packet of this work request, to its target; the opcode is still missing. */
static struct vb_packet request_of(const struct vb_capture_work *work, uint32_t index, uint32_t all)
{
	const bool reads = work->opcode == IBV_WR_RDMA_READ, flush = work->opcode == IBV_WR_FLUSH;
	const bool bare = reads || flush || is_atomic(work), last = index + 1 == all;
	struct vb_packet packet = {
		.migreq = true,
		.solicited = last && work->solicited,
		.ack_request = last && work->type != IBV_QPT_UC && work->type != IBV_QPT_UD,
		.pkey = work->pkey,
		.dest_qpn = work->dest_qpn,
		.psn = vb_psn_add(work->psn, index),
		.va = work->remote_addr,
		.rkey = work->rkey,
		.dma_length = flush ? (uint32_t)work->operand[0] : work->length,
		.qkey = work->qkey,
		.src_qpn = work->qpn,
		.link = work->infiniband ? (work->sl & VB_LINK_SL) | VB_LINK_GRH : 0,
		.srqn = work->srqn,
		.imm = work->imm,
		.invalidate_rkey = work->imm,
		.flush = flush ? (uint32_t)work->operand[1] : 0,
	};

	if (!bare)
		packet.payload_length = last ? work->length - index * work->mtu : work->mtu;
	packet.compare = work->operand[0];
	packet.swap_add =
		work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? work->operand[0] : work->operand[1];
	return packet;
}

static void request_frames(struct framing *framing, const struct vb_capture_work *work)
{
	const uint8_t transport = transport_of(work->type);
	const bool reads = work->opcode == IBV_WR_RDMA_READ;
	const uint32_t all = reads ? 1 : packets_of(work);

	for (uint32_t i = work->first; i < work->first + work->count && i < all; i++) {
		struct vb_packet packet = request_of(work, i, all);

		packet.opcode =
			transport | (reads ? VB_OP_READ_REQUEST : operation_of(work, i, all));
		packet_emit(framing, &packet, work->bytes);
	}
}

/* From here on frames go the other way. */
static void turn_round(struct framing *framing, const struct vb_capture_work *work)
{
	struct vb_icrc_flow *flow = &framing->route.flow;
	uint8_t src[16];

	memcpy(src, flow->src, sizeof(src));
	memcpy(flow->src, flow->dst, sizeof(src));
	memcpy(flow->dst, src, sizeof(src));
	framing->frame.out = false;
	framing->frame.answer = true;
	framing->frame.time_ns = work->ended_ns;
	framing->frame.src_qpn = work->dest_qpn;
}

static bool is_ack(const struct vb_capture_work *work)
{
	return (work->syndrome & VB_SYNDROME_KIND) == VB_SYNDROME_ACK;
}

static uint8_t answer_operation(const struct vb_capture_work *work)
{
	if (!is_ack(work))
		return VB_OP_ACKNOWLEDGE;
	if (work->opcode == IBV_WR_ATOMIC_WRITE || work->opcode == IBV_WR_FLUSH)
		return VB_OP_READ_RESPONSE_ONLY;
	return is_atomic(work) ? VB_OP_ATOMIC_ACKNOWLEDGE : VB_OP_ACKNOWLEDGE;
}

static struct vb_packet answer_of(const struct vb_capture_work *work, uint32_t index)
{
	return (struct vb_packet){
		.migreq = true,
		.pkey = work->pkey,
		.dest_qpn = work->qpn,
		.psn = vb_psn_add(work->psn, index),
		.syndrome = work->syndrome,
		.msn = work->msn,
		.original = work->original,
	};
}

static void answer_frame(struct framing *framing, const struct vb_capture_work *work)
{
	struct vb_packet packet =
		answer_of(work, is_ack(work) ? packets_of(work) - 1 : work->naked);

	packet.opcode = transport_of(work->type) | answer_operation(work);
	packet_emit(framing, &packet, 0);
}

static void response_frames(struct framing *framing, const struct vb_capture_work *work)
{
	const uint32_t all = packets_of(work);

	for (uint32_t i = work->first; i < work->first + work->count && i < all; i++) {
		struct vb_packet packet = answer_of(work, i);

		packet.opcode = transport_of(work->type) | operation_of(work, i, all);
		packet.payload_length = i + 1 == all ? work->length - i * work->mtu : work->mtu;
		packet_emit(framing, &packet, work->bytes);
	}
}

static bool work_is_sound(const struct vb_capture_work *work)
{
	return work->opcode < sizeof(shapes) / sizeof(*shapes) && shapes[work->opcode][3] &&
	       work->mtu >= 256 && work->mtu <= VB_MTU_MAX && work->mtu % 4 == 0 &&
	       work->count <= VB_PSN_MASK && work->first <= VB_PSN_MASK &&
	       (work->opcode != IBV_WR_ATOMIC_WRITE || work->length == 8);
}

static void work_frames(struct framing *framing, const struct vb_capture_work *work)
{
	if (!work_is_sound(work))
		return;
	vb_capture_route(&framing->route, work->sgid, work->dgid);
	framing->route.flow.src_port = (uint16_t)(0xc000 | ((work->qpn ^ work->dest_qpn) & 0x3fff));
	framing->route.traffic_class = work->traffic_class;
	framing->route.hop_limit = work->hop_limit;
	framing->frame.out = framing->frame.local = true;
	framing->frame.opcode = work->opcode;
	framing->frame.status = work->status;
	framing->frame.wr_id = work->wr_id;
	framing->frame.src_qpn = work->qpn;
	if (work->opcode != IBV_WR_RDMA_READ || !work->first)
		request_frames(framing, work);
	turn_round(framing, work);
	if (work->opcode == IBV_WR_RDMA_READ && is_ack(work) && work->answers)
		response_frames(framing, work);
	else if (work->answers)
		answer_frame(framing, work);
}

void vb_capture_frames(struct vb_capture_framer *framer, const struct vb_capture_head *record,
		       vb_capture_frame_each *each, void *arg)
{
	const uint8_t *bytes = (const uint8_t *)record, *end = bytes + record->size;
	struct framing framing = { framer, each, arg };
	size_t size;

	switch (record->kind) {
	case VB_CAPTURE_OUT:
	case VB_CAPTURE_IN:
	case VB_CAPTURE_MAD:
		size = sizeof(struct vb_capture_packet);
		break;
	case VB_CAPTURE_WORK:
		size = sizeof(struct vb_capture_work);
		break;
	default:
		return;
	}
	if (record->size < size + record->text)
		return;
	framing.frame = (struct vb_capture_frame){ .time_ns = record->time_ns,
						   .opcode = -1,
						   .text = (const char *)bytes + size,
						   .text_length = record->text };
	framing.payload = bytes + size + record->text;
	framing.end = end;
	if (record->kind == VB_CAPTURE_WORK)
		work_frames(&framing, (const void *)record);
	else if (record->kind == VB_CAPTURE_MAD)
		mad_frame(&framing, (const void *)record);
	else
		packet_frame(&framing, (const void *)record);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <inttypes.h>

#include "wire/line.h"
#include "wire/packet.h"

static void add_bth(struct line *line, const struct vb_packet *packet)
{
	const char *name = vb_opcode_row(packet->opcode)->name;

	if (name)
		line_add(line, "%s", name);
	else
		line_add(line, "opcode 0x%02x", packet->opcode);
	line_add(line, " qp 0x%06" PRIx32 " psn %" PRIu32, packet->dest_qpn, packet->psn);
	if (packet->pkey != 0xffff)
		line_add(line, " pkey 0x%04x", packet->pkey);
	line_add_if(line, packet->solicited, "solicited");
	line_add_if(line, packet->migreq, "migreq");
	line_add_if(line, packet->ack_request, "ackreq");
	line_add_if(line, packet->fecn, "fecn");
	line_add_if(line, packet->becn, "becn");
}

static const char *nak_name(uint8_t syndrome)
{
	static const char *const names[] = { "sequence", "invalid request", "access", "operational",
					     "invalid RD" };
	unsigned code = syndrome & VB_SYNDROME_VALUE;

	return code < sizeof(names) / sizeof(*names) ? names[code] : "reserved";
}

static void add_aeth(struct line *line, const struct vb_packet *packet)
{
	unsigned value = packet->syndrome & VB_SYNDROME_VALUE;
	unsigned kind = packet->syndrome & ~(unsigned)VB_SYNDROME_VALUE;

	if (kind == VB_SYNDROME_ACK && value == VB_CREDITS_NONE)
		line_add(line, " ACK");
	else if (kind == VB_SYNDROME_ACK)
		line_add(line, " ACK credits %u", value);
	else if (kind == VB_SYNDROME_RNR)
		line_add(line, " RNR timer %u", value);
	else if (kind == VB_SYNDROME_NAK)
		line_add(line, " NAK %s", nak_name(packet->syndrome));
	else
		line_add(line, " syndrome 0x%02x", packet->syndrome);
	line_add(line, " msn %" PRIu32, packet->msn);
}

static void add_atomic_eth(struct line *line, const struct vb_packet *packet)
{
	line_add(line, " va 0x%" PRIx64 " rkey 0x%08" PRIx32, packet->va, packet->rkey);
	if ((packet->opcode & ~VB_TRANSPORT_MASK) == VB_OP_COMPARE_SWAP)
		line_add(line, " compare 0x%" PRIx64 " swap 0x%" PRIx64, packet->compare,
			 packet->swap_add);
	else
		line_add(line, " add 0x%" PRIx64, packet->swap_add);
}

static void add_leading(struct line *line, const struct vb_packet *packet, unsigned headers)
{
	if (headers & VB_HEADER_XRCETH)
		line_add(line, " srq 0x%06" PRIx32, packet->srqn);
	if (headers & VB_HEADER_DETH)
		line_add(line, " from 0x%06" PRIx32 " qkey 0x%08" PRIx32, packet->src_qpn,
			 packet->qkey);
	if (headers & VB_HEADER_FETH)
		line_add(line, " flush 0x%02" PRIx32, packet->flush);
	if (headers & VB_HEADER_RETH)
		line_add(line, " va 0x%" PRIx64 " rkey 0x%08" PRIx32 " length %" PRIu32, packet->va,
			 packet->rkey, packet->dma_length);
}

static void add_trailing(struct line *line, const struct vb_packet *packet, unsigned headers)
{
	if (headers & VB_HEADER_ATOMIC_ETH)
		add_atomic_eth(line, packet);
	if (headers & VB_HEADER_AETH)
		add_aeth(line, packet);
	if (headers & VB_HEADER_ATOMIC_ACK_ETH)
		line_add(line, " original 0x%" PRIx64, packet->original);
	if (headers & VB_HEADER_IMM)
		line_add(line, " imm 0x%08" PRIx32, (uint32_t)ntohl(packet->imm));
	if (headers & VB_HEADER_IETH)
		line_add(line, " invalidate 0x%08" PRIx32, packet->invalidate_rkey);
}

const char *vb_packet_print(const struct vb_packet *packet, char *out, size_t size)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct line line = { .out = out, .size = size };

	add_bth(&line, packet);
	add_leading(&line, packet, row->headers);
	add_trailing(&line, packet, row->headers);
	if (row->has_payload)
		line_add(&line, " %" PRIu32 " B", packet->payload_length);
	return out;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any packets, at any time, at QPs of every type: the input is a list of commands, a byte that
 * says which and what it needs. Whatever comes, memory that was not offered does not change or
 * leave, each work request completes once and in order, and nothing hangs.
 */
#include <string.h>

#include "roce_stage.h"
#include "wire/bytes.h"

enum command {
	DO_PACKET,  /* headers chosen near what is expected */
	DO_RAW,     /* any bytes, behind a right QPN and ICRC */
	DO_GARBAGE, /* any bytes at all */
	DO_STRANGE, /* a packet that nobody may notice */
	DO_WAIT,
	DO_SEND,
	DO_RECV,
	DO_POLL,
	DO_PULL,
	DO_REREGISTER,
	COMMANDS,
	/* by bytes from SPECIAL on: inputs that were found before them keep their meaning */
	DO_RESET = COMMANDS,
	DO_PAUSE,
	DO_TAKE_AWAY, /* memory of its own */
	COMMANDS_ALL,
};

enum { COMMANDS_MAX = 400, SPECIAL = 0xf0 };

struct input {
	const uint8_t *at, *end;
};

static uint8_t byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint16_t half(struct input *in)
{
	uint16_t high = byte(in);

	return (uint16_t)(high << 8 | byte(in));
}

static uint32_t word(struct input *in)
{
	uint32_t high = half(in);

	return high << 16 | half(in);
}

static enum stage_qp qp_of(struct input *in)
{
	uint8_t which = byte(in);

	return which >= SPECIAL ? STAGE_XRC : (enum stage_qp)(which % STAGE_XRC);
}

/* Near one of those that mean something to the QP, or far away. */
static uint32_t psn_of(struct input *in, const struct vb_wired *wired)
{
	const uint32_t near[] = { wired->resp.expected_psn, wired->req.una_psn, wired->req.next_psn,
				  wired->req.sent_psn };
	uint8_t which = byte(in);

	if (which & 0x80)
		return word(in) & VB_PSN_MASK;
	return vb_psn_add(near[which & 3], (uint32_t)((which >> 2 & 31) - 8) & VB_PSN_MASK);
}

static uint32_t rkey_of(struct input *in, const struct stage *stage)
{
	uint8_t which = byte(in);

	if (which & 0x80)
		return word(in);
	if (which & 0x40)
		return stage->mr[ZONE_TARGET]->ibv.rkey ^ 1u << (which & 31);
	return stage->mr[which % ZONES]->ibv.rkey;
}

/* In or near a zone. */
static uint64_t va_of(struct input *in, const struct stage *stage)
{
	uint8_t which = byte(in);
	uint64_t begin = (uintptr_t)stage_zone(stage, which % ZONES);

	if (which & 0x80)
		return (uint64_t)word(in) << 32;
	return begin + (which & 0x40 ? half(in) - 0x8000ll : half(in) % ZONE_BYTES);
}

static uint32_t length_of(struct input *in)
{
	uint8_t which = byte(in);

	if (which < 0x80)
		return which * 8u;
	if (which < 0xc0)
		return STAGE_MTU * (which & 15u);
	return (uint32_t)half(in) << (which & 16);
}

static struct vb_packet packet_of(struct input *in, struct stage *stage)
{
	enum stage_qp which = qp_of(in);
	const struct stage_end *end = &stage->end[which];
	static const uint8_t transports[STAGE_QPS] = { VB_TRANSPORT_RC, VB_TRANSPORT_RC,
						       VB_TRANSPORT_UC, VB_TRANSPORT_UD,
						       VB_TRANSPORT_XRC };
	uint8_t opcode = byte(in), flags = byte(in);
	struct vb_packet packet = {
		.solicited = flags & 1,
		.ack_request = flags & 2,
		.migreq = true,
		.fecn = flags & 4,
		.becn = flags & 8,
		.pkey = 0xffff,
		.dest_qpn = end->qp->ibv.qp_num,
		.swap_add = flags,
		.compare = 0x1111111111111111,
		.msn = flags,
		.original = opcode,
		.src_qpn = STAGE_PEER_QPN,
		.imm = flags,
		.invalidate_rkey = stage->mr[ZONE_TARGET]->ibv.rkey,
	};

	/* Nearly always one of the QP's own transport. */
	packet.opcode = opcode < 0xe0 ? (opcode & 0x1f) | transports[which] : opcode;
	packet.psn = psn_of(in, end->wired);
	if (which == STAGE_XRC)
		packet.srqn = stage->xrc_srq->number ^ (flags >> 6 == 3);
	packet.va = va_of(in, stage);
	packet.rkey = rkey_of(in, stage);
	packet.dma_length = length_of(in);
	packet.syndrome = byte(in);
	packet.qkey = flags & 16 ? half(in) : STAGE_QKEY;
	packet.payload_length = flags >> 7;
	if (flags & 32)
		packet.payload_length = length_of(in) % (VB_MTU_MAX + 1);
	else if (flags & 64)
		packet.payload_length = STAGE_MTU;
	return packet;
}

/* The whole packet; returns its length. */
static uint32_t emit(const struct vb_packet *packet, uint8_t *out, const struct vb_icrc_flow *flow)
{
	size_t length = vb_packet_emit(packet, out);

	memset(out + length, 0x33, packet->payload_length);
	length += packet->payload_length;
	while (length & 3)
		out[length++] = 0;
	vb_icrc_put(flow, 0, out, length);
	return (uint32_t)length + VB_ICRC_LENGTH;
}

static void do_packet(struct input *in, struct stage *stage)
{
	struct stage_origin origin = { .traffic_class = byte(in) };
	struct vb_packet packet = packet_of(in, stage);
	uint8_t bytes[VB_PACKET_MAX];

	stage_packet(stage, &origin, bytes, emit(&packet, bytes, &stage->back));
}

static void do_raw(struct input *in, struct stage *stage, bool garbage)
{
	uint8_t bytes[600];
	uint32_t length = half(in) % (sizeof(bytes) - VB_BTH_LENGTH - VB_ICRC_LENGTH);
	uint32_t qpn = stage->end[qp_of(in)].qp->ibv.qp_num;
	uint32_t left = (uint32_t)(in->end - in->at);
	struct stage_origin origin = { 0 };

	length = length < left ? length : left;
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, in->at, length);
	in->at += length;
	if (garbage) {
		/* The block ends where the packet ends, for the sanitizer to see. */
		uint8_t *exact = malloc(length ? length : 1);

		fuzz_check(exact);
		memcpy(exact, bytes, length);
		stage_packet(stage, &origin, exact, length);
		free(exact);
		return;
	}
	length = length < VB_BTH_LENGTH ? VB_BTH_LENGTH : length;
	vb_put24(bytes + 5, qpn);
	vb_icrc_put(&stage->back, 0, bytes, length);
	stage_packet(stage, &origin, bytes, length + VB_ICRC_LENGTH);
}

/* Right in everything but one thing. */
static void do_strange(struct input *in, struct stage *stage)
{
	struct stage_origin origin = { .traffic_class = byte(in) };
	uint8_t bytes[VB_PACKET_MAX], how = byte(in);
	struct vb_packet packet = packet_of(in, stage);
	static const uint8_t stranger[4] = { 10, 0, 0, 3 }, mine[4] = { 10, 0, 0, 1 };
	struct vb_icrc_flow flow = stage->back;
	uint32_t length;

	switch (how % 4) {
	case 0: /* datagrams come from anywhere */
		if (packet.dest_qpn == stage->end[STAGE_UD].qp->ibv.qp_num)
			return;
		origin.stranger = true;
		memcpy(flow.src, stranger, 4);
		memcpy(flow.dst, mine, 4);
		vb_icrc_flow_init(&flow);
		break;
	case 1:
		packet.pkey = (uint16_t)(0x8000 | half(in) % 0x7fff);
		break;
	case 2:
		packet.dest_qpn ^= 0x800;
		break;
	}
	length = emit(&packet, bytes, &flow);
	if (how % 4 == 3) /* the ICRC is blind to one byte */
		bytes[how % length == 4 ? 0 : how % length] ^= 0x10;
	stage_ignored(stage, &origin, bytes, length);
}

static void do_send(struct input *in, struct stage *stage)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_SEND_WITH_INV,
	};
	enum stage_qp which = qp_of(in);
	/* What the program does is legal: this is about its peers. */
	static const uint8_t known[STAGE_QPS] = { 8, 8, 4, 2, 1 };
	enum ibv_wr_opcode opcode = opcodes[byte(in) % known[which]];
	bool atomic = vb_wr_row(opcode)->family == VB_FAMILY_ATOMIC;
	enum stage_zone zone = vb_wr_returns(opcode) ? ZONE_LAND : ZONE_SOURCE;
	uint32_t length = byte(in) * (which == STAGE_UD ? 1u : 4u), half_length = length / 2;
	uint64_t address = (uintptr_t)stage_zone(stage, zone) + byte(in) * 4u;
	uint32_t lkey = stage->mr[zone]->ibv.lkey;
	struct ibv_sge sge[2] = { { address + half_length, length - half_length, lkey },
				  { address, half_length, lkey } };
	struct ibv_send_wr wr = { .sg_list = sge,
				  .num_sge = atomic ? 1 : 2,
				  .opcode = opcode,
				  .send_flags = byte(in) & 1 ? IBV_SEND_FENCE : 0 };

	if (atomic) {
		sge[0] = (struct ibv_sge){ address, 8, lkey };
		wr.wr.atomic.remote_addr = 0x1000;
		wr.wr.atomic.rkey = 0x77;
	} else if (which != STAGE_UD) {
		wr.wr.rdma.remote_addr = 0x1000;
		wr.wr.rdma.rkey = 0x77;
	}
	stage_post_send(stage, which, &wr);
}

static enum command command_of(struct input *in)
{
	uint8_t which = byte(in);

	if (which >= SPECIAL)
		return (enum command)(COMMANDS + which % (COMMANDS_ALL - COMMANDS));
	return (enum command)(which % COMMANDS);
}

static void command(struct input *in, struct stage *stage)
{
	static const enum stage_zone own[] = { ZONE_SOURCE, ZONE_LAND, ZONE_RECV };

	switch (command_of(in)) {
	case DO_PACKET:
		do_packet(in, stage);
		break;
	case DO_RAW:
		do_raw(in, stage, false);
		break;
	case DO_GARBAGE:
		do_raw(in, stage, true);
		break;
	case DO_STRANGE:
		do_strange(in, stage);
		break;
	case DO_WAIT:
		stage_wait_ns(stage, 1ull << byte(in) % 32);
		break;
	case DO_SEND:
		do_send(in, stage);
		break;
	case DO_RECV: {
		enum stage_qp which = qp_of(in);
		uint32_t offset = byte(in) * 8u;

		stage_post_recv(stage, which, offset, byte(in) * 8u);
		break;
	}
	case DO_POLL:
		stage_poll(stage);
		break;
	case DO_PULL:
		stage_pull(stage, qp_of(in));
		break;
	case DO_REREGISTER:
		stage_reregister(stage, ZONE_TARGET);
		break;
	case DO_RESET:
		stage_reset(stage, qp_of(in));
		break;
	case DO_PAUSE:
		stage_pause(stage, qp_of(in));
		break;
	case DO_TAKE_AWAY:
		stage_reregister(stage, own[byte(in) % 3]);
		break;
	case COMMANDS_ALL:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct stage stage;
	struct input in = { bytes, bytes + length };

	stage_open(&stage);
	for (unsigned i = 0; i < COMMANDS_MAX && in.at < in.end; i++)
		command(&in, &stage);
	stage_close(&stage);
	return 0;
}

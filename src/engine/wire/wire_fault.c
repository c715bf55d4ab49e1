/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire/wire_fault.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/wire/wire.h"
#include "engine/wire/wire_origin.h"
#include "path/fault/fault.h"

enum {
	HELD_PACKETS = 1 << 16,
	HELD_BYTES = 256 << 20,
	UNCHECKED_BIT =
		32, /* first of eight bits of the BTH that routers change and the ICRC omits */
};

/* A packet that meets the rules, on its way out or in. */
struct passing {
	struct vb_lane *lane;
	bool out;
	const void *context; /* out: struct vb_way, in: struct vb_origin */
	const uint8_t *bytes;
	uint32_t length;
	uint32_t qpn, peer_qpn; /* of our QP, and of the peer's if it is known */
};

struct vb_wire_fault *vb_wire_fault_new(void)
{
	struct vb_wire_fault *fault = calloc(1, sizeof(*fault));

	if (!fault)
		return NULL;
	vb_delay_line_init(&fault->out, HELD_PACKETS, HELD_BYTES);
	vb_delay_line_init(&fault->in, HELD_PACKETS, HELD_BYTES);
	return fault;
}

/* --- both directions --- */

static struct vb_delay_line *line_of(struct vb_lane *lane, bool out)
{
	return out ? &lane->fault->out : &lane->fault->in;
}

static struct vb_peer *peer_of(bool out, const void *context)
{
	const struct vb_way *way = context;
	const struct vb_origin *origin = context;

	return out ? way->peer : origin->arrival.peer;
}

static void send_on(struct vb_lane *lane, const struct vb_way *way, const uint8_t *bytes,
		    uint32_t length)
{
	const struct vb_burst burst = {
		.way = way,
		.bytes = bytes,
		.length = length,
		.segment = length,
	};

	vb_port_send(lane->port, &burst, 1);
}

static void take_in(struct vb_lane *lane, const struct vb_origin *origin, const uint8_t *bytes,
		    uint32_t length)
{
	const struct vb_arrival arrival = vb_origin_arrival(origin, bytes, length);

	vb_roce_input(&lane->roce, &arrival);
}

static void go_on(struct vb_lane *lane, bool out, const void *context, const uint8_t *bytes,
		  uint32_t length)
{
	if (out)
		send_on(lane, context, bytes, length);
	else
		take_in(lane, context, bytes, length);
}

static void pass_on(const struct passing *packet)
{
	go_on(packet->lane, packet->out, packet->context, packet->bytes, packet->length);
}

static uint32_t bit_of(const struct vb_fault_verdict *verdict, uint32_t length)
{
	uint32_t bit;

	if (!verdict->bit_drawn)
		return verdict->corrupt_bit % (length * 8);
	bit = verdict->corrupt_bit % (length * 8 - 8);
	return bit < UNCHECKED_BIT ? bit : bit + 8;
}

static void corrupt_and_pass(const struct passing *packet, uint32_t bit)
{
	struct passing spoilt = *packet;
	uint8_t bytes[VB_PACKET_MAX];

	if (packet->length > sizeof(bytes))
		return;
	memcpy(bytes, packet->bytes, packet->length);
	bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	spoilt.bytes = bytes;
	pass_on(&spoilt);
}

/* Once: the sentence covers later losses as well. */
static void tell_lost(struct vb_lane *lane, bool out)
{
	if (lane->fault->lost_told)
		return;
	lane->fault->lost_told = true;
	vb_explain_work("fault rules hold back more than %d packets that %s, or more than %d MiB: "
			"further packets are lost",
			HELD_PACKETS, out ? "go out" : "come in", HELD_BYTES >> 20);
}

static void hold_back(const struct passing *packet, const struct vb_fault_verdict *verdict)
{
	struct vb_peer *peer = peer_of(packet->out, packet->context);
	const struct vb_delay_input input = {
		.bytes = packet->bytes,
		.length = packet->length,
		.context = packet->context,
		.context_length = packet->out ? sizeof(struct vb_way) : sizeof(struct vb_origin),
		.flow = packet->qpn,
		.due_ns = packet->lane->roce.now_ns + verdict->delay_ns,
		.until_overtaken = verdict->action == VB_FAULT_REORDER,
	};

	if (vb_delay_push(line_of(packet->lane, packet->out), &input))
		tell_lost(packet->lane, packet->out);
	else if (peer)
		vb_peer_get(peer);
}

static void judge_packet(const struct passing *packet)
{
	struct vb_lane *lane = packet->lane;
	struct vb_fault_verdict verdict = { 0 };

	vb_fault_packet(packet->out, packet->qpn, packet->peer_qpn, packet->bytes[0], &verdict);
	switch (verdict.action) {
	case VB_FAULT_DROP:
		return;
	case VB_FAULT_DELAY:
	case VB_FAULT_REORDER:
		hold_back(packet, &verdict);
		return;
	case VB_FAULT_CORRUPT:
		corrupt_and_pass(packet, bit_of(&verdict, packet->length));
		return;
	case VB_FAULT_DUPLICATE:
		pass_on(packet);
		break;
	case VB_FAULT_FATAL:
		lane->roce.fatal = true;
		break;
	case VB_FAULT_NONE:
	case VB_FAULT_FAIL:
	case VB_FAULT_ACTION_COUNT:
		break;
	}
	pass_on(packet);
	vb_delay_pass(line_of(lane, packet->out), packet->qpn, lane->roce.now_ns);
}

/* Lets the packets go on that were held back and are due by then. */
static void release_due(struct vb_lane *lane, bool out, uint64_t until_ns)
{
	struct vb_delayed *held;

	while ((held = vb_delay_pop_due(line_of(lane, out), until_ns))) {
		go_on(lane, out, held->context, held->bytes, held->length);
		vb_peer_put(peer_of(out, held->context));
		free(held);
	}
}

/* --- out --- */

void vb_wire_fault_send(struct vb_lane *lane, const struct vb_burst *bursts, unsigned count)
{
	/* While there are rules each burst has one packet: sink_burst_max. */
	for (unsigned i = 0; i < count; i++) {
		const struct passing packet = {
			.lane = lane,
			.out = true,
			.context = bursts[i].way,
			.bytes = bursts[i].bytes,
			.length = bursts[i].length,
			.qpn = bursts[i].qpn,
			.peer_qpn = vb_packet_dest_qpn(bursts[i].bytes),
		};

		judge_packet(&packet);
	}
	/* Packets that come in wait: the sender is not done with its own packets. */
	release_due(lane, true, lane->roce.now_ns);
}

/* --- in --- */

static uint32_t peer_qpn(struct vb_lane *lane, uint32_t qpn)
{
	const struct vb_wired *wired = vb_roce_find(&lane->roce, qpn);

	return wired && wired->qp->type != IBV_QPT_UD ? wired->qp->attr.dest_qp_num : 0;
}

void vb_wire_fault_input(struct vb_lane *lane, const struct vb_arrival *arrival)
{
	const struct vb_origin origin = vb_origin_of(arrival);
	struct passing packet = {
		.lane = lane,
		.context = &origin,
		.bytes = arrival->bytes,
		.length = arrival->length,
	};

	if (arrival->length < VB_BTH_LENGTH)
		return;
	packet.qpn = vb_packet_dest_qpn(arrival->bytes);
	packet.peer_qpn = peer_qpn(lane, packet.qpn);
	judge_packet(&packet);
}

/* --- time --- */

void vb_wire_fault_release(struct vb_lane *lane)
{
	release_due(lane, true, lane->roce.now_ns);
	release_due(lane, false, lane->roce.now_ns);
}

void vb_wire_fault_farewell(struct vb_lane *lane)
{
	release_due(lane, true, VB_NEVER_NS);
}

uint64_t vb_wire_fault_next_ns(const struct vb_lane *lane)
{
	uint64_t out_ns = vb_delay_next_due_ns(&lane->fault->out);
	uint64_t in_ns = vb_delay_next_due_ns(&lane->fault->in);

	return out_ns < in_ns ? out_ns : in_ns;
}

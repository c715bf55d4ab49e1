/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire_fault.h"
#include "base/clock.h"
#include "engine/wire.h"
#include "path/fault/fault.h"

#include <stdlib.h>
#include <string.h>

enum { HELD_PACKETS = 4096, HELD_BYTES = 8 << 20 };

/* Where a packet that is held back came from. */
struct origin {
	struct vb_icrc_flow flow;
	struct vb_peer *peer; /* referenced */
	uint8_t traffic_class, hop_limit;
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

static uint32_t dest_qpn(const uint8_t *bytes)
{
	return (uint32_t)bytes[5] << 16 | (uint32_t)bytes[6] << 8 | bytes[7];
}

/* --- out --- */

static void send_one(struct vb_wire *wire, const struct vb_way *way, const uint8_t *bytes,
		     uint32_t length)
{
	struct vb_burst burst = { .way = way, .bytes = bytes, .length = length, .segment = length };

	vb_port_send(wire->port, &burst, 1);
}

static void send_corrupted(struct vb_wire *wire, const struct vb_burst *burst, uint32_t bit)
{
	uint8_t spoilt[VB_PACKET_MAX];

	if (burst->length > sizeof(spoilt))
		return;
	memcpy(spoilt, burst->bytes, burst->length);
	bit %= burst->length * 8;
	spoilt[bit / 8] ^= (uint8_t)(1u << bit % 8);
	send_one(wire, burst->way, spoilt, burst->length);
}

static void hold_out(struct vb_wire *wire, const struct vb_burst *burst,
		     const struct vb_fault_verdict *verdict)
{
	const struct vb_delay_input input = {
		.bytes = burst->bytes,
		.length = burst->length,
		.context = burst->way,
		.context_length = sizeof(*burst->way),
		.flow = burst->qpn,
		.due_ns = wire->roce.now_ns + verdict->delay_ns,
		.until_overtaken = verdict->action == VB_FAULT_REORDER,
	};

	if (!vb_delay_push(&wire->fault->out, &input) && burst->way->peer)
		vb_peer_get(burst->way->peer);
}

static void packet_out(struct vb_wire *wire, const struct vb_burst *burst)
{
	struct vb_fault_verdict verdict = { 0 };

	vb_fault_packet(true, burst->qpn, dest_qpn(burst->bytes), burst->bytes[0], &verdict);
	switch (verdict.action) {
	case VB_FAULT_DROP:
		return;
	case VB_FAULT_DELAY:
	case VB_FAULT_REORDER:
		hold_out(wire, burst, &verdict);
		return;
	case VB_FAULT_CORRUPT:
		send_corrupted(wire, burst, verdict.corrupt_bit);
		return;
	case VB_FAULT_DUPLICATE:
		send_one(wire, burst->way, burst->bytes, burst->length);
		break;
	case VB_FAULT_FATAL:
		wire->roce.fatal = true;
		break;
	case VB_FAULT_NONE:
	case VB_FAULT_FAIL:
	case VB_FAULT_ACTION_COUNT:
		break;
	}
	send_one(wire, burst->way, burst->bytes, burst->length);
	vb_delay_pass(&wire->fault->out, burst->qpn, wire->roce.now_ns);
}

void vb_wire_fault_send(struct vb_wire *wire, const struct vb_burst *bursts, unsigned count)
{
	/* Bursts have one packet each while there are rules: sink_burst_max. */
	for (unsigned i = 0; i < count; i++)
		packet_out(wire, &bursts[i]);
	vb_wire_fault_release(wire);
}

/* --- in --- */

static void input_corrupted(struct vb_wire *wire, const struct vb_arrival *arrival, uint32_t bit)
{
	struct vb_arrival spoilt = *arrival;
	uint8_t bytes[VB_PACKET_MAX];

	if (arrival->length > sizeof(bytes))
		return;
	memcpy(bytes, arrival->bytes, arrival->length);
	bit %= arrival->length * 8;
	bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	spoilt.bytes = bytes;
	vb_roce_input(&wire->roce, &spoilt);
}

static void hold_in(struct vb_wire *wire, const struct vb_arrival *arrival,
		    const struct vb_fault_verdict *verdict)
{
	const struct origin origin = { *arrival->flow, arrival->peer, arrival->traffic_class,
				       arrival->hop_limit };
	const struct vb_delay_input input = {
		.bytes = arrival->bytes,
		.length = arrival->length,
		.context = &origin,
		.context_length = sizeof(origin),
		.flow = dest_qpn(arrival->bytes),
		.due_ns = wire->roce.now_ns + verdict->delay_ns,
		.until_overtaken = verdict->action == VB_FAULT_REORDER,
	};

	if (!vb_delay_push(&wire->fault->in, &input) && arrival->peer)
		vb_peer_get(arrival->peer);
}

static uint32_t peer_qpn(struct vb_wire *wire, uint32_t qpn)
{
	const struct vb_wired *wired = vb_roce_find(&wire->roce, qpn);

	return wired && wired->qp->type != IBV_QPT_UD ? wired->qp->attr.dest_qp_num : 0;
}

void vb_wire_fault_input(struct vb_wire *wire, const struct vb_arrival *arrival)
{
	struct vb_fault_verdict verdict = { 0 };
	uint32_t qpn;

	if (arrival->length < VB_BTH_LENGTH)
		return;
	qpn = dest_qpn(arrival->bytes);
	vb_fault_packet(false, qpn, peer_qpn(wire, qpn), arrival->bytes[0], &verdict);
	switch (verdict.action) {
	case VB_FAULT_DROP:
		return;
	case VB_FAULT_DELAY:
	case VB_FAULT_REORDER:
		hold_in(wire, arrival, &verdict);
		return;
	case VB_FAULT_CORRUPT:
		input_corrupted(wire, arrival, verdict.corrupt_bit);
		return;
	case VB_FAULT_DUPLICATE:
		vb_roce_input(&wire->roce, arrival);
		break;
	case VB_FAULT_FATAL:
		wire->roce.fatal = true;
		break;
	case VB_FAULT_NONE:
	case VB_FAULT_FAIL:
	case VB_FAULT_ACTION_COUNT:
		break;
	}
	vb_roce_input(&wire->roce, arrival);
	vb_delay_pass(&wire->fault->in, qpn, wire->roce.now_ns);
}

/* --- time --- */

static void release_in(struct vb_wire *wire, const struct vb_delayed *held)
{
	const struct origin *origin = held->context;
	const struct vb_arrival arrival = {
		.flow = &origin->flow,
		.bytes = held->bytes,
		.length = held->length,
		.traffic_class = origin->traffic_class,
		.hop_limit = origin->hop_limit,
		.peer = origin->peer,
	};

	vb_roce_input(&wire->roce, &arrival);
	vb_peer_put(origin->peer);
}

void vb_wire_fault_release(struct vb_wire *wire)
{
	struct vb_delayed *held;

	while ((held = vb_delay_pop_due(&wire->fault->out, wire->roce.now_ns))) {
		const struct vb_way *way = held->context;

		send_one(wire, way, held->bytes, held->length);
		vb_peer_put(way->peer);
		free(held);
	}
	while ((held = vb_delay_pop_due(&wire->fault->in, wire->roce.now_ns))) {
		release_in(wire, held);
		free(held);
	}
}

uint64_t vb_wire_fault_next_ns(const struct vb_wire *wire)
{
	uint64_t out_ns = vb_delay_next_due_ns(&wire->fault->out);
	uint64_t in_ns = vb_delay_next_due_ns(&wire->fault->in);

	return out_ns < in_ns ? out_ns : in_ns;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose packet is it? One merged burst may hold packets for several QPs and processes. */
#include "path/roce/port_impl.h"
#include "wire/packet.h"

#include <string.h>

bool vb_port_owns_slot(const struct vb_port *port, uint32_t slot)
{
	const struct vb_segment_head *head = port->nic->seg.head;

	for (int i = 0; i < VB_OWN_SLOTS; i++) {
		uint32_t own = atomic_load_explicit(&head->own_slots[i], memory_order_acquire);

		if (own == slot)
			return true;
		if (!own)
			break;
	}
	return false;
}

/* The slot that a packet names; 0: none, it is for whoever got it (QP 0 and 1, groups, garbage). */
static uint32_t slot_of(const uint8_t *bytes, uint32_t length)
{
	uint32_t slot;

	if (length < VB_BTH_LENGTH)
		return 0;
	slot = vb_packet_dest_qpn(bytes) >> VB_QP_INDEX_BITS;
	return slot <= VB_SLOT_MAX ? slot : 0;
}

static uint32_t piece(uint32_t left, uint32_t segment)
{
	return left < segment ? left : segment;
}

static void show(struct vb_port *port, const struct vb_delivery *from, uint32_t at, uint32_t length,
		 unsigned position)
{
	const struct vb_arrival arrival = {
		.flow = from->flow,
		.bytes = from->bytes + at,
		.length = length,
		.traffic_class = from->traffic_class,
		.hop_limit = from->hop_limit,
		.scope = from->scope,
		.position = (uint16_t)position,
		.peer = from->peer,
		.forwarded = from->forwarded,
		.fabric = from->endpoint ? from->endpoint->fabric : from->fabric,
	};

	port->counters->packets_in++;
	port->counters->bytes_in += length;
	port->input(port->input_arg, &arrival);
}

/* Packets that nobody may forward once more: no circles, no relaying for peers. */
static void refuse(struct vb_port *port, const struct vb_delivery *from, uint32_t packets)
{
	if (from->forwarded)
		atomic_fetch_add(&port->held.lost, packets);
	else
		port->counters->slot_refused += packets;
}

/* From at on: how many bytes are for the same slot? */
static uint32_t run_length(const struct vb_delivery *from, uint32_t at, uint32_t slot)
{
	uint32_t end = at;

	while (end < from->length) {
		uint32_t length = piece(from->length - end, from->segment);

		if (slot_of(from->bytes + end, length) != slot)
			break;
		end += length;
	}
	return end - at;
}

static void pass_on(struct vb_port *port, const struct vb_delivery *from, uint32_t at,
		    uint32_t length, uint32_t slot)
{
	struct vb_delivery part = *from;

	part.bytes += at;
	part.length = length;
	part.segment = piece(length, from->segment);
	/* What is for one QP does not go to a group. */
	if (from->forwarded || from->peer || from->fabric ||
	    (from->endpoint && from->endpoint->fabric)) {
		refuse(port, from, vb_packets_of(length, from->segment));
		return;
	}
	vb_slot_forward(port, slot, &part);
	if (from->endpoint)
		vb_steer_missed(port, from->endpoint);
}

unsigned vb_port_deliver(struct vb_port *port, const struct vb_delivery *delivery)
{
	uint32_t own = port->nic->seg.head->slot, at = 0, length;
	unsigned position = 0;

	for (; at < delivery->length; at += length) {
		uint32_t slot;

		length = piece(delivery->length - at, delivery->segment);
		slot = slot_of(delivery->bytes + at, length);
		if (!slot || slot == own || vb_port_owns_slot(port, slot)) {
			show(port, delivery, at, length, position++);
			continue;
		}
		length = run_length(delivery, at, slot);
		pass_on(port, delivery, at, length, slot);
		position += vb_packets_of(length, delivery->segment);
	}
	return position;
}

/* --- flows --- */

static uint32_t hash(const struct vb_icrc_flow *flow)
{
	uint32_t words[4], value = flow->src_port * 2654435761u;

	memcpy(words, flow->src, sizeof(words));
	for (int i = 0; i < 4; i++)
		value = (value ^ words[i]) * 2654435761u;
	return value >> 16;
}

static bool is_same(const struct vb_icrc_flow *a, const struct vb_icrc_flow *b)
{
	return a->ipv6 == b->ipv6 && a->src_port == b->src_port && a->dst_port == b->dst_port &&
	       !memcmp(a->src, b->src, sizeof(a->src)) && !memcmp(a->dst, b->dst, sizeof(a->dst));
}

const struct vb_icrc_flow *vb_port_flow(struct vb_port *port, const struct vb_icrc_flow *like)
{
	struct vb_icrc_flow *flow = &port->flows[hash(like) % VB_FLOWS];

	if (!is_same(flow, like)) {
		*flow = *like;
		vb_icrc_flow_init(flow);
	}
	return flow;
}

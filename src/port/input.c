/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the owner of each packet. One merged burst may hold packets of several QPs and processes.
 */
#include <string.h>

#include "port/impl.h"
#include "wire/packet.h"

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

/* The slot that a packet names. 0: none (QP 0 and 1, groups, garbage); its receiver keeps it. */
static uint32_t slot_of(const uint8_t *bytes, uint32_t length)
{
	uint32_t slot;

	if (length < VB_BTH_LENGTH)
		return 0;
	slot = vb_packet_dest_qpn(bytes) >> VB_QP_INDEX_BITS;
	return slot <= VB_SLOT_MAX ? slot : 0;
}

static uint32_t packet_length(uint32_t left, uint32_t segment)
{
	return left < segment ? left : segment;
}

static void show_packet(struct vb_port *port, const struct vb_delivery *from, uint32_t at,
			uint32_t length, unsigned position)
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

/* Packets that may not be forwarded: no circles, and no relaying for peers. */
static void count_refused(struct vb_port *port, const struct vb_delivery *from, uint32_t packets)
{
	if (from->forwarded)
		atomic_fetch_add(&port->held.lost, packets);
	else
		port->counters->slot_refused += packets;
}

/* The number of bytes from at on whose packets name this slot. */
static uint32_t run_length(const struct vb_delivery *from, uint32_t at, uint32_t slot)
{
	uint32_t end = at;

	while (end < from->length) {
		uint32_t length = packet_length(from->length - end, from->segment);

		if (slot_of(from->bytes + end, length) != slot)
			break;
		end += length;
	}
	return end - at;
}

static void forward_packets(struct vb_port *port, const struct vb_delivery *from, uint32_t at,
			    uint32_t length, uint32_t slot)
{
	struct vb_delivery part = *from;

	part.bytes += at;
	part.length = length;
	part.segment = packet_length(length, from->segment);
	/* A packet that came to a group must not name a single QP. */
	if (from->forwarded || from->peer || from->fabric ||
	    (from->endpoint && from->endpoint->fabric)) {
		count_refused(port, from, vb_packets_of(length, from->segment));
		return;
	}
	vb_slot_forward(port, slot, &part);
	if (from->endpoint)
		vb_steer_missed(port, from->endpoint);
}

static bool is_own_slot(const struct vb_port *port, uint32_t slot)
{
	return !slot || slot == port->nic->seg.head->slot || vb_port_owns_slot(port, slot);
}

/*
 * An ACK is the last packet of its burst, because it is the shortest. The requests before it may
 * answer the message that it acknowledges, and a program shall see its request complete before the
 * answer: so the ACK is shown first. Returns the offset of such an ACK; the length: there is none.
 */
static uint32_t find_ack(const struct vb_port *port, const struct vb_delivery *from)
{
	uint32_t at, length;

	if (__builtin_expect(from->length <= from->segment, 1))
		return from->length;
	at = (vb_packets_of(from->length, from->segment) - 1) * from->segment;
	length = from->length - at;
	/* Several ACKs keep their order. */
	if (length < VB_BTH_LENGTH || !vb_packet_is_ack(from->bytes + at) ||
	    vb_packet_is_ack(from->bytes + at - from->segment) ||
	    !is_own_slot(port, slot_of(from->bytes + at, length)))
		return from->length;
	return at;
}

unsigned vb_port_deliver(struct vb_port *port, const struct vb_delivery *delivery)
{
	uint32_t ack = find_ack(port, delivery), at = 0, length;
	unsigned position = 0;

	if (ack < delivery->length)
		show_packet(port, delivery, ack, delivery->length - ack, ack / delivery->segment);
	for (; at < ack; at += length) {
		uint32_t slot;

		length = packet_length(delivery->length - at, delivery->segment);
		slot = slot_of(delivery->bytes + at, length);
		if (is_own_slot(port, slot)) {
			show_packet(port, delivery, at, length, position++);
			continue;
		}
		length = run_length(delivery, at, slot);
		forward_packets(port, delivery, at, length, slot);
		position += vb_packets_of(length, delivery->segment);
	}
	return position + (ack < delivery->length);
}

/* --- flows --- */

static uint32_t hash_flow(const struct vb_icrc_flow *flow)
{
	uint32_t words[4], value = flow->src_port * 2654435761u;

	memcpy(words, flow->src, sizeof(words));
	for (int i = 0; i < 4; i++)
		value = (value ^ words[i]) * 2654435761u;
	return value >> 16;
}

static bool is_same_flow(const struct vb_icrc_flow *a, const struct vb_icrc_flow *b)
{
	return a->ipv6 == b->ipv6 && a->src_port == b->src_port && a->dst_port == b->dst_port &&
	       !memcmp(a->src, b->src, sizeof(a->src)) && !memcmp(a->dst, b->dst, sizeof(a->dst));
}

const struct vb_icrc_flow *vb_port_flow(struct vb_port *port, const struct vb_icrc_flow *like)
{
	struct vb_icrc_flow *flow = &port->flows[hash_flow(like) % VB_FLOWS];

	if (!is_same_flow(flow, like)) {
		*flow = *like;
		vb_icrc_flow_init(flow);
	}
	return flow;
}

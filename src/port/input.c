/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the owner of each packet. One merged burst may hold packets of several QPs, lanes and
 * processes.
 */
#include <string.h>

#include "capture/ring.h"
#include "nic/lane.h"
#include "port/impl.h"
#include "wire/packet.h"

/*
 * The row that a packet names: the upper bits of its QPN. 0: none (QP 0 and 1, groups, garbage).
 * The first lane of the process that got such a packet keeps it.
 */
static uint32_t row_of(const uint8_t *bytes, uint32_t length)
{
	uint32_t qpn;

	if (length < VB_BTH_LENGTH)
		return 0;
	qpn = vb_packet_dest_qpn(bytes);
	return qpn >= VB_QP_PER_SLOT && qpn >> VB_QP_INDEX_BITS <= VB_SLOT_MAX
		       ? qpn >> VB_QP_ROW_BITS
		       : 0;
}

static uint32_t slot_of_row(uint32_t row)
{
	return row / VB_QP_ROWS;
}

/* The lane of this process that has the row; -1: it is another process's. */
static int lane_of(const struct vb_port *port, uint32_t row)
{
	return row ? vb_lane_of_qpn(port->nic, row << VB_QP_ROW_BITS) : VB_LANE_FIRST;
}

struct vb_port *vb_port_for(const struct vb_port *port, const uint8_t *bytes, uint32_t length)
{
	const int lane = lane_of(port, row_of(bytes, length));

	return lane < 0 ? NULL : vb_port_of_lane(port, (unsigned)lane);
}

static uint32_t packet_length(uint32_t left, uint32_t segment)
{
	return left < segment ? left : segment;
}

static uint16_t fabric_of(const struct vb_delivery *from)
{
	return from->endpoint ? from->endpoint->fabric : from->fabric;
}

/* The packets of the same length behind the one at `at`, up to `end`. A capture shows each. */
static uint32_t count_more(const struct vb_delivery *from, uint32_t at, uint32_t end)
{
	return end - at < 2 * from->segment || vb_captured() ? 0 : (end - at) / from->segment - 1;
}

/* Shows the packets from `at` to `end`, the first of them at least; returns the number of bytes. */
static uint32_t show_packets(struct vb_port *port, const struct vb_delivery *from, uint32_t at,
			     uint32_t end, unsigned position)
{
	const uint32_t length = packet_length(end - at, from->segment);
	const struct vb_arrival arrival = {
		.flow = from->flow,
		.bytes = from->bytes + at,
		.length = length,
		.traffic_class = from->traffic_class,
		.hop_limit = from->hop_limit,
		.scope = from->scope,
		.position = (uint16_t)(from->position + position),
		.burst = port->burst,
		.more = count_more(from, at, end),
		.peer = from->peer,
		.forwarded = from->forwarded,
		.fabric = fabric_of(from),
	};

	unsigned taken;

	if (vb_captured())
		vb_port_capture_in(&arrival);
	taken = port->input(port->input_arg, &arrival);
	port->counters->packets_in += taken;
	port->counters->bytes_in += (uint64_t)taken * length;
	return taken * length;
}

/* Packets that may not be forwarded: no circles, and no relaying for peers. */
static void count_refused(struct vb_port *port, const struct vb_delivery *from, uint32_t packets)
{
	if (from->forwarded)
		atomic_fetch_add(&port->held.lost, packets);
	else
		port->counters->slot_refused += packets;
}

/* The number of bytes from at on whose packets name this row. */
static uint32_t run_length(const struct vb_delivery *from, uint32_t at, uint32_t row)
{
	uint32_t end = at;

	while (end < from->length) {
		uint32_t length = packet_length(from->length - end, from->segment);

		if (row_of(from->bytes + end, length) != row)
			break;
		end += length;
	}
	return end - at;
}

/* Some of the packets of a delivery. */
static struct vb_delivery part_of(const struct vb_delivery *from, uint32_t at, uint32_t length)
{
	struct vb_delivery part = *from;

	part.bytes += at;
	part.length = length;
	part.segment = packet_length(length, from->segment);
	part.position = (uint16_t)(from->position + at / from->segment);
	part.fabric = fabric_of(from);
	return part;
}

static void forward_packets(struct vb_port *port, const struct vb_delivery *from, uint32_t at,
			    uint32_t length, uint32_t slot)
{
	const struct vb_delivery part = part_of(from, at, length);

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

/* The packets are for another lane of this process. */
static void hand_over(struct vb_port *port, const struct vb_delivery *from, uint32_t at,
		      uint32_t length, unsigned lane)
{
	const struct vb_delivery part = part_of(from, at, length);

	vb_memory_hand_over(vb_port_of_lane(port, lane), &part);
	port->counters->handed_over += vb_packets_of(length, from->segment);
	if (from->endpoint && lane != VB_LANE_FIRST)
		vb_steer_missed(port, from->endpoint);
}

/* Packets for a group come to the first lane. The others with members get copies. */
static void show_groups(struct vb_port *port, const struct vb_delivery *from)
{
	const uint32_t lanes =
		atomic_load_explicit(&port->nic->lanes_grouped, memory_order_relaxed);
	struct vb_delivery copy = *from;

	if (__builtin_expect(!lanes, 1) || port->lane != VB_LANE_FIRST)
		return;
	copy.fabric = fabric_of(from);
	for (unsigned lane = 1; lane < VB_LANES_MAX; lane++)
		if (lanes >> lane & 1 && vb_lane_is_open(port->nic, lane))
			vb_memory_hand_over(vb_port_of_lane(port, lane), &copy);
}

/*
 * The lane that the packets of a row go to. A QP of this process whose lane is not open has had no
 * packets yet: an attached process may be the first to send one.
 */
static int target_of(struct vb_port *port, const struct vb_delivery *from, uint32_t row)
{
	const int lane = fabric_of(from) && !row ? (int)port->lane : lane_of(port, row);

	if (lane <= VB_LANE_FIRST || vb_lane_is_open(port->nic, (unsigned)lane))
		return lane;
	if (from->peer && port->calls)
		port->calls->open_lane(port->nic, (unsigned)lane);
	return vb_lane_is_open(port->nic, (unsigned)lane) ? lane : VB_LANE_FIRST;
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
	    lane_of(port, row_of(from->bytes + at, length)) != (int)port->lane)
		return from->length;
	return at;
}

/* True: the packet names the same QP as the one before it, which is a whole packet. */
static bool names_same_qp(const struct vb_delivery *from, uint32_t at)
{
	const uint8_t *bytes = from->bytes + at;

	return from->length - at >= VB_BTH_LENGTH &&
	       vb_packet_dest_qpn(bytes) == vb_packet_dest_qpn(bytes - from->segment);
}

unsigned vb_port_deliver(struct vb_port *port, const struct vb_delivery *delivery)
{
	uint32_t ack = find_ack(port, delivery), at = 0, length;
	unsigned count = 0;
	bool own = false; /* the packet before is for this lane */

	port->burst++;
	if (__builtin_expect(fabric_of(delivery), 0))
		show_groups(port, delivery);
	if (ack < delivery->length)
		show_packets(port, delivery, ack, delivery->length, ack / delivery->segment);
	for (; at < ack; at += length) {
		uint32_t row;
		int lane;

		if (own && names_same_qp(delivery, at)) {
			length = show_packets(port, delivery, at, ack, count);
			count += vb_packets_of(length, delivery->segment);
			continue;
		}
		row = row_of(delivery->bytes + at,
			     packet_length(delivery->length - at, delivery->segment));
		lane = target_of(port, delivery, row);
		own = lane == (int)port->lane;
		if (__builtin_expect(own, 1)) {
			length = show_packets(port, delivery, at, ack, count);
			count += vb_packets_of(length, delivery->segment);
			continue;
		}
		length = run_length(delivery, at, row);
		if (lane < 0)
			forward_packets(port, delivery, at, length, slot_of_row(row));
		else
			hand_over(port, delivery, at, length, (unsigned)lane);
		count += vb_packets_of(length, delivery->segment);
	}
	return count + (ack < delivery->length);
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

/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire/wire_held.h"

#include <stdlib.h>

#include "base/clock.h"
#include "engine/wire/wire_impl.h"
#include "engine/wire/wire_origin.h"

enum {
	HELD_PACKETS = 256,
	HELD_BYTES = 1 << 20,
	HELD_NS = 100000000, /* longer than a thread with the QP's token waits for a CPU */
	AGAIN_NS = 50000,
};

void vb_wire_held_init(struct vb_delay_line *held)
{
	vb_delay_line_init(held, HELD_PACKETS, HELD_BYTES);
}

void vb_wire_hold(struct vb_lane *lane, const struct vb_arrival *arrival)
{
	const struct vb_origin origin = vb_origin_of(arrival);
	const struct vb_delay_input input = {
		.bytes = arrival->bytes,
		.length = arrival->length,
		.context = &origin,
		.context_length = sizeof(origin),
		.flow = vb_packet_dest_qpn(arrival->bytes),
		.due_ns = lane->roce.now_ns + HELD_NS,
	};

	if (!vb_delay_push(&lane->held, &input))
		vb_peer_get(arrival->peer);
	else
		vb_roce_count(&lane->roce, VB_PACKET_DROP_OVERFLOW);
}

/*
 * Can the packet be taken in: is its QP on the wire, or has it waited too long? After the first QP
 * that cannot be adopted none is tried in this walk: a second try might succeed, and a later packet
 * of the QP would overtake the first.
 */
static bool is_releasable(struct vb_lane *lane, const struct vb_delayed *packet,
			  const struct vb_arrival *arrival, bool *fetches)
{
	if (vb_roce_find(&lane->roce, packet->flow) || packet->due_ns <= lane->roce.now_ns)
		return true;
	*fetches = *fetches && vb_wire_adopt_late(lane, arrival);
	return *fetches;
}

void vb_wire_held_release(struct vb_lane *lane)
{
	bool fetches = true;

	vb_list_for(packet, &lane->held.packets, struct vb_delayed, node) {
		const struct vb_arrival arrival =
			vb_origin_arrival(packet->context, packet->bytes, packet->length);

		if (!is_releasable(lane, packet, &arrival, &fetches))
			continue;
		vb_delay_take(&lane->held, packet);
		vb_wire_take_in(lane, &arrival);
		vb_peer_put(arrival.peer);
		free(packet);
	}
}

void vb_wire_held_forget(struct vb_lane *lane, uint32_t qpn)
{
	vb_list_for(packet, &lane->held.packets, struct vb_delayed, node) {
		const struct vb_origin *origin = packet->context;

		if (packet->flow != qpn)
			continue;
		vb_delay_take(&lane->held, packet);
		vb_peer_put(origin->arrival.peer);
		free(packet);
	}
}

uint64_t vb_wire_held_next_ns(const struct vb_lane *lane)
{
	return lane->held.count ? lane->roce.now_ns + AGAIN_NS : VB_NEVER_NS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The facts about a packet, kept beside its bytes while it waits (wire_held.c, wire_fault.c). */
#ifndef VB_ENGINE_WIRE_WIRE_ORIGIN_H
#define VB_ENGINE_WIRE_WIRE_ORIGIN_H

#include "port/port.h"

struct vb_origin {
	struct vb_icrc_flow flow;
	struct vb_arrival arrival; /* all but its flow, bytes and length */
};

static inline struct vb_origin vb_origin_of(const struct vb_arrival *arrival)
{
	return (struct vb_origin){ *arrival->flow, *arrival };
}

/* Makes the arrival again, with these bytes. */
static inline struct vb_arrival vb_origin_arrival(const struct vb_origin *origin,
						  const uint8_t *bytes, uint32_t length)
{
	struct vb_arrival arrival = origin->arrival;

	arrival.flow = &origin->flow;
	arrival.bytes = bytes;
	arrival.length = length;
	arrival.burst = 0; /* other packets came since */
	arrival.more = 0;
	return arrival;
}

#endif

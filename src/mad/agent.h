/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agents of a port: subnet management and performance management. A request goes in, its answer
 * comes out; no I/O, no state.
 */
#ifndef VB_MAD_AGENT_H
#define VB_MAD_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "mad/port.h"
#include "wire/mad.h"

/* Where the data of these classes begins in the MAD. */
enum { VB_SMP_DATA_AT = 64, VB_SMP_DATA_SIZE = 64, VB_PERF_DATA_AT = 64 };

/* Bits of CounterSelect (IBA 16.1.3.5): counters that a Set clears. */
enum vb_perf_select {
	VB_PERF_RCV_ERRORS = 1 << 3,
	VB_PERF_XMIT_DISCARDS = 1 << 6,
	VB_PERF_XMIT_DATA = 1 << 12,
	VB_PERF_RCV_DATA = 1 << 13,
	VB_PERF_XMIT_PACKETS = 1 << 14,
	VB_PERF_RCV_PACKETS = 1 << 15,
};

/*
 * False: the MAD gets no answer. *clear: enum vb_perf_select, the counters that the caller clears.
 * Their values are in the answer.
 */
bool vb_agent_answer(const struct vb_mad_port *port, const uint8_t request[VB_MAD_SIZE],
		     uint8_t answer[VB_MAD_SIZE], uint16_t *clear);

/* Does an agent of a port have this class? A process cannot have its MADs then. */
bool vb_agent_has_class(uint8_t management_class);

/* The hops that a directed-route MAD has to make from its source, and the port of each, from 1. */
enum { VB_SMP_HOPS_MAX = 63, VB_SMP_HOP_COUNT_AT = 7, VB_SMP_PATH_AT = 128 };
static inline unsigned vb_smp_hops(const uint8_t mad[VB_MAD_SIZE])
{
	return mad[VB_SMP_HOP_COUNT_AT];
}

static inline uint8_t vb_smp_hop(const uint8_t mad[VB_MAD_SIZE], unsigned hop)
{
	return mad[VB_SMP_PATH_AT + hop];
}

/* --- for the agents' own files --- */

/* Writes the attribute into the data, which is zero before. Returns the status. */
uint16_t vb_smp_get(const struct vb_mad_port *port, const struct vb_mad *mad, uint8_t *data);
/* The same for Get and Set. data has the request. */
uint16_t vb_perf_get(const struct vb_mad_port *port, const struct vb_mad *mad, uint8_t *data);
uint16_t vb_perf_set(const struct vb_mad_port *port, const struct vb_mad *mad, uint8_t *data,
		     uint16_t *clear);

#endif

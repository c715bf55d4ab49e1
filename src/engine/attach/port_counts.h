/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of one process in the counters of the host's port (mad/port.h). */
#ifndef VB_ENGINE_ATTACH_PORT_COUNTS_H
#define VB_ENGINE_ATTACH_PORT_COUNTS_H

#include <assert.h>
#include <stdint.h>

/* A record of describe.h. */
struct vb_port_counts {
	uint64_t bytes_out, bytes_in, packets_out, packets_in, rcv_errors, xmit_discards;
};
static_assert(sizeof(struct vb_port_counts) == 48, "layout of a record");

struct vb_nic;

/* Since the NIC was made, or since the counters were cleared. */
void vb_port_counts(struct vb_nic *nic, struct vb_port_counts *counts);
/* clear: enum vb_perf_select (mad/agent.h). Any thread. */
void vb_port_counts_clear(struct vb_nic *nic, uint16_t clear);

#endif

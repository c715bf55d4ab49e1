/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/port_counts.h"

#include <stdatomic.h>
#include <stddef.h>

#include "engine/wire/wire.h"
#include "mad/agent.h"

enum { COUNTERS = sizeof(struct vb_port_counts) / sizeof(uint64_t) };

static const struct row {
	uint16_t select; /* enum vb_perf_select */
	size_t offset;
} rows[COUNTERS] = {
	{ VB_PERF_XMIT_DATA, offsetof(struct vb_port_counts, bytes_out) },
	{ VB_PERF_RCV_DATA, offsetof(struct vb_port_counts, bytes_in) },
	{ VB_PERF_XMIT_PACKETS, offsetof(struct vb_port_counts, packets_out) },
	{ VB_PERF_RCV_PACKETS, offsetof(struct vb_port_counts, packets_in) },
	{ VB_PERF_RCV_ERRORS, offsetof(struct vb_port_counts, rcv_errors) },
	{ VB_PERF_XMIT_DISCARDS, offsetof(struct vb_port_counts, xmit_discards) },
};

/* Values when they were cleared. The NIC of a child of fork counts from 0. */
static struct vb_nic *_Atomic cleared_nic;
static _Atomic uint64_t cleared[COUNTERS]; /* by row */

static uint64_t *counter(struct vb_port_counts *counts, unsigned row)
{
	return (uint64_t *)((char *)counts + rows[row].offset);
}

static void count_all(struct vb_nic *nic, struct vb_port_counts *counts)
{
	struct vb_wire_counts wire;

	vb_wire_count(nic, &wire);
	*counts = (struct vb_port_counts){
		.bytes_out = wire.port.bytes_out,
		.bytes_in = wire.port.bytes_in,
		.packets_out = wire.port.packets_out,
		.packets_in = wire.port.packets_in,
		.rcv_errors = wire.drops[VB_PACKET_DROP_ICRC] +
			      wire.drops[VB_PACKET_DROP_MALFORMED] + wire.port.oversized,
		.xmit_discards = wire.port.send_errors + wire.port.too_big,
	};
}

void vb_port_counts(struct vb_nic *nic, struct vb_port_counts *counts)
{
	count_all(nic, counts);
	if (atomic_load(&cleared_nic) != nic)
		return;
	for (unsigned i = 0; i < COUNTERS; i++)
		*counter(counts, i) -= atomic_load(&cleared[i]);
}

void vb_port_counts_clear(struct vb_nic *nic, uint16_t clear)
{
	struct vb_port_counts now;

	if (!clear)
		return;
	count_all(nic, &now);
	if (atomic_exchange(&cleared_nic, nic) != nic)
		for (unsigned i = 0; i < COUNTERS; i++)
			atomic_store(&cleared[i], 0);
	for (unsigned i = 0; i < COUNTERS; i++)
		if (clear & rows[i].select)
			atomic_store(&cleared[i], *counter(&now, i));
}

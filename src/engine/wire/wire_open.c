/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens the wire: connects the protocol core with the port, the host and QP 1. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/wire/wire_impl.h"
#include "net/gid.h"
#include "nic/lid.h"
#include "path/fault/fault.h"

static void sink_send(void *arg, const struct vb_burst *bursts, unsigned count)
{
	struct vb_lane *lane = arg;

	if (__builtin_expect(lane->fault != NULL, 0))
		vb_wire_fault_send(lane, bursts, count);
	else
		vb_port_send(lane->port, bursts, count);
}

static unsigned sink_burst_max(void *arg, const struct vb_way *way)
{
	struct vb_lane *lane = arg;

	return lane->fault ? 1 : vb_port_burst_max(lane->port, way);
}

static int sink_resolve(void *arg, const struct vb_av *av, struct vb_peer *peer, uint32_t entropy,
			struct vb_way *way)
{
	return vb_port_resolve(((struct vb_lane *)arg)->port, av, peer, entropy, way);
}

static vb_wire_mad_fn *_Atomic take_mad;

void vb_wire_give_mads(vb_wire_mad_fn *take)
{
	atomic_store(&take_mad, take);
}

static void sink_gsi(void *arg, const struct vb_packet *packet, const struct vb_arrival *arrival)
{
	vb_wire_mad_fn *take = atomic_load(&take_mad);

	if (take)
		take(arg, packet, arrival);
}

/* An attach to a slot that no process has is refused at once. */
static bool sink_attach(void *arg, uint32_t slot)
{
	struct vb_nic *nic = ((struct vb_lane *)arg)->nic;

	if (vb_nic_slot_refused(nic, slot))
		return false;
	vb_attach_start(nic, slot);
	return !vb_nic_slot_refused(nic, slot);
}

static uint16_t sink_lid_at(void *arg, const struct vb_device *device, const union ibv_gid *address,
			    bool *own)
{
	const uint16_t lid = vb_lid_at(device, address);

	(void)arg;
	*own = lid == vb_device_lid(device);
	return lid;
}

static bool sink_is_own_address(void *arg, const union ibv_gid *address)
{
	(void)arg;
	return vb_gid_is_own_port(address);
}

static bool sink_is_from_other_end(void *arg, const struct vb_way *way,
				   const struct vb_arrival *arrival)
{
	(void)arg;
	return vb_way_expects(way, arrival);
}

static void sink_yield(void *arg)
{
	(void)arg;
	sched_yield();
}

static struct vb_lane *wire_open(struct vb_nic *nic, int *err)
{
	struct vb_lane *lane = aligned_alloc(64, (sizeof(*lane) + 63) & ~63ul);
	struct vb_roce_sink sink = {
		.arg = lane,
		.send = sink_send,
		.burst_max = sink_burst_max,
		.resolve = sink_resolve,
		.gsi = sink_gsi,
		.attach = sink_attach,
		.lid_at = sink_lid_at,
		.is_own_address = sink_is_own_address,
		.is_from_other_end = sink_is_from_other_end,
		.yield = sink_yield,
	};

	*err = -ENOMEM;
	if (!lane)
		return NULL;
	memset(lane, 0, sizeof(*lane));
	lane->nic = nic;
	vb_list_init(&lane->kicked);
	vb_wire_held_init(&lane->held);
	atomic_store(&lane->wake_ns, VB_NEVER_NS);
	*err = vb_roce_init(&lane->roce, nic, &sink);
	lane->port = *err ? NULL : vb_port_new(nic, nic->engine->epoll);
	if (vb_fault_any())
		lane->fault = vb_wire_fault_new();
	if (lane->port) {
		vb_port_on_foreign(lane->port, vb_attach_start);
		return lane;
	}
	*err = *err ? *err : -errno;
	vb_roce_fini(&lane->roce);
	free(lane);
	return NULL;
}

struct vb_lane *vb_wire_get(struct vb_nic *nic, int *err)
{
	struct vb_lane *lane = vb_lane_first(nic);

	*err = 0;
	if (lane)
		return lane;
	pthread_mutex_lock(&nic->lock);
	lane = vb_lane_first(nic);
	if (!lane)
		lane = wire_open(nic, err);
	atomic_store(&nic->lanes[0], lane);
	pthread_mutex_unlock(&nic->lock);
	if (!lane)
		vb_explain("there is no way to other hosts: %s", strerror(-*err));
	return lane;
}

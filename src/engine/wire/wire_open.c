/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens the wire: connects the protocol core with the port, the host and QP 1. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/wire/lane_thread.h"
#include "engine/wire/wire_impl.h"
#include "net/gid.h"
#include "nic/lane.h"
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

static void sink_knock(void *arg, const struct vb_way *way)
{
	vb_port_knock(((struct vb_lane *)arg)->port, way);
}

static int sink_knock_error(void *arg, const struct vb_way *way)
{
	return vb_port_knock_error(((struct vb_lane *)arg)->port, way);
}

static void sink_yield(void *arg)
{
	(void)arg;
	sched_yield();
}

/* Under the lock of a lane: the attached process that sent the packet waits for an answer. */
static void open_lane(struct vb_nic *nic, unsigned number)
{
	int err;

	vb_wire_lane(nic, number, &err);
}

static struct vb_lane *lane_new(struct vb_nic *nic, unsigned number, int *err)
{
	static const struct vb_port_calls calls = { vb_attach_start, open_lane };
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
		.knock = sink_knock,
		.knock_error = sink_knock_error,
		.yield = sink_yield,
	};

	*err = -ENOMEM;
	if (!lane)
		return NULL;
	memset(lane, 0, sizeof(*lane));
	lane->nic = nic;
	lane->number = number;
	vb_list_init(&lane->kicked);
	vb_wire_held_init(&lane->held);
	atomic_store(&lane->wake_ns, VB_NEVER_NS);
	*err = vb_roce_init(&lane->roce, nic, &sink);
	lane->roce.lane = number;
	lane->port = *err ? NULL : vb_port_new(nic, nic->engine->epoll, number);
	if (vb_fault_any())
		lane->fault = vb_wire_fault_new();
	if (lane->port) {
		vb_port_on_foreign(lane->port, &calls);
		return lane;
	}
	*err = *err ? *err : -errno;
	vb_roce_fini(&lane->roce);
	free(lane);
	return NULL;
}

/* Under lanes_lock. A lane that was closed opens again. */
static struct vb_lane *lane_open(struct vb_nic *nic, unsigned number, int *err)
{
	struct vb_lane *lane = atomic_load(&nic->lanes[number]);

	*err = 0;
	if (lane && !vb_lane_is_open(nic, number))
		*err = vb_port_open(lane->port);
	else if (!lane)
		lane = lane_new(nic, number, err);
	if (*err)
		return NULL;
	atomic_store(&nic->lanes[number], lane);
	atomic_fetch_or(&nic->lanes_open, 1u << number);
	return lane;
}

struct vb_lane *vb_lane_open_at(const struct vb_nic *nic, unsigned number)
{
	return vb_lane_is_open(nic, number) ? atomic_load(&nic->lanes[number]) : NULL;
}

struct vb_lane *vb_wire_lane(struct vb_nic *nic, unsigned number, int *err)
{
	struct vb_lane *lane = vb_lane_open_at(nic, number);

	*err = 0;
	if (lane)
		return lane;
	pthread_mutex_lock(&nic->lanes_lock);
	lane = lane_open(nic, number, err);
	pthread_mutex_unlock(&nic->lanes_lock);
	return lane;
}

struct vb_lane *vb_wire_get(struct vb_nic *nic, int *err)
{
	struct vb_lane *lane = vb_wire_lane(nic, VB_LANE_FIRST, err);

	if (!lane)
		vb_explain("there is no way to other hosts: %s", strerror(-*err));
	return lane;
}

/*
 * A further lane needs descriptors and memory. Without them its QPs, none of which is on the wire,
 * go on in the first lane.
 */
struct vb_lane *vb_wire_lane_of(struct vb_qp *qp, int *err)
{
	struct vb_nic *nic = qp->nic;
	const unsigned number = atomic_load(&qp->lane);
	struct vb_lane *lane = vb_wire_get(nic, err);

	if (!lane || number == VB_LANE_FIRST)
		return lane;
	lane = vb_wire_lane(nic, number, err);
	if (lane)
		return lane;
	vb_explain_note("lane %u cannot be opened: %s; its QPs share the first lane", number,
			strerror(-*err));
	pthread_mutex_lock(&nic->lock);
	if (!vb_lane_is_open(nic, number))
		vb_lane_merge(nic, number);
	pthread_mutex_unlock(&nic->lock);
	return vb_wire_lane(nic, atomic_load(&qp->lane), err);
}

/* --- closing --- */

/* Under the lock of the lane, nic->lock and lanes_lock. */
static void lane_close(struct vb_lane *lane)
{
	struct vb_nic *nic = lane->nic;

	atomic_fetch_and(&nic->lanes_open, ~(1u << lane->number));
	atomic_fetch_and(&nic->lanes_grouped, ~(1u << lane->number));
	vb_lane_give_back(nic, lane->number);
	vb_roce_forget_ways(&lane->roce);
	vb_lane_thread_stop(lane);
	vb_port_close(lane->port);
	lane->listen_devices = 0;
	lane->left = lane->doubtful = false;
	lane->again_ns = 0;
	atomic_store(&lane->wake_ns, VB_NEVER_NS);
}

static bool is_unused(const struct vb_lane *lane)
{
	return !lane->nic->lane_uses[lane->number].qps && !lane->roce.wired_count &&
	       !lane->held.count && !atomic_load(&lane->kick_count);
}

/* nic->lock is only tried: a thread that destroys a QP holds it, and then waits for the lane. */
static bool try_close(struct vb_lane *lane)
{
	struct vb_nic *nic = lane->nic;
	bool unused = false;

	if (!vb_wire_try_lock(lane))
		return false;
	if (!pthread_mutex_trylock(&nic->lock)) {
		pthread_mutex_lock(&nic->lanes_lock);
		unused = is_unused(lane) && vb_wire_begin(lane);
		if (unused)
			lane_close(lane);
		pthread_mutex_unlock(&nic->lanes_lock);
		pthread_mutex_unlock(&nic->lock);
	}
	vb_wire_unlock(lane);
	return unused;
}

void vb_wire_close_unused(struct vb_lane *lane)
{
	_Atomic uint64_t *idle_ns = &lane->nic->lane_uses[lane->number].idle_ns;
	uint64_t since_ns = atomic_load(idle_ns);

	/* If not now, after the same time again; unless a QP has come. */
	if (!try_close(lane) && since_ns)
		atomic_compare_exchange_strong(idle_ns, &since_ns, vb_now_ns());
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* When the service thread brings the wire on, and when it leaves that to a program that polls. */
#include "base/clock.h"
#include "engine/wire/wire_impl.h"

/*
 * A program that polls takes packets in faster than a thread that has to be woken. And a thread
 * that wakes for packets that are gone takes CPU time from the program. So the sockets are left to
 * the program. But a program may have polled and now wait for memory to change. So the service
 * thread looks now and then whether packets lie around, and takes the sockets back if so.
 */
enum {
	SOON_NS = 20000,         /* second look at packets that lie around */
	DISTRUST_NS = 200000000, /* after packets were found lying around */
	POLLS_HARD = 200,        /* per tick: less than one in 5 us is no busy poller */
};

void vb_wire_watch(struct vb_nic *nic)
{
	struct vb_wire *wire = atomic_load(&nic->wire);

	if (!wire || !atomic_load_explicit(&wire->polls, memory_order_relaxed))
		return;
	atomic_store_explicit(&wire->polls, 0, memory_order_relaxed);
	vb_port_watch(wire->port);
}

static uint32_t received_count(struct vb_wire *wire)
{
	return atomic_load_explicit(&wire->received, memory_order_relaxed);
}

/* True: packets lie around and no thread takes them. */
static bool is_neglected(struct vb_wire *wire, uint32_t polls)
{
	bool doubtful = wire->doubtful;

	wire->doubtful = false;
	if (!polls && !doubtful)
		return true;
	/* A thread took some meanwhile: it is at work. */
	if (doubtful && received_count(wire) != wire->doubtful_since)
		return false;
	if (!vb_port_ready(wire->port))
		return false;
	wire->doubtful = true;
	wire->doubtful_since = received_count(wire);
	return doubtful;
}

/* True: a program has polled all the time lately, and can be relied on. */
static bool polls_hard(struct vb_wire *wire, uint32_t polls)
{
	uint64_t now_ns = vb_now_ns();
	bool hard;

	wire->window_polls += polls;
	if (now_ns - wire->window_ns < VB_WIRE_TICK_NS)
		return false;
	hard = now_ns - wire->window_ns < 2 * VB_WIRE_TICK_NS && wire->window_polls >= POLLS_HARD;
	wire->window_polls = 0;
	wire->window_ns = now_ns;
	return hard && now_ns >= wire->distrust_ns;
}

static void bring_on(struct vb_wire *wire, uint32_t polls)
{
	/*
	 * Another thread has the lock now, and may take it again at once: a watched socket would
	 * wake this thread for nothing.
	 */
	if (!vb_wire_try_lock(wire)) {
		atomic_store_explicit(&wire->shut_out, true, memory_order_relaxed);
		wire->again_ns = wire->again_ns ? 2 * wire->again_ns : SOON_NS;
		if (wire->again_ns > VB_WIRE_TICK_NS)
			wire->again_ns = VB_WIRE_TICK_NS;
		return;
	}
	atomic_store_explicit(&wire->shut_out, false, memory_order_relaxed);
	wire->again_ns = 0;
	vb_wire_bring_on(wire, false);
	vb_wire_unlock(wire);
	wire->left = polls_hard(wire, polls);
	if (!wire->left)
		vb_port_watch(wire->port);
}

void vb_wire_service(struct vb_nic *nic, bool woken)
{
	struct vb_wire *wire = atomic_load(&nic->wire);
	uint32_t polls;

	if (!wire)
		return;
	polls = atomic_exchange(&wire->polls, 0);
	/* Woken although it watches nothing: a thread that goes to sleep asked for it. */
	if (wire->left && !woken) {
		if (!is_neglected(wire, polls))
			return;
		wire->distrust_ns = vb_now_ns() + DISTRUST_NS;
	}
	wire->doubtful = false;
	bring_on(wire, polls);
}

uint64_t vb_wire_next_ns(struct vb_nic *nic, uint64_t now_ns)
{
	struct vb_wire *wire = atomic_load(&nic->wire);
	uint32_t activity;
	uint64_t wake_ns;

	if (!wire)
		return VB_NEVER_NS;
	if (wire->again_ns || wire->doubtful)
		return now_ns + (wire->doubtful ? SOON_NS : wire->again_ns);
	wake_ns = wire->left ? VB_NEVER_NS : atomic_load(&wire->wake_ns);
	/* A busy program need not ring for each of its timers. */
	activity = atomic_load_explicit(&wire->activity, memory_order_relaxed);
	if ((wire->left || activity != wire->seen) && wake_ns > now_ns + VB_WIRE_TICK_NS)
		wake_ns = now_ns + VB_WIRE_TICK_NS;
	wire->seen = activity;
	return wake_ns;
}

bool vb_wire_too_late(struct vb_nic *nic, uint64_t wake_ns)
{
	struct vb_wire *wire = atomic_load(&nic->wire);
	uint64_t due_ns = wire ? atomic_load(&wire->wake_ns) : VB_NEVER_NS;

	return due_ns < VB_NEVER_NS - VB_WIRE_TICK_NS && due_ns + VB_WIRE_TICK_NS < wake_ns;
}

bool vb_wire_left(struct vb_nic *nic)
{
	struct vb_wire *wire = atomic_load(&nic->wire);

	return wire && (wire->left || wire->again_ns);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* When the service thread brings the wire on, and when it leaves that to a program that polls. */
#include "base/clock.h"
#include "engine/wire_impl.h"

/*
 * A program that polls takes packets in faster than a thread that has to be woken, and being woken
 * for packets that are gone costs CPU that the program could use: then the sockets are left to it.
 * But a program may poll and yet not be at it right now, because it waits for memory to change. So
 * the service thread looks now and then whether packets lie around, and takes them back if so.
 */
enum {
	LEFT_NS = 1000000,    /* looks while the sockets are left to a poller */
	DOUBTFUL_NS = 20000,  /* second look at packets that lie around */
	VAIN_MAX = 16,
	POLLS_BUSY = 8,       /* polls between two looks that make a busy poller */
};

void vb_wire_watch(struct vb_nic *nic)
{
	struct vb_wire *wire = atomic_load(&nic->wire);

	if (!wire || !atomic_load_explicit(&wire->polls, memory_order_relaxed))
		return;
	atomic_store_explicit(&wire->polls, 0, memory_order_relaxed);
	vb_port_watch(wire->port);
}

static uint32_t received(struct vb_wire *wire)
{
	return atomic_load_explicit(&wire->received, memory_order_relaxed);
}

/* Do packets lie around that nobody takes? */
static bool neglected(struct vb_wire *wire, uint32_t polls)
{
	bool still = wire->doubtful && received(wire) == wire->doubtful_since;

	if (!polls && !wire->doubtful)
		return true;
	if (!vb_port_ready(wire->port)) {
		wire->doubtful = false;
		return false;
	}
	wire->doubtful = true;
	wire->doubtful_since = received(wire);
	return still;
}

static void take_in(struct vb_wire *wire, uint32_t polls, bool woken)
{
	uint32_t before = received(wire);

	/* Somebody is at it this very moment: look again soon. */
	if (!vb_wire_try_lock(wire)) {
		wire->left = wire->doubtful = true;
		wire->doubtful_since = before;
		return;
	}
	vb_wire_bring_on(wire, false);
	vb_wire_unlock(wire);
	if (received(wire) != before)
		wire->vain = 0;
	else if (woken)
		wire->vain++;
	wire->left = polls >= POLLS_BUSY && wire->vain >= VAIN_MAX;
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
	/* Woken although it watches nothing: somebody who goes to sleep asked for it. */
	if (wire->left && !woken && !neglected(wire, polls))
		return;
	wire->doubtful = false;
	if (wire->left)
		wire->vain = 0;
	take_in(wire, polls, woken);
}

uint64_t vb_wire_next_ns(struct vb_nic *nic, uint64_t now_ns)
{
	struct vb_wire *wire = atomic_load(&nic->wire);

	if (!wire)
		return VB_NEVER_NS;
	if (wire->left)
		return now_ns + (wire->doubtful ? DOUBTFUL_NS : LEFT_NS);
	return atomic_load(&wire->wake_ns);
}

bool vb_wire_left(struct vb_nic *nic)
{
	struct vb_wire *wire = atomic_load(&nic->wire);

	return wire && wire->left;
}

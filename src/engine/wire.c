/* SPDX-License-Identifier: BSD-2-Clause */
/* Who holds the wire, and what he does while he holds it. */
#include "engine/wire.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "path/fault/fault.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
	RECEIVE_PACKETS = 256, /* per round */
	ROUNDS = 4,            /* before a poster or poller returns to his own work */
	POLLS_BUSY = 8,        /* polls between two looks that make a busy poller */
};

/* --- the lock --- */

static bool try_lock(struct vb_wire *wire)
{
	return !atomic_load_explicit(&wire->lock, memory_order_relaxed) &&
	       !atomic_exchange(&wire->lock, 1);
}

static void lock(struct vb_wire *wire)
{
	while (!try_lock(wire))
		sched_yield();
}

static struct vb_qp *next_kicked(struct vb_wire *wire)
{
	struct vb_qp *qp = NULL;

	vb_spin_lock(&wire->kick_lock);
	if (!vb_list_empty(&wire->kicked)) {
		qp = vb_container(wire->kicked.next, struct vb_qp, wire_kick);
		vb_list_remove(&qp->wire_kick);
		atomic_fetch_sub(&wire->kick_count, 1);
	}
	vb_spin_unlock(&wire->kick_lock);
	return qp;
}

static void take_kicks(struct vb_wire *wire)
{
	struct vb_qp *qp;

	while (atomic_load(&wire->kick_count) && (qp = next_kicked(wire))) {
		struct vb_wired *wired = atomic_load(&qp->wired);

		if (wired)
			vb_roce_post(wired);
	}
}

static void drop_kick(struct vb_wire *wire, struct vb_qp *qp)
{
	vb_spin_lock(&wire->kick_lock);
	if (!vb_list_empty(&qp->wire_kick)) {
		vb_list_remove(&qp->wire_kick);
		atomic_fetch_sub(&wire->kick_count, 1);
	}
	vb_spin_unlock(&wire->kick_lock);
}

/* Everything is sent that may be sent now. */
static void send_due(struct vb_wire *wire)
{
	unsigned rounds = 0;

	wire->roce.now_ns = vb_now_ns();
	if (wire->fault)
		vb_wire_fault_release(wire);
	do
		take_kicks(wire);
	while (vb_roce_turn(&wire->roce, false) && ++rounds < ROUNDS);
}

/* The service thread sleeps longer than the next timer allows: wake it. */
static void tell_when(struct vb_wire *wire)
{
	uint64_t wake_ns = vb_roce_next_ns(&wire->roce);

	if (wire->fault && vb_wire_fault_next_ns(wire) < wake_ns)
		wake_ns = vb_wire_fault_next_ns(wire);
	atomic_store(&wire->wake_ns, wake_ns);
	if (wake_ns < atomic_load(&wire->nic->engine->service_wake_ns))
		vb_nic_ring(wire->nic);
}

static void unlock(struct vb_wire *wire)
{
	for (;;) {
		bool fatal = wire->roce.fatal;

		wire->roce.fatal = false;
		tell_when(wire);
		atomic_store(&wire->lock, 0);
		if (__builtin_expect(fatal, 0))
			vb_fault_device_fatal(wire->nic);
		/* Pairs with the count in vb_wire_kick: one of us sees the other. */
		if (!atomic_load(&wire->kick_count) || !try_lock(wire))
			return;
		send_due(wire);
	}
}

static bool begin(struct vb_wire *wire)
{
	wire->roce.thread = vb_thread_get();
	return wire->roce.thread;
}

/* --- opening --- */

static void sink_send(void *arg, const struct vb_burst *bursts, unsigned count)
{
	struct vb_wire *wire = arg;

	if (__builtin_expect(wire->fault != NULL, 0))
		vb_wire_fault_send(wire, bursts, count);
	else
		vb_port_send(wire->port, bursts, count);
}

static unsigned sink_burst_max(void *arg, const struct vb_way *way)
{
	struct vb_wire *wire = arg;

	return wire->fault ? 1 : vb_port_burst_max(wire->port, way);
}

static int sink_resolve(void *arg, const struct vb_av *av, struct vb_peer *peer, uint32_t entropy,
			struct vb_way *way)
{
	return vb_port_resolve(((struct vb_wire *)arg)->port, av, peer, entropy, way);
}

static struct vb_wire *wire_open(struct vb_nic *nic, int *err)
{
	struct vb_wire *wire = aligned_alloc(64, (sizeof(*wire) + 63) & ~63ul);
	struct vb_roce_sink sink = { wire, sink_send, sink_burst_max, sink_resolve };

	*err = -ENOMEM;
	if (!wire)
		return NULL;
	memset(wire, 0, sizeof(*wire));
	wire->nic = nic;
	vb_list_init(&wire->kicked);
	atomic_store(&wire->wake_ns, VB_NEVER_NS);
	*err = vb_roce_init(&wire->roce, nic, &sink);
	wire->port = *err ? NULL : vb_port_new(nic, nic->engine->epoll);
	if (vb_fault_any())
		wire->fault = vb_wire_fault_new();
	if (wire->port) {
		vb_port_on_foreign(wire->port, vb_attach_start);
		return wire;
	}
	*err = *err ? *err : -errno;
	vb_roce_fini(&wire->roce);
	free(wire);
	return NULL;
}

struct vb_wire *vb_wire_get(struct vb_nic *nic, int *err)
{
	struct vb_wire *wire = atomic_load(&nic->wire);

	*err = 0;
	if (wire)
		return wire;
	pthread_mutex_lock(&nic->lock);
	wire = atomic_load(&nic->wire);
	if (!wire)
		wire = wire_open(nic, err);
	atomic_store(&nic->wire, wire);
	pthread_mutex_unlock(&nic->lock);
	if (!wire)
		vb_explain("there is no way to other hosts: %s", strerror(-*err));
	return wire;
}

/* --- QPs --- */

/* Many connections between two hosts should not all share one path. */
static uint32_t entropy_of(const struct vb_qp *qp)
{
	uint32_t fold = qp->ibv.qp_num * qp->attr.dest_qp_num;

	return fold ^ fold >> 14 ^ fold >> 20;
}

static int listen_all(struct vb_wire *wire, const struct vb_qp *qp)
{
	const struct vb_device *dev = vb_context(qp->ibv.context)->dev;
	static const union ibv_gid none;
	union ibv_gid gid;
	int err = 0;

	for (int i = 0; i < VB_GIDS && !err; i++) {
		if (!vb_device_gid(dev, i, &gid) && memcmp(&gid, &none, sizeof(gid)))
			err = vb_port_listen(wire->port, &gid);
	}
	return err;
}

static int adopt_locked(struct vb_wire *wire, struct vb_qp *qp, struct vb_peer *peer)
{
	struct vb_way way = { 0 };
	int err;

	if (qp->type == IBV_QPT_UD) {
		listen_all(wire, qp); /* an address that cannot be had is one without packets */
		return vb_roce_adopt(&wire->roce, qp, NULL);
	}
	err = vb_port_resolve(wire->port, &qp->av, peer, entropy_of(qp), &way);
	if (err)
		return err;
	err = vb_roce_adopt(&wire->roce, qp, &way);
	if (err)
		vb_way_release(&way);
	return err;
}

int vb_wire_adopt(struct vb_qp *qp, struct vb_peer *peer)
{
	int err;
	struct vb_wire *wire = vb_wire_get(qp->nic, &err);

	if (!wire)
		return err;
	lock(wire);
	err = adopt_locked(wire, qp, peer);
	unlock(wire);
	if (err)
		vb_explain("QP 0x%06x has no way to its peer: %s", qp->ibv.qp_num, strerror(-err));
	return err;
}

static void take_back(struct vb_qp *qp)
{
	struct vb_wire *wire = atomic_load(&qp->nic->wire);
	struct vb_wired *wired;

	if (!wire)
		return;
	lock(wire);
	drop_kick(wire, qp);
	wired = atomic_load(&qp->wired);
	if (wired)
		vb_roce_drop(wired);
	unlock(wire);
}

void vb_wire_stop(struct vb_qp *qp)
{
	for (;;) {
		/* A packet that comes in between may hand it over again. */
		take_back(qp);
		if (vb_qp_token_try(qp))
			return;
		sched_yield();
	}
}

static bool own_slot(const struct vb_nic *nic, uint32_t qpn)
{
	for (unsigned i = 0; i < nic->slot_count; i++)
		if (nic->slots[i].slot == qpn >> VB_QP_INDEX_BITS)
			return true;
	return false;
}

/* By address alone; processes of this host are asked first whether they can be touched. */
static bool goes_by_wire(const struct vb_qp *qp)
{
	if (vb_context(qp->ibv.context)->dev->infiniband)
		return false;
	switch (vb_config_path()) {
	case VB_PATH_AUTO:
		return !qp->av.local;
	case VB_PATH_SLOT:
		return !qp->av.local || own_slot(qp->nic, qp->attr.dest_qp_num);
	case VB_PATH_WIRE:
	case VB_PATH_SIM:
		break;
	}
	return true;
}

void vb_wire_enter(struct vb_qp *qp)
{
	if (qp->type == IBV_QPT_UD) {
		if (!atomic_load(&qp->wired))
			vb_wire_adopt(qp, NULL);
		return;
	}
	if (!goes_by_wire(qp) || !vb_qp_token_try(qp))
		return;
	if (vb_wire_adopt(qp, NULL))
		vb_qp_token_release(qp);
}

void vb_wire_kick(struct vb_qp *qp)
{
	struct vb_wire *wire = atomic_load(&qp->nic->wire);

	if (!wire)
		return;
	vb_spin_lock(&wire->kick_lock);
	if (vb_list_empty(&qp->wire_kick)) {
		vb_list_append(&wire->kicked, &qp->wire_kick);
		atomic_fetch_add(&wire->kick_count, 1);
	}
	vb_spin_unlock(&wire->kick_lock);
	if (!try_lock(wire))
		return;
	if (begin(wire))
		send_due(wire);
	unlock(wire);
}

void vb_wire_datagrams(struct vb_qp *qp, struct vb_peer *peer, uint32_t end,
		       struct vb_notice *notice)
{
	struct vb_wire *wire = atomic_load(&qp->nic->wire);
	const struct vb_ah *ah = vb_sq_wqe(&qp->sq, qp->sq.next)->ah;
	struct vb_report report = { 0 };

	if (!wire) {
		vb_path_explain(qp, VB_NOT_THIS_HOST, &report);
		vb_path_complete(qp, VB_OK, &report, notice);
		return;
	}
	lock(wire);
	if (begin(wire)) {
		wire->roce.now_ns = vb_now_ns();
		vb_hazard_enter(wire->roce.thread, qp->nic->self->head_slot);
		do
			vb_roce_datagram(&wire->roce, qp, peer, notice);
		while (qp->sq.next != end && vb_sq_wqe(&qp->sq, qp->sq.next)->ah == ah &&
		       vb_qp_state(qp) == IBV_QPS_RTS);
		vb_hazard_leave(wire->roce.thread);
		vb_tx_flush(&wire->roce.tx);
	}
	unlock(wire);
}

/* --- packets --- */

/*
 * A packet through a slot socket for a QP that is not on the wire: its process found out first that
 * we may not touch each other.
 */
static void adopt_late(struct vb_wire *wire, const struct vb_arrival *arrival)
{
	struct vb_nic *nic = wire->nic;
	uint32_t qpn;
	struct vb_qp *qp;

	if (arrival->length < VB_BTH_LENGTH)
		return;
	qpn = (uint32_t)arrival->bytes[5] << 16 | (uint32_t)arrival->bytes[6] << 8 | arrival->bytes[7];
	if (vb_roce_find(&wire->roce, qpn) || pthread_mutex_trylock(&nic->lock))
		return;
	qp = vb_nic_qp(nic, qpn);
	if (qp && qp->type != IBV_QPT_UD && qp->av.local &&
	    vb_gate_open(atomic_load(&qp->entry->gate)) && vb_qp_token_try(qp)) {
		if (adopt_locked(wire, qp, arrival->peer))
			vb_qp_token_release(qp);
	}
	pthread_mutex_unlock(&nic->lock);
}

static void input(void *arg, const struct vb_arrival *arrival)
{
	struct vb_wire *wire = arg;

	if (arrival->peer && atomic_load(&arrival->peer->state) == VB_PEER_NO_PATH)
		adopt_late(wire, arrival);
	if (__builtin_expect(wire->fault != NULL, 0))
		vb_wire_fault_input(wire, arrival);
	else
		vb_roce_input(&wire->roce, arrival);
}

/* Answers leave with each batch: the other side waits for them. */
static bool bring_on(struct vb_wire *wire, bool polling)
{
	bool any = false;
	unsigned count, rounds = 0;

	if (!begin(wire))
		return false;
	do {
		wire->roce.now_ns = vb_now_ns();
		if (wire->fault)
			vb_wire_fault_release(wire);
		count = vb_port_receive(wire->port, polling, RECEIVE_PACKETS, input, wire);
		if (count)
			atomic_fetch_add_explicit(&wire->received, count, memory_order_relaxed);
		take_kicks(wire);
		any |= count || vb_roce_next_ns(&wire->roce) <= wire->roce.now_ns;
		/* Who polls has a completion now, and may have something to say about it. */
		while (vb_roce_turn(&wire->roce, polling && count) && ++rounds < ROUNDS)
			;
	} while (count && ++rounds < ROUNDS);
	return any;
}

bool vb_wire_poll(struct vb_wire *wire)
{
	bool any;

	atomic_fetch_add_explicit(&wire->polls, 1, memory_order_relaxed);
	if (!try_lock(wire))
		return false;
	any = bring_on(wire, true);
	unlock(wire);
	return any;
}

bool vb_engine_poll_wire(struct vb_nic *nic)
{
	return vb_wire_poll(atomic_load(&nic->wire));
}

/* --- by the service thread --- */

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

	if (try_lock(wire)) {
		bring_on(wire, false);
		unlock(wire);
	}
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

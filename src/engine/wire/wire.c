/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock of the wire, and the work of its holder. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/wire/wire_impl.h"
#include "path/fault/fault.h"

enum {
	RECEIVE_PACKETS = 256, /* per round */
	RECEIVE_MORE = 32,     /* so many packets came that there are probably more */
	ROUNDS = 4,            /* rounds before a poster or poller returns to its own work */
	DRAIN_ROUNDS = 16,     /* more than the sockets hold, unless a peer sends all the time */
	FAREWELL_NS = 10000000,
	/* so late is a timer only if the process was stopped or had no CPU */
	AWAY_NS_MIN = 10000000,
	LOOK_AROUND_NS = 20000000,
	/*
	 * Holders of the lock that stand in bring the wire on that often. The time is long enough
	 * for posts to gather, and ends before the first timer of a message.
	 */
	SHARE_NS = 100000,
	LAG_NS = 50000, /* the same for threads whose polls find completions of other paths */
};

/* By the holder of the lock. A reset by another thread may get lost: the counters are hints. */
static void count_up(_Atomic uint32_t *counter, uint32_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

/* --- the lock --- */

/*
 * The holder may open sockets, ask the routing tables or attach. Much of that is a cancellation
 * point in libc; posting and polling are none.
 */
bool vb_wire_try_lock(struct vb_wire *wire)
{
	int cancel_state;

	if (atomic_load_explicit(&wire->lock, memory_order_relaxed) ||
	    atomic_exchange(&wire->lock, 1))
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	wire->cancel_state = cancel_state;
	return true;
}

static void release_lock(struct vb_wire *wire)
{
	int cancel_state = wire->cancel_state;

	atomic_store(&wire->lock, 0);
	pthread_setcancelstate(cancel_state, NULL);
}

void vb_wire_lock(struct vb_wire *wire)
{
	while (!vb_wire_try_lock(wire))
		sched_yield();
}

/* For the thread that has the lock, or has it next. */
static void leave_kick(struct vb_wire *wire, struct vb_qp *qp)
{
	vb_spin_lock(&wire->kick_lock);
	if (vb_list_empty(&qp->wire_kick)) {
		vb_list_append(&wire->kicked, &qp->wire_kick);
		atomic_fetch_add(&wire->kick_count, 1);
	}
	vb_spin_unlock(&wire->kick_lock);
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

static void take_kick(struct vb_qp *qp)
{
	struct vb_wired *wired = atomic_load(&qp->wired);

	if (wired)
		vb_roce_post(wired);
}

static void take_kicks(struct vb_wire *wire)
{
	struct vb_qp *qp;

	while (atomic_load(&wire->kick_count) && (qp = next_kicked(wire)))
		take_kick(qp);
}

void vb_wire_drop_kick(struct vb_wire *wire, struct vb_qp *qp)
{
	vb_spin_lock(&wire->kick_lock);
	if (!vb_list_empty(&qp->wire_kick)) {
		vb_list_remove(&qp->wire_kick);
		atomic_fetch_sub(&wire->kick_count, 1);
	}
	vb_spin_unlock(&wire->kick_lock);
}

/* Sends everything that may be sent now. */
static void send_due(struct vb_wire *wire)
{
	unsigned rounds = 0;

	if (wire->fault)
		vb_wire_fault_release(wire);
	/* After a long absence an answer may lie in the socket while its timer is due. */
	wire->roce.unread = true;
	do
		take_kicks(wire);
	while (vb_roce_turn(&wire->roce, false) && ++rounds < ROUNDS);
	wire->roce.unread = false;
}

/*
 * Wakes the service thread if it sleeps longer than the next timer allows. Timers of the wire are
 * about losses, and nearly all of them are taken back: they may be a little late. Before it sleeps
 * the service thread looks at wake_ns itself. So only an earlier time than before is worth a look
 * at how long it sleeps.
 */
static void tell_when(struct vb_wire *wire)
{
	uint64_t wake_ns = vb_roce_next_ns(&wire->roce);

	if (wire->fault && vb_wire_fault_next_ns(wire) < wake_ns)
		wake_ns = vb_wire_fault_next_ns(wire);
	if (vb_wire_held_next_ns(wire) < wake_ns)
		wake_ns = vb_wire_held_next_ns(wire);
	if (wake_ns >= atomic_load_explicit(&wire->wake_ns, memory_order_relaxed)) {
		atomic_store_explicit(&wire->wake_ns, wake_ns, memory_order_relaxed);
		return;
	}
	atomic_store(&wire->wake_ns, wake_ns);
	if (vb_wire_too_late(wire->nic, atomic_load(&wire->nic->engine->service_wake_ns)))
		vb_nic_ring(wire->nic);
}

bool vb_wire_begin(struct vb_wire *wire)
{
	wire->roce.thread = vb_thread_get();
	wire->roce.now_ns = vb_now_ns();
	return wire->roce.thread;
}

/* Gives the lock back, and takes it again while kicks are left. After tell_when. */
static void unlock_unless_kicked(struct vb_wire *wire)
{
	for (;;) {
		bool fatal = wire->roce.fatal;

		wire->roce.fatal = false;
		release_lock(wire);
		if (__builtin_expect(fatal, 0))
			vb_fault_device_fatal(wire->nic);
		/* Pairs with the fence in kick_holder: one of the two threads sees the other. */
		if (!atomic_load(&wire->kick_count) || !vb_wire_try_lock(wire))
			return;
		/* The last holder may have ended, and its hazard word with it. */
		if (!vb_wire_begin(wire)) {
			release_lock(wire);
			return;
		}
		send_due(wire);
		tell_when(wire);
	}
}

static bool is_older(const struct vb_wire *wire, uint64_t age_ns, uint64_t now_ns)
{
	uint64_t brought_ns = atomic_load_explicit(&wire->brought_ns, memory_order_relaxed);

	return now_ns > brought_ns && now_ns - brought_ns >= age_ns;
}

/*
 * Threads that post all the time give the service thread no chance to take the lock. But posts
 * alone take no packet in and fire no timer.
 */
__attribute__((noinline)) static void stand_in(struct vb_wire *wire)
{
	if (is_older(wire, SHARE_NS, vb_now_ns()) && vb_wire_begin(wire))
		vb_wire_bring_on(wire, false);
}

void vb_wire_unlock(struct vb_wire *wire)
{
	/* A hint: the service thread comes again soon. */
	if (__builtin_expect(atomic_load_explicit(&wire->shut_out, memory_order_relaxed), 0))
		stand_in(wire);
	tell_when(wire);
	unlock_unless_kicked(wire);
}

void vb_wire_count(struct vb_wire *wire, struct vb_wire_counts *counts)
{
	vb_wire_lock(wire);
	counts->port = *vb_port_counters(wire->port);
	counts->qps = vb_roce_counters(&wire->roce);
	memcpy(counts->drops, wire->roce.drops, sizeof(counts->drops));
	memcpy(counts->flaws, wire->roce.flaws, sizeof(counts->flaws));
	vb_wire_unlock(wire);
}

bool vb_wire_heard_since(struct vb_nic *nic, const union ibv_gid *host, uint64_t since_ns)
{
	struct vb_wire *wire = atomic_load(&nic->wire);
	bool heard;

	if (!wire)
		return false;
	vb_wire_lock(wire);
	heard = vb_roce_heard_since(&wire->roce, host, since_ns);
	vb_wire_unlock(wire);
	return heard;
}

/* Posts that gather (vb_roce_post) go on waiting, unless something is urgent. */
static void send_posted(struct vb_wire *wire)
{
	take_kicks(wire);
	if (vb_roce_urgent(&wire->roce))
		send_due(wire);
}

/* The holder finds the QP on the list, or has just looked there and is leaving. */
static void kick_holder(struct vb_wire *wire, struct vb_qp *qp)
{
	leave_kick(wire, qp);
	/* Between the count and the look at the lock. Pairs with the store in release_lock. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!vb_wire_try_lock(wire))
		return;
	if (vb_wire_begin(wire))
		send_posted(wire);
	vb_wire_unlock(wire);
}

void vb_wire_kick(struct vb_qp *qp)
{
	struct vb_wire *wire = atomic_load(&qp->nic->wire);

	if (!wire)
		return;
	if (!vb_wire_try_lock(wire)) {
		kick_holder(wire, qp);
		return;
	}
	count_up(&wire->activity, 1);
	if (vb_wire_begin(wire)) {
		take_kick(qp);
		send_posted(wire);
	} else {
		leave_kick(wire, qp);
	}
	vb_wire_unlock(wire);
}

/* --- packets --- */

void vb_wire_take_in(struct vb_wire *wire, const struct vb_arrival *arrival)
{
	if (__builtin_expect(wire->fault != NULL, 0))
		vb_wire_fault_input(wire, arrival);
	else
		vb_roce_input(&wire->roce, arrival);
}

static void on_packet(void *arg, const struct vb_arrival *arrival)
{
	struct vb_wire *wire = arg;

	/* Packets that came first go first. */
	if (__builtin_expect(wire->held.count, 0))
		vb_wire_held_release(wire);
	if (arrival->peer && !vb_wire_adopt_late(wire, arrival))
		vb_wire_hold(wire, arrival);
	else
		vb_wire_take_in(wire, arrival);
}

void vb_wire_receive(struct vb_wire *wire)
{
	unsigned rounds = 0;

	while (vb_port_receive(wire->port, false, RECEIVE_PACKETS, on_packet, wire) &&
	       ++rounds < DRAIN_ROUNDS)
		;
}

/* Takes in packets that wait here, and do not come from the port. */
static void take_in_held(struct vb_wire *wire)
{
	if (__builtin_expect(wire->fault != NULL, 0))
		vb_wire_fault_release(wire);
	if (__builtin_expect(wire->held.count, 0))
		vb_wire_held_release(wire);
}

/* True after most polls: nothing is due, and the service thread knows the next time. */
static bool at_rest(const struct vb_wire *wire, bool polling)
{
	return !wire->fault && !wire->held.count && !atomic_load(&wire->kick_count) &&
	       atomic_load_explicit(&wire->wake_ns, memory_order_relaxed) > wire->roce.now_ns &&
	       vb_roce_at_rest(&wire->roce, polling);
}

/*
 * A process that was stopped, or had no CPU, finds timers that are due while the answers lie in
 * sockets: sockets of the port, or others that the service thread reads.
 */
static bool is_behind(struct vb_wire *wire)
{
	const uint64_t now_ns = wire->roce.now_ns, due_ns = vb_timers_next_ns(&wire->roce.timers);

	if (due_ns > now_ns)
		return false;
	if (now_ns - due_ns > AWAY_NS_MIN)
		wire->back_ns = now_ns;
	return now_ns - wire->back_ns < LOOK_AROUND_NS || vb_port_ready(wire->port);
}

/* Answers leave with each batch: the other side waits for them. */
bool vb_wire_bring_on(struct vb_wire *wire, bool polling)
{
	bool any = false;
	unsigned count, rounds = 0;

	if (!vb_wire_begin(wire))
		return false;
	atomic_store_explicit(&wire->brought_ns, wire->roce.now_ns, memory_order_relaxed);
	for (;;) {
		take_in_held(wire);
		count = vb_port_receive(wire->port, polling, RECEIVE_PACKETS, on_packet, wire);
		if (!count && at_rest(wire, polling))
			return any;
		count_up(&wire->received, count);
		take_kicks(wire);
		any |= count || vb_roce_next_ns(&wire->roce) <= wire->roce.now_ns;
		wire->roce.behind = is_behind(wire);
		/* A poller has a completion now: its next post may take the ACK along. */
		while (vb_roce_turn(&wire->roce, polling) && ++rounds < ROUNDS)
			;
		tell_when(wire);
		if (count < RECEIVE_MORE || ++rounds >= ROUNDS)
			return any;
		wire->roce.now_ns = vb_now_ns();
	}
}

void vb_wire_settle(struct vb_qp *qp)
{
	struct vb_wire *wire = atomic_load(&qp->nic->wire);

	if (!wire || !vb_qp_on_wire(qp))
		return;
	vb_wire_lock(wire);
	if (vb_wire_begin(wire))
		send_due(wire);
	vb_wire_unlock(wire);
}

/* At exit other threads may be stopped anywhere, and the lock may be the caller's own. */
static bool lock_soon(struct vb_wire *wire)
{
	const uint64_t until_ns = vb_now_ns() + FAREWELL_NS;

	while (!vb_wire_try_lock(wire)) {
		if (vb_now_ns() >= until_ns)
			return false;
		sched_yield();
	}
	return true;
}

void vb_wire_farewell(struct vb_nic *nic)
{
	struct vb_wire *wire = atomic_load(&nic->wire);

	if (!wire || !lock_soon(wire))
		return;
	if (vb_wire_begin(wire)) {
		send_due(wire);
		vb_roce_farewell(&wire->roce);
		if (wire->fault)
			vb_wire_fault_farewell(wire);
		vb_port_empty_memory(wire->port, on_packet, wire);
	}
	vb_wire_unlock(wire);
}

void vb_wire_poll(struct vb_wire *wire)
{
	if (!vb_wire_try_lock(wire))
		return;
	count_up(&wire->polls, 1);
	if (vb_wire_bring_on(wire, true))
		count_up(&wire->activity, 1);
	unlock_unless_kicked(wire);
}

bool vb_wire_overdue(const struct vb_wire *wire)
{
	return is_older(wire, LAG_NS, vb_now_ns());
}

void vb_engine_poll_wire(struct vb_nic *nic)
{
	vb_wire_poll(atomic_load(&nic->wire));
}

void vb_wire_catch_up(struct vb_nic *nic)
{
	struct vb_wire *wire = atomic_load(&nic->wire);
	unsigned rounds = 0;

	if (!wire)
		return;
	vb_wire_lock(wire);
	while (vb_wire_bring_on(wire, false) && ++rounds < DRAIN_ROUNDS)
		;
	vb_wire_unlock(wire);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock of a lane, and the work of its holder. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/wire/lane_thread.h"
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
	LAG_NS = 50000,   /* the same for threads whose polls find completions of other paths */
	POLL_PACKETS = 4, /* so many packets take a thread as long as an empty poll, or longer */
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
bool vb_wire_try_lock(struct vb_lane *lane)
{
	int cancel_state;

	if (atomic_load_explicit(&lane->lock, memory_order_relaxed) ||
	    atomic_exchange(&lane->lock, 1))
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	lane->cancel_state = cancel_state;
	return true;
}

static void release_lock(struct vb_lane *lane)
{
	int cancel_state = lane->cancel_state;

	atomic_store(&lane->lock, 0);
	pthread_setcancelstate(cancel_state, NULL);
}

void vb_wire_lock(struct vb_lane *lane)
{
	while (!vb_wire_try_lock(lane))
		sched_yield();
}

/* For the thread that has the lock, or has it next. */
static void leave_kick(struct vb_lane *lane, struct vb_qp *qp)
{
	vb_spin_lock(&lane->kick_lock);
	if (vb_list_empty(&qp->wire_kick)) {
		vb_list_append(&lane->kicked, &qp->wire_kick);
		atomic_fetch_add(&lane->kick_count, 1);
	}
	vb_spin_unlock(&lane->kick_lock);
}

static struct vb_qp *next_kicked(struct vb_lane *lane)
{
	struct vb_qp *qp = NULL;

	vb_spin_lock(&lane->kick_lock);
	if (!vb_list_empty(&lane->kicked)) {
		qp = vb_container(lane->kicked.next, struct vb_qp, wire_kick);
		vb_list_remove(&qp->wire_kick);
		atomic_fetch_sub(&lane->kick_count, 1);
	}
	vb_spin_unlock(&lane->kick_lock);
	return qp;
}

static void take_kick(struct vb_qp *qp)
{
	struct vb_wired *wired = atomic_load(&qp->wired);

	if (wired)
		vb_roce_post(wired);
}

__attribute__((noinline)) static void take_all_kicks(struct vb_lane *lane)
{
	struct vb_qp *qp;

	while (atomic_load(&lane->kick_count) && (qp = next_kicked(lane)))
		take_kick(qp);
}

/* Nearly always there are none. */
static inline void take_kicks(struct vb_lane *lane)
{
	if (__builtin_expect(atomic_load(&lane->kick_count), 0))
		take_all_kicks(lane);
}

void vb_wire_drop_kick(struct vb_lane *lane, struct vb_qp *qp)
{
	vb_spin_lock(&lane->kick_lock);
	if (!vb_list_empty(&qp->wire_kick)) {
		vb_list_remove(&qp->wire_kick);
		atomic_fetch_sub(&lane->kick_count, 1);
	}
	vb_spin_unlock(&lane->kick_lock);
}

/* Sends everything that may be sent now. */
static void send_due(struct vb_lane *lane)
{
	unsigned rounds = 0;

	if (lane->fault)
		vb_wire_fault_release(lane);
	/* After a long absence an answer may lie in the socket while its timer is due. */
	lane->roce.unread = true;
	do
		take_kicks(lane);
	while (vb_roce_turn(&lane->roce, false) && ++rounds < ROUNDS);
	lane->roce.unread = false;
}

/*
 * Wakes the service thread if it sleeps longer than the next timer allows. Timers of the wire are
 * about losses, and nearly all of them are taken back: they may be a little late. Before it sleeps
 * the service thread looks at wake_ns itself. So only an earlier time than before is worth a look
 * at how long it sleeps.
 */
static void tell_when(struct vb_lane *lane)
{
	uint64_t wake_ns = vb_roce_next_ns(&lane->roce);

	if (lane->fault && vb_wire_fault_next_ns(lane) < wake_ns)
		wake_ns = vb_wire_fault_next_ns(lane);
	if (vb_wire_held_next_ns(lane) < wake_ns)
		wake_ns = vb_wire_held_next_ns(lane);
	if (wake_ns >= atomic_load_explicit(&lane->wake_ns, memory_order_relaxed)) {
		atomic_store_explicit(&lane->wake_ns, wake_ns, memory_order_relaxed);
		return;
	}
	atomic_store(&lane->wake_ns, wake_ns);
	vb_lane_wake(lane);
}

bool vb_wire_begin(struct vb_lane *lane)
{
	lane->roce.thread = vb_thread_get();
	lane->roce.now_ns = vb_now_ns();
	return lane->roce.thread;
}

/* Gives the lock back, and takes it again while kicks are left. After tell_when. */
static void unlock_unless_kicked(struct vb_lane *lane)
{
	for (;;) {
		bool fatal = lane->roce.fatal;

		lane->roce.fatal = false;
		release_lock(lane);
		if (__builtin_expect(fatal, 0))
			vb_fault_device_fatal(lane->nic);
		/* Pairs with the fence in kick_holder: one of the two threads sees the other. */
		if (!atomic_load(&lane->kick_count) || !vb_wire_try_lock(lane))
			return;
		/* The last holder may have ended, and its hazard word with it. */
		if (!vb_wire_begin(lane)) {
			release_lock(lane);
			return;
		}
		send_due(lane);
		tell_when(lane);
	}
}

static bool is_older(const struct vb_lane *lane, uint64_t age_ns, uint64_t now_ns)
{
	uint64_t brought_ns = atomic_load_explicit(&lane->brought_ns, memory_order_relaxed);

	return now_ns > brought_ns && now_ns - brought_ns >= age_ns;
}

/*
 * Threads that post all the time give the service thread no chance to take the lock. But posts
 * alone take no packet in and fire no timer.
 */
__attribute__((noinline)) static void stand_in(struct vb_lane *lane)
{
	if (is_older(lane, SHARE_NS, vb_now_ns()) && vb_wire_begin(lane))
		vb_wire_bring_on(lane, false);
}

void vb_wire_unlock(struct vb_lane *lane)
{
	/* A hint: the service thread comes again soon. */
	if (__builtin_expect(atomic_load_explicit(&lane->shut_out, memory_order_relaxed), 0))
		stand_in(lane);
	tell_when(lane);
	unlock_unless_kicked(lane);
}

static void count_lane(struct vb_lane *lane, struct vb_wire_counts *counts)
{
	vb_wire_lock(lane);
	counts->port = *vb_port_counters(lane->port);
	counts->qps = vb_roce_counters(&lane->roce);
	memcpy(counts->drops, lane->roce.drops, sizeof(counts->drops));
	memcpy(counts->flaws, lane->roce.flaws, sizeof(counts->flaws));
	counts->reserved = lane->roce.reserved;
	vb_wire_unlock(lane);
}

/* All are numbers of one size (engine/counters.c relies on it, too). */
static void counts_add(struct vb_wire_counts *sum, const struct vb_wire_counts *counts)
{
	enum { COUNT = sizeof(*sum) / sizeof(uint64_t) };
	uint64_t sums[COUNT], values[COUNT];

	memcpy(sums, sum, sizeof(sums));
	memcpy(values, counts, sizeof(values));
	for (unsigned i = 0; i < COUNT; i++)
		sums[i] += values[i];
	memcpy(sum, sums, sizeof(sums));
}

/* Closed lanes have counted, too. */
void vb_wire_count(struct vb_nic *nic, struct vb_wire_counts *counts)
{
	*counts = (struct vb_wire_counts){ 0 };
	for (unsigned i = 0; i < VB_LANES_MAX; i++) {
		struct vb_lane *lane = atomic_load(&nic->lanes[i]);
		struct vb_wire_counts one;

		if (!lane)
			continue;
		count_lane(lane, &one);
		counts_add(counts, &one);
	}
}

bool vb_wire_heard_since(struct vb_nic *nic, const union ibv_gid *host, uint64_t since_ns)
{
	bool heard = false;

	vb_lanes_for(lane, nic)
	{
		vb_wire_lock(lane);
		heard |= vb_roce_heard_since(&lane->roce, host, since_ns);
		vb_wire_unlock(lane);
	}
	return heard;
}

/* Posts that gather (vb_roce_post) go on waiting, unless something is urgent. */
static void send_posted(struct vb_lane *lane)
{
	take_kicks(lane);
	if (vb_roce_urgent(&lane->roce))
		send_due(lane);
}

/* The holder finds the QP on the list, or has just looked there and is leaving. */
static void kick_holder(struct vb_lane *lane, struct vb_qp *qp)
{
	leave_kick(lane, qp);
	/* Between the count and the look at the lock. Pairs with the store in release_lock. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!vb_wire_try_lock(lane))
		return;
	if (vb_wire_begin(lane))
		send_posted(lane);
	vb_wire_unlock(lane);
}

void vb_wire_kick(struct vb_qp *qp)
{
	struct vb_lane *lane = vb_qp_lane(qp);

	if (!lane)
		return;
	if (!vb_wire_try_lock(lane)) {
		kick_holder(lane, qp);
		return;
	}
	count_up(&lane->activity, 1);
	if (vb_wire_begin(lane)) {
		take_kick(qp);
		send_posted(lane);
	} else {
		leave_kick(lane, qp);
	}
	vb_wire_unlock(lane);
}

/* --- packets --- */

unsigned vb_wire_take_in(struct vb_lane *lane, const struct vb_arrival *arrival)
{
	if (__builtin_expect(!lane->fault, 1))
		return vb_roce_input(&lane->roce, arrival);
	vb_wire_fault_input(lane, arrival);
	return 1;
}

static unsigned on_packet(void *arg, const struct vb_arrival *arrival)
{
	struct vb_lane *lane = arg;

	/* Packets that came first go first. */
	if (__builtin_expect(lane->held.count, 0))
		vb_wire_held_release(lane);
	if (!arrival->peer || vb_wire_adopt_late(lane, arrival))
		return vb_wire_take_in(lane, arrival);
	vb_wire_hold(lane, arrival);
	return 1;
}

void vb_wire_receive(struct vb_lane *lane)
{
	unsigned rounds = 0;

	while (vb_port_receive(lane->port, false, RECEIVE_PACKETS, on_packet, lane) &&
	       ++rounds < DRAIN_ROUNDS)
		;
}

/* Takes in packets that wait here, and do not come from the port. */
static void take_in_held(struct vb_lane *lane)
{
	if (__builtin_expect(lane->fault != NULL, 0))
		vb_wire_fault_release(lane);
	if (__builtin_expect(lane->held.count, 0))
		vb_wire_held_release(lane);
}

/* True after most polls: nothing is due, and the service thread knows the next time. */
static bool at_rest(const struct vb_lane *lane, bool polling)
{
	return !lane->fault && !lane->held.count && !atomic_load(&lane->kick_count) &&
	       atomic_load_explicit(&lane->wake_ns, memory_order_relaxed) > lane->roce.now_ns &&
	       vb_roce_at_rest(&lane->roce, polling);
}

/*
 * A process that was stopped, or had no CPU, finds timers that are due while the answers lie in
 * sockets: sockets of the port, or others that the service thread reads.
 */
static bool is_behind(struct vb_lane *lane)
{
	const uint64_t now_ns = lane->roce.now_ns, due_ns = vb_timers_next_ns(&lane->roce.timers);

	if (due_ns > now_ns)
		return false;
	if (now_ns - due_ns > AWAY_NS_MIN)
		lane->back_ns = now_ns;
	return now_ns - lane->back_ns < LOOK_AROUND_NS || vb_port_ready(lane->port);
}

/*
 * Answers leave with each batch: the other side waits for them. hot: looks at the socket of the
 * last packets, and not at all of them. hold_acks: a poller has a completion now, and its next post
 * may take the ACK along. True: something was done.
 */
static bool bring_on(struct vb_lane *lane, bool hot, bool hold_acks)
{
	bool any = false;
	unsigned count, rounds = 0;

	if (!vb_wire_begin(lane))
		return false;
	atomic_store_explicit(&lane->brought_ns, lane->roce.now_ns, memory_order_relaxed);
	for (;;) {
		take_in_held(lane);
		count = vb_port_receive(lane->port, hot, RECEIVE_PACKETS, on_packet, lane);
		if (!count && at_rest(lane, hold_acks))
			return any;
		count_up(&lane->received, count);
		take_kicks(lane);
		any |= count || vb_roce_next_ns(&lane->roce) <= lane->roce.now_ns;
		lane->roce.behind = is_behind(lane);
		while (vb_roce_turn(&lane->roce, hold_acks) && ++rounds < ROUNDS)
			;
		tell_when(lane);
		if (count < RECEIVE_MORE || ++rounds >= ROUNDS)
			return any;
		lane->roce.now_ns = vb_now_ns();
	}
}

bool vb_wire_bring_on(struct vb_lane *lane, bool polling)
{
	return bring_on(lane, polling, polling);
}

void vb_wire_look_again(struct vb_lane *lane)
{
	bring_on(lane, true, false);
}

void vb_wire_settle(struct vb_qp *qp)
{
	struct vb_lane *lane = vb_qp_lane(qp);

	if (!lane || !vb_qp_on_wire(qp))
		return;
	vb_wire_lock(lane);
	if (vb_wire_begin(lane))
		send_due(lane);
	vb_wire_unlock(lane);
}

/* At exit other threads may be stopped anywhere, and the lock may be the caller's own. */
static bool lock_soon(struct vb_lane *lane)
{
	const uint64_t until_ns = vb_now_ns() + FAREWELL_NS;

	while (!vb_wire_try_lock(lane)) {
		if (vb_now_ns() >= until_ns)
			return false;
		sched_yield();
	}
	return true;
}

static void farewell(struct vb_lane *lane)
{
	if (!lock_soon(lane))
		return;
	if (vb_wire_begin(lane)) {
		send_due(lane);
		vb_roce_farewell(&lane->roce);
		if (lane->fault)
			vb_wire_fault_farewell(lane);
		vb_port_empty_memory(lane->port, on_packet, lane);
	}
	vb_wire_unlock(lane);
}

void vb_wire_farewell(struct vb_nic *nic)
{
	vb_lanes_for(lane, nic) farewell(lane);
}

/* A program with many packets has little time to poll: the packets since its last poll count. */
static uint32_t weigh_poll(struct vb_lane *lane)
{
	const uint64_t packets = vb_port_packets(lane->port), since = lane->polled_packets;

	lane->polled_packets = packets;
	return 1 + (uint32_t)(packets - since) / POLL_PACKETS;
}

static void poll_lane(struct vb_lane *lane)
{
	if (!vb_wire_try_lock(lane))
		return;
	if (vb_wire_bring_on(lane, true))
		count_up(&lane->activity, 1);
	count_up(&lane->polls, weigh_poll(lane));
	unlock_unless_kicked(lane);
}

void vb_engine_poll_wire(struct vb_nic *nic, uint32_t lanes)
{
	for (; lanes; lanes &= lanes - 1)
		poll_lane(atomic_load(&nic->lanes[__builtin_ctz(lanes)]));
}

bool vb_wire_overdue(const struct vb_nic *nic, uint32_t lanes)
{
	const uint64_t now_ns = vb_now_ns();

	for (; lanes; lanes &= lanes - 1)
		if (is_older(atomic_load(&nic->lanes[__builtin_ctz(lanes)]), LAG_NS, now_ns))
			return true;
	return false;
}

void vb_wire_catch_up(struct vb_nic *nic)
{
	vb_lanes_for(lane, nic)
	{
		unsigned rounds = 0;

		vb_wire_lock(lane);
		while (vb_wire_bring_on(lane, false) && ++rounds < DRAIN_ROUNDS)
			;
		vb_wire_unlock(lane);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* When the service thread brings the wire on, and when it leaves that to a program that polls. */
#include "base/clock.h"
#include "engine/wire/lane_thread.h"
#include "engine/wire/wire_impl.h"
#include "nic/lane.h"

/*
 * A program that polls takes packets in faster than a thread that has to be woken. And a thread
 * that wakes for packets that are gone takes CPU time from the program. So the sockets are left to
 * the program. But a program may have polled and now wait for memory to change. So the service
 * thread looks now and then whether packets lie around, and takes the sockets back if so.
 */
enum {
	SOON_NS = 20000,         /* second look at packets that lie around */
	DISTRUST_NS = 200000000, /* after packets were found lying around */
	WINDOW_TICKS = 4,        /* the longest time over which polls are counted */
	POLLS_HARD = 200,        /* per tick: less than one in 5 us is no busy poller */
	SERVED_MANY = 1024,      /* packets: the lane is worth a thread of its own */
	STAY_NS_MIN = 2000,
	STAY_NS_MAX = 20000,
	CROWDED_NS = 100000000, /* after a look that took so long that other threads have run */
	HITS_MIN = 8,           /* looks that were worth it, one after the other ... */
	SKIPPED_MAX = 1023,     /* ... and those that a look in vain costs at most */
	MANY = 32,              /* packets: a stream */
	FEW_NS = 100000,        /* where there is no stream other work may wait */
	LINGER_NS = 1000000000, /* a lane without QPs stays open so long: another QP may follow */
};

void vb_wire_watch(struct vb_nic *nic, uint32_t lanes)
{
	for (lanes &= atomic_load(&nic->lanes_open); lanes; lanes &= lanes - 1) {
		struct vb_lane *lane = atomic_load(&nic->lanes[__builtin_ctz(lanes)]);

		if (!atomic_load_explicit(&lane->polls, memory_order_relaxed))
			continue;
		atomic_store_explicit(&lane->polls, 0, memory_order_relaxed);
		vb_port_watch(lane->port);
	}
}

static uint32_t received_count(struct vb_lane *lane)
{
	return atomic_load_explicit(&lane->received, memory_order_relaxed);
}

/* True: packets lie around and no thread takes them. */
static bool is_neglected(struct vb_lane *lane, uint32_t polls)
{
	bool doubtful = lane->doubtful;

	lane->doubtful = false;
	if (!polls && !doubtful)
		return true;
	/* A thread took some meanwhile: it is at work. */
	if (doubtful && received_count(lane) != lane->doubtful_since)
		return false;
	if (!vb_port_ready(lane->port))
		return false;
	lane->doubtful = true;
	lane->doubtful_since = received_count(lane);
	return doubtful;
}

/* True: a program has polled all the time lately, and can be relied on. */
static bool polls_hard(struct vb_lane *lane)
{
	const uint64_t now_ns = vb_now_ns(), since_ns = now_ns - lane->window_ns;
	bool hard;

	if (since_ns < VB_WIRE_TICK_NS)
		return false;
	/* A longer time shows that this thread waits for a CPU: the program may have to, too. */
	hard = since_ns < WINDOW_TICKS * VB_WIRE_TICK_NS &&
	       (uint64_t)lane->window_polls * VB_WIRE_TICK_NS >= POLLS_HARD * since_ns;
	lane->window_polls = 0;
	lane->window_ns = now_ns;
	return hard && now_ns >= lane->distrust_ns;
}

/* --- looking on --- */

/*
 * A thread that sleeps between two requests is woken late, and the sender pays for waking it. So it
 * looks on for a moment, as long as would have saved the last sleep. But the sender, or a thread of
 * this program that waits for memory to change, may need this very CPU. So a look in vain costs the
 * next one, and then twice as many each time, until several in a row were worth it.
 */
static void stay_learn(struct vb_lane *lane)
{
	const uint64_t needed_ns = vb_now_ns() - lane->rest_ns + lane->stayed_ns;

	if (needed_ns > STAY_NS_MAX)
		lane->stay_ns = lane->stay_ns < STAY_NS_MIN ? 0 : lane->stay_ns / 2;
	else
		lane->stay_ns = needed_ns + needed_ns / 2;
	if (lane->stay_ns > STAY_NS_MAX)
		lane->stay_ns = STAY_NS_MAX;
}

/* The packets that this thread took in and sent: they are not the program's. Under the lock. READs
 * of a peer bring few packets in, and many out. */
static uint32_t count_own(struct vb_lane *lane, uint64_t before)
{
	const uint64_t packets = vb_port_packets(lane->port) - before;

	lane->polled_packets += packets;
	return (uint32_t)packets;
}

/* One look for more packets. False: another thread has the lock, and looks after the lane. */
static bool look_again(struct vb_lane *lane, uint32_t *packets)
{
	uint64_t before;

	if (!vb_wire_try_lock(lane))
		return false;
	before = vb_port_packets(lane->port);
	vb_wire_look_again(lane);
	*packets = count_own(lane, before);
	vb_wire_unlock(lane);
	lane->served += *packets;
	return true;
}

/* Events of CQs and flushes: this thread, or the service thread, sees to them. */
static bool has_other_work(const struct vb_lane *lane)
{
	const struct vb_nic *nic = lane->nic;

	return atomic_load(&nic->seg.lent->attention) || atomic_load(&nic->flushes_pending);
}

static void judge_look(struct vb_lane *lane, bool hit)
{
	lane->hits = hit ? lane->hits + 1 : 0;
	if (lane->hits >= HITS_MIN)
		lane->skips_next = 0;
	if (hit)
		return;
	lane->skips_next = 2 * lane->skips_next + 1;
	if (lane->skips_next > SKIPPED_MAX)
		lane->skips_next = SKIPPED_MAX;
	lane->skips = lane->skips_next;
}

/* True: packets came. False: none did for stay_ns, or something else is to be done. */
static bool look_on(struct vb_lane *lane)
{
	const uint64_t begin_ns = vb_now_ns();
	uint64_t now_ns = begin_ns, last_ns;
	uint32_t packets = 0;

	while (!packets && now_ns < begin_ns + lane->stay_ns) {
		last_ns = now_ns;
		if (has_other_work(lane) || !look_again(lane, &packets))
			return false;
		now_ns = vb_now_ns();
		if (!packets && now_ns - last_ns > STAY_NS_MAX) {
			lane->crowded_ns = now_ns + CROWDED_NS;
			return false;
		}
	}
	lane->stayed_ns = packets ? 0 : now_ns - begin_ns;
	judge_look(lane, packets);
	return packets;
}

/* For as long as packets follow each other: other lanes and peers wait for this thread, too. */
static void stay_awake(struct vb_lane *lane, uint32_t packets)
{
	const uint64_t now_ns = vb_now_ns();
	const uint64_t most_ns = packets >= MANY ? VB_WIRE_TICK_NS : FEW_NS;

	if (now_ns < lane->crowded_ns || !lane->stay_ns)
		return;
	if (lane->skips) {
		lane->skips--;
		return;
	}
	while (look_on(lane) && vb_now_ns() - now_ns < most_ns)
		;
}

/* Another thread has the lock now, and may take it again at once: a watched socket would wake this
 * thread for nothing. */
static void come_again(struct vb_lane *lane)
{
	atomic_store_explicit(&lane->shut_out, true, memory_order_relaxed);
	lane->again_ns = lane->again_ns ? 2 * lane->again_ns : SOON_NS;
	if (lane->again_ns > VB_WIRE_TICK_NS)
		lane->again_ns = VB_WIRE_TICK_NS;
}

static void bring_on(struct vb_lane *lane, uint32_t polls)
{
	uint64_t before;
	uint32_t packets;

	if (!vb_wire_try_lock(lane)) {
		come_again(lane);
		return;
	}
	atomic_store_explicit(&lane->shut_out, false, memory_order_relaxed);
	lane->again_ns = 0;
	before = vb_port_packets(lane->port);
	vb_wire_bring_on(lane, false);
	packets = count_own(lane, before);
	vb_wire_unlock(lane);
	lane->stayed_ns = 0;
	if (!polls) {
		lane->served += packets;
		if (packets)
			stay_awake(lane, packets);
	}
	lane->left = polls_hard(lane);
	if (lane->left)
		return;
	lane->rest_ns = vb_now_ns();
	vb_port_watch(lane->port);
}

void vb_wire_service_lane(struct vb_lane *lane, bool woken)
{
	const uint32_t polls = atomic_exchange(&lane->polls, 0);

	lane->window_polls += polls;
	/* Woken although it watches nothing: a thread that goes to sleep asked for it. */
	if (lane->left && !woken) {
		if (!is_neglected(lane, polls))
			return;
		lane->distrust_ns = vb_now_ns() + DISTRUST_NS;
	}
	lane->doubtful = false;
	if (woken)
		stay_learn(lane);
	bring_on(lane, polls);
}

/* The time at which a further lane without QPs is closed; VB_NEVER_NS: it has QPs. */
static uint64_t close_ns(const struct vb_lane *lane)
{
	const uint64_t idle_ns = atomic_load_explicit(&lane->nic->lane_uses[lane->number].idle_ns,
						      memory_order_relaxed);

	return idle_ns ? idle_ns + LINGER_NS : VB_NEVER_NS;
}

/* The lanes that the service thread looks after: all but those with a thread of their own. */
static bool is_served_here(const struct vb_lane *lane)
{
	return !atomic_load_explicit(&lane->thread, memory_order_relaxed);
}

void vb_wire_service(struct vb_nic *nic, uint32_t woken)
{
	vb_lanes_for(lane, nic)
	{
		if (close_ns(lane) <= vb_now_ns())
			vb_wire_close_unused(lane);
		if (!is_served_here(lane))
			continue;
		vb_wire_service_lane(lane, woken >> lane->number & 1);
		if (lane->served >= SERVED_MANY && lane->number != VB_LANE_FIRST)
			vb_lane_thread_start(lane);
	}
}

uint64_t vb_wire_lane_next_ns(struct vb_lane *lane, uint64_t now_ns)
{
	uint32_t activity;
	uint64_t wake_ns;

	if (lane->again_ns || lane->doubtful)
		return now_ns + (lane->doubtful ? SOON_NS : lane->again_ns);
	wake_ns = lane->left ? VB_NEVER_NS : atomic_load(&lane->wake_ns);
	/* A busy program need not ring for each of its timers. */
	activity = atomic_load_explicit(&lane->activity, memory_order_relaxed);
	if ((lane->left || activity != lane->seen) && wake_ns > now_ns + VB_WIRE_TICK_NS)
		wake_ns = now_ns + VB_WIRE_TICK_NS;
	lane->seen = activity;
	return wake_ns;
}

uint64_t vb_wire_next_ns(struct vb_nic *nic, uint64_t now_ns)
{
	uint64_t next_ns = VB_NEVER_NS;

	vb_lanes_for(lane, nic)
	{
		const uint64_t lane_ns =
			is_served_here(lane) ? vb_wire_lane_next_ns(lane, now_ns) : VB_NEVER_NS;

		next_ns = lane_ns < next_ns ? lane_ns : next_ns;
		next_ns = close_ns(lane) < next_ns ? close_ns(lane) : next_ns;
	}
	return next_ns;
}

bool vb_wire_is_late(struct vb_lane *lane, uint64_t wake_ns)
{
	const uint64_t due_ns = atomic_load(&lane->wake_ns);

	return due_ns < VB_NEVER_NS - VB_WIRE_TICK_NS && due_ns + VB_WIRE_TICK_NS < wake_ns;
}

bool vb_wire_too_late(struct vb_nic *nic, uint64_t wake_ns)
{
	bool late = false;

	vb_lanes_for(lane, nic) late |= vb_wire_is_late(lane, wake_ns);
	return late;
}

bool vb_wire_left(struct vb_nic *nic)
{
	bool left = false;

	vb_lanes_for(lane, nic)
	{
		if (is_served_here(lane))
			left |= lane->left || lane->again_ns;
	}
	return left;
}

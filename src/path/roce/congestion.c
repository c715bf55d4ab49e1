/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/congestion.h"

enum {
	WINDOW_START_BYTES = 64 << 10,
	WINDOW_NEAR_BYTES =
		512 << 10,           /* most for a peer nearby, whose socket buffers it fills ... */
	WINDOW_BYTES_PER_US = 4096,  /* ... and per microsecond of a long way, which it fills ... */
	WINDOW_FAR_BYTES = 64 << 20, /* ... up to this, */
	WINDOW_FAR_MAX = 16384,      /* or so many packets */
	NEVER_CUT_256 = 1 << 28,     /* threshold of a window that was never cut */
	WINDOW_MIN_256 = 2 << 8,     /* after losses; a timeout goes down to one packet */
	WINDOW_LEAST_256 = 4,        /* after CNPs: a packet in 64 round trips */
	PATIENCE_MIN_NS = 200000,
	PATIENCE_UNKNOWN_NS = 1000000,
	LATE_MAX_NS = 10000000, /* no peer waits longer than this for a CPU */
	LATE_AGE_NS = 200000000,
	DOUBLINGS_MAX = 16,
	RTT_MIN_AGE_NS = 1000000000, /* the network may have changed since */
	QUEUE_NS = 2000000,          /* delay in queues that this sender may cause to others */
	FAR_NS = 2000000,            /* a long way ... */
	FAR_GROWTH = 64, /* ... and the part of its window that is added per round trip */
	LATELY_PACKETS = 1024,
	DAMAGE_MOST = 32, /* one packet of so many may be damaged without a cut */
	/* CNPs */
	CNP_AGE_NS = 50000000,   /* a switch that marked packets this long ago may do so again */
	CNP_LOSS_NS = 200000000, /* a loss confirms CNPs for so long ... */
	CNP_DELAY_NS = 40000000, /* ... and long round trips do for so long */
	CNP_QUEUE_NS = 4000,     /* delay in a queue that makes a round trip long */
	CNP_CREDIT = 16,         /* cuts by CNPs that nothing confirms ... */
	CNP_CREDIT_NS = 2000000, /* ... and the time in which one more is granted */
	LOW_SAMPLES = 2,         /* round trips of which the shortest counts */
	/* growth where a switch marks packets (gentle_step_64k) */
	GENTLE_BYTES = 1024,     /* per round trip ... */
	GENTLE_RTT_NS = 50000,   /* ... of this length */
	GENTLE_ROOT_SHIFT = 13,  /* at most 2 times the root of the window in bytes */
	GENTLE_PACKET_SHIFT = 4, /* at most 1/16 packet per packet that arrived */
	GENTLE_IDLE_NS = 250000, /* without CNPs and queue: as much again after each such time */
	GENTLE_IDLE_MAX = 15,
	PACED_256 = 8 << 8, /* windows below are kept by pauses */
};

static uint32_t at_least(uint32_t value, uint32_t least)
{
	return value < least ? least : value;
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
	return value > most ? most : value;
}

static uint64_t at_least_ns(uint64_t value_ns, uint64_t least_ns)
{
	return value_ns < least_ns ? least_ns : value_ns;
}

static uint64_t at_most_ns(uint64_t value_ns, uint64_t most_ns)
{
	return value_ns > most_ns ? most_ns : value_ns;
}

static uint32_t window_near(const struct vb_congestion *c)
{
	return at_most(at_least(WINDOW_NEAR_BYTES / c->mtu, 16), 512);
}

/*
 * The way itself holds bytes, as many as the shortest round trip takes at the highest rate. The
 * window may be so large, and socket buffers fill no more than with a peer nearby.
 */
static void way_measure(struct vb_congestion *c, uint64_t rtt_ns)
{
	uint64_t bytes;

	if (c->way_ns && rtt_ns >= c->way_ns)
		return;
	c->way_ns = rtt_ns;
	bytes = at_most_ns(rtt_ns / 1000 * WINDOW_BYTES_PER_US, WINDOW_FAR_BYTES);
	c->window_max = at_least(at_most((uint32_t)bytes / c->mtu, WINDOW_FAR_MAX), window_near(c));
}

void vb_congestion_init(struct vb_congestion *c, uint32_t mtu)
{
	*c = (struct vb_congestion){ .mtu = mtu, .threshold_256 = NEVER_CUT_256 };
	c->window_max = window_near(c);
	c->window_256 = at_least(WINDOW_START_BYTES / mtu, 8) << 8;
	if (c->window_256 > 64 << 8)
		c->window_256 = 64 << 8;
	c->unmarked_256 = c->window_256;
}

/* The shortest of the last few round trips: a peer that waited for a CPU does not show. */
static uint64_t rtt_low_ns(const struct vb_congestion *c)
{
	return c->low_before_ns ? at_most_ns(c->low_ns, c->low_before_ns) : c->low_ns;
}

/*
 * Where a switch marks packets, a small window is a pause between packets. It may be below one
 * packet then, and need not be a whole number of them.
 */
static void window_set(struct vb_congestion *c, uint32_t window_256)
{
	uint64_t rtt_ns = c->rtt_ns ? c->rtt_ns : GENTLE_RTT_NS;

	if (!c->gentle)
		window_256 = at_least(window_256, 1 << 8);
	c->window_256 = at_most(window_256, c->window_max << 8);
	c->gap_ns = c->gentle && c->window_256 < PACED_256 ? (rtt_ns << 8) / c->window_256 : 0;
}

static void low_measure(struct vb_congestion *c, uint64_t rtt_ns)
{
	if (c->low_samples++ < LOW_SAMPLES && c->low_ns) {
		c->low_ns = at_most_ns(c->low_ns, rtt_ns);
		return;
	}
	c->low_before_ns = c->low_ns;
	c->low_ns = rtt_ns;
	c->low_samples = 1;
}

/* True: round trips show a queue, as a CNP does. */
static bool is_delayed(const struct vb_congestion *c)
{
	return rtt_low_ns(c) > c->rtt_min_ns + c->rtt_min_ns / 4 + CNP_QUEUE_NS;
}

void vb_congestion_measured(struct vb_congestion *c, uint64_t rtt_ns, uint64_t now_ns)
{
	uint64_t off;

	c->doublings = 0;
	way_measure(c, rtt_ns);
	low_measure(c, rtt_ns);
	if (!c->rtt_min_ns || rtt_ns <= c->rtt_min_ns ||
	    now_ns - c->min_since_ns > RTT_MIN_AGE_NS) {
		c->rtt_min_ns = rtt_ns;
		c->min_since_ns = now_ns;
	}
	if (is_delayed(c))
		c->long_ns = now_ns;
	if (!c->rtt_ns) {
		c->rtt_ns = rtt_ns;
		c->rtt_variation_ns = rtt_ns / 2;
		return;
	}
	off = rtt_ns > c->rtt_ns ? rtt_ns - c->rtt_ns : c->rtt_ns - rtt_ns;
	c->rtt_variation_ns += (off >> 2) - (c->rtt_variation_ns >> 2);
	c->rtt_ns += (rtt_ns >> 3) - (c->rtt_ns >> 3);
}

/* True: queues have built up, and the window must not grow. */
static bool is_queueing(const struct vb_congestion *c)
{
	return c->rtt_ns > 2 * c->rtt_min_ns + QUEUE_NS;
}

/* True: a switch on the way marks packets. */
static bool marks_come(const struct vb_congestion *c, uint64_t now_ns)
{
	return c->marked_ns && now_ns - c->marked_ns < CNP_AGE_NS;
}

/* Packets per round trip. The window of a long way would need minutes to grow by one each time. */
static uint32_t growth_most(const struct vb_congestion *c)
{
	return c->way_ns > FAR_NS ? 1 + (c->window_256 >> 8) / FAR_GROWTH : 1;
}

/* True: round trips were long a moment ago. */
static bool is_long_lately(const struct vb_congestion *c, uint64_t now_ns)
{
	return c->long_ns && now_ns - c->long_ns < CNP_DELAY_NS;
}

static uint64_t square_root(uint64_t value)
{
	uint64_t root = 1ull << (64 - __builtin_clzll(value | 1)) / 2;

	for (unsigned i = 0; i < 3; i++)
		root = (root + value / root) / 2;
	return root;
}

/*
 * Where a switch marks packets, the rates of all flows grow by the same step in the same time,
 * whatever their round trips and packets are. So they become equal. The root keeps the sum of many
 * steps below the buffer of the switch: flows that share a link with many others have small
 * windows. Returns packets per round trip, times 2^16.
 */
static uint64_t gentle_step_64k(const struct vb_congestion *c)
{
	uint64_t rtt_256 = ((c->rtt_ns ? c->rtt_ns : GENTLE_RTT_NS) << 8) / GENTLE_RTT_NS;
	uint64_t bytes_256 = (uint64_t)c->window_256 * c->mtu;
	uint64_t most = square_root(bytes_256) << GENTLE_ROOT_SHIFT;

	return at_most_ns(GENTLE_BYTES * at_most_ns(rtt_256 * rtt_256, 1 << 24), most) / c->mtu;
}

static uint32_t gentle_growth_256(struct vb_congestion *c, uint32_t packets, uint64_t now_ns)
{
	uint64_t step = gentle_step_64k(c);

	if (!is_delayed(c))
		step *= 1 + at_most_ns((now_ns - c->marked_ns) / GENTLE_IDLE_NS, GENTLE_IDLE_MAX);
	step = at_most_ns(at_most_ns(step, (uint64_t)growth_most(c) << 16),
			  (uint64_t)c->window_256 << GENTLE_PACKET_SHIFT);
	step = (step << 16) * packets / c->window_256 + c->growth;
	c->growth = step & 0xffff;
	return (uint32_t)(step >> 16);
}

static uint32_t growth_256(struct vb_congestion *c, uint32_t packets, uint64_t now_ns)
{
	if (c->window_256 < c->threshold_256)
		return packets << 8;
	if (marks_come(c, now_ns))
		return gentle_growth_256(c, packets, now_ns);
	return (packets << 8) * growth_most(c) / vb_congestion_window(c) + 1;
}

static void note_acked(struct vb_congestion *c, uint32_t packets)
{
	c->lately_acked += packets;
	while (c->lately_acked > LATELY_PACKETS) {
		c->lately_acked /= 2;
		c->lately_lost /= 2;
	}
}

/* True: then_ns is within the last round trip. */
static bool within_round_trip(const struct vb_congestion *c, uint64_t then_ns, uint64_t now_ns)
{
	uint64_t pause_ns = c->rtt_ns > PATIENCE_MIN_NS / 4 ? c->rtt_ns : PATIENCE_MIN_NS / 4;

	return then_ns && now_ns - then_ns < pause_ns + c->gap_ns;
}

bool vb_congestion_acked_lately(const struct vb_congestion *c, uint64_t now_ns)
{
	return within_round_trip(c, c->acked_ns, now_ns);
}

/* Many ACKs, or answers of a READ, may come together, before the requester sends more. So the most
 * packets of a round trip count. */
static void peak_note(struct vb_congestion *c, uint32_t in_flight, uint64_t now_ns)
{
	if (now_ns - c->peak_ns > c->rtt_ns) {
		c->peak_before = c->peak;
		c->peak = 0;
		c->peak_ns = now_ns;
	}
	c->peak = at_least(c->peak, in_flight);
}

/* A window that is not used up does not show what the network can carry. */
static bool is_used_up(const struct vb_congestion *c)
{
	return at_least(c->peak, c->peak_before) >= vb_congestion_window(c) / 2;
}

void vb_congestion_acked(struct vb_congestion *c, uint32_t packets, uint32_t in_flight,
			 uint64_t now_ns)
{
	c->acked_ns = now_ns;
	note_acked(c, packets);
	peak_note(c, in_flight + packets, now_ns);
	c->gentle = marks_come(c, now_ns);
	if (!is_used_up(c) || is_queueing(c))
		return;
	c->unmarked_256 += (packets << 8) / at_least(c->unmarked_256 >> 8, 1) + 1;
	window_set(c, c->window_256 + growth_256(c, packets, now_ns));
	c->unmarked_256 = at_most(at_least(c->unmarked_256, c->window_256), c->window_max << 8);
}

static void window_cut(struct vb_congestion *c, uint32_t window_256, uint64_t now_ns)
{
	c->cut_ns = now_ns;
	c->threshold_256 = window_256;
	window_set(c, window_256);
}

/* Losses alone do not say that a packet per round trip is too much: CNPs do. */
static uint32_t least_256(const struct vb_congestion *c, uint64_t now_ns)
{
	return marks_come(c, now_ns) ? WINDOW_LEAST_256 : WINDOW_MIN_256;
}

/* True: there is a queue that may be full: CNPs or round trips show it. */
static bool queue_shows(const struct vb_congestion *c, uint64_t now_ns)
{
	return is_queueing(c) || marks_come(c, now_ns);
}

/* True: all losses of the last while may be damage, and no queue has built up. */
static bool loss_is_damage(const struct vb_congestion *c, uint64_t now_ns)
{
	return c->lately_lost * DAMAGE_MOST < c->lately_acked && !queue_shows(c, now_ns);
}

/* A cut by a CNP does not hide a loss: any host can send CNPs. */
bool vb_congestion_lost(struct vb_congestion *c, uint32_t packets, uint64_t now_ns)
{
	c->lately_lost += packets;
	if (loss_is_damage(c, now_ns) || within_round_trip(c, c->lost_ns, now_ns))
		return false;
	c->lost_ns = now_ns;
	c->unmarked_256 = at_least(c->unmarked_256 - c->unmarked_256 / 10 * 3, WINDOW_MIN_256);
	if (!within_round_trip(c, c->cut_ns, now_ns))
		window_cut(c,
			   at_least(c->window_256 - c->window_256 * 3 / 10, least_256(c, now_ns)),
			   now_ns);
	return true;
}

/*
 * A stranger can guess everything that a CNP carries. So it counts where losses or round trips show
 * queues, too. Other CNPs have a credit of a few cuts: queues may be short, and the round trip
 * without a queue may be unknown. Beyond that CNPs take half of the window that would be without
 * them, and no more.
 */
static bool cnp_is_proved(const struct vb_congestion *c, uint64_t now_ns)
{
	return is_long_lately(c, now_ns) || (c->lost_ns && now_ns - c->lost_ns < CNP_LOSS_NS);
}

static bool credit_take(struct vb_congestion *c, uint64_t now_ns)
{
	if (c->credit_ns + CNP_CREDIT * (uint64_t)CNP_CREDIT_NS < now_ns)
		c->credit_ns = now_ns - CNP_CREDIT * (uint64_t)CNP_CREDIT_NS;
	if (c->credit_ns + CNP_CREDIT_NS > now_ns)
		return false;
	c->credit_ns += CNP_CREDIT_NS;
	return true;
}

void vb_congestion_marked(struct vb_congestion *c, uint64_t now_ns)
{
	bool proved = cnp_is_proved(c, now_ns);
	uint32_t least = proved ? WINDOW_LEAST_256 : c->unmarked_256 / 2;

	c->marked_ns = now_ns;
	c->gentle = true;
	if (within_round_trip(c, c->cut_ns, now_ns))
		return;
	if (!proved && credit_take(c, now_ns))
		least = WINDOW_LEAST_256;
	if (c->window_256 <= least)
		return;
	window_cut(c, at_least(c->window_256 - c->window_256 / 4, least), now_ns);
	/* The credit is used up: the window goes back at once to what CNPs may not take. */
	if (!proved && c->credit_ns + CNP_CREDIT_NS > now_ns)
		c->threshold_256 = at_least(c->unmarked_256 / 2, c->window_256);
}

void vb_congestion_alarm(struct vb_congestion *c)
{
	c->before_256 = 0;
}

void vb_congestion_timeout(struct vb_congestion *c, uint64_t now_ns)
{
	c->lost_ns = now_ns;
	if (c->doublings < DOUBLINGS_MAX)
		c->doublings++;
	if (c->window_256 > 1 << 8) {
		c->before_256 = c->window_256;
		c->before_threshold_256 = c->threshold_256;
		c->before_unmarked_256 = c->unmarked_256;
		c->threshold_256 = at_least(c->window_256 / 2, least_256(c, now_ns));
		c->unmarked_256 = at_least(c->unmarked_256 / 2, WINDOW_MIN_256);
	}
	window_set(c, at_most(c->window_256, 1 << 8));
}

void vb_congestion_undo(struct vb_congestion *c)
{
	if (!c->before_256)
		return;
	window_set(c, c->before_256);
	c->threshold_256 = c->before_threshold_256;
	c->unmarked_256 = c->before_unmarked_256;
	c->before_256 = 0;
	c->lost_ns = 0;
}

void vb_congestion_late(struct vb_congestion *c, uint64_t silence_ns, uint64_t now_ns)
{
	uint64_t late_ns = silence_ns + silence_ns / 2;

	if (late_ns > LATE_MAX_NS)
		late_ns = LATE_MAX_NS;
	if (late_ns >= c->late_ns || now_ns - c->late_since_ns > LATE_AGE_NS) {
		c->late_ns = late_ns;
		c->late_since_ns = now_ns;
	}
}

/* Four round trips, where three of them count as LATE_MAX_NS at most. */
static uint64_t steady_ns(const struct vb_congestion *c)
{
	return c->rtt_ns + at_most_ns(3 * c->rtt_ns, LATE_MAX_NS);
}

uint64_t vb_congestion_patience_ns(const struct vb_congestion *c, uint64_t now_ns)
{
	uint64_t least_ns = PATIENCE_MIN_NS;

	if (!c->rtt_ns)
		return PATIENCE_UNKNOWN_NS;
	if (c->late_ns && now_ns - c->late_since_ns <= LATE_AGE_NS)
		least_ns = at_least_ns(c->late_ns, least_ns);
	least_ns = at_least_ns(steady_ns(c), least_ns);
	return at_least_ns(c->rtt_ns + 4 * c->rtt_variation_ns, least_ns);
}

uint64_t vb_congestion_patience_most_ns(const struct vb_congestion *c, uint64_t now_ns)
{
	return at_least_ns(steady_ns(c),
			   at_most_ns(4 * vb_congestion_patience_ns(c, now_ns), LATE_MAX_NS));
}

uint64_t vb_congestion_patience_now_ns(const struct vb_congestion *c, uint64_t now_ns)
{
	return vb_congestion_patience_ns(c, now_ns) << c->doublings;
}

/* --- the process --- */

enum {
	SHARE_START = 1 << 20,
	SHARE_MIN = 32 << 10,
	SHARE_MAX = 16 << 20,
	SHARE_STEP = 4096,        /* bytes of growth per limit_bytes that arrived */
	SHARE_PAUSE_NS = 1000000, /* between two cuts */
};

void vb_share_init(struct vb_share *share)
{
	*share = (struct vb_share){ .limit_bytes = SHARE_START };
}

void vb_share_acked(struct vb_share *share, uint64_t bytes)
{
	/* A limit that the QPs do not reach need not grow. */
	if (share->used_bytes + bytes < share->limit_bytes / 2)
		return;
	share->limit_bytes += SHARE_STEP * bytes / share->limit_bytes + 1;
	if (share->limit_bytes > SHARE_MAX)
		share->limit_bytes = SHARE_MAX;
}

void vb_share_lost(struct vb_share *share, uint64_t now_ns)
{
	if (share->cut_ns && now_ns - share->cut_ns < SHARE_PAUSE_NS)
		return;
	share->cut_ns = now_ns;
	share->limit_bytes -= share->limit_bytes / 8;
	if (share->limit_bytes < SHARE_MIN)
		share->limit_bytes = SHARE_MIN;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/congestion.h"

enum {
	WINDOW_START_BYTES = 64 << 10,
	WINDOW_NEAR_BYTES =
		512 << 10,           /* most for a peer nearby, whose socket buffers it fills ... */
	WINDOW_BYTES_PER_US = 4096,  /* ... and per microsecond of a long way, which it fills ... */
	WINDOW_FAR_BYTES = 64 << 20, /* ... up to this, */
	WINDOW_FAR_MAX = 16384,      /* or so many packets */
	NEVER_CUT = 1 << 20,         /* threshold of a window that was never cut */
	WINDOW_MIN = 2,              /* packets; a timeout goes down to one */
	PATIENCE_MIN_NS = 200000,
	PATIENCE_UNKNOWN_NS = 1000000,
	LATE_MAX_NS = 10000000, /* no peer waits longer than this for a CPU */
	LATE_AGE_NS = 200000000,
	DOUBLINGS_MAX = 16,
	RTT_MIN_AGE_NS = 1000000000, /* the network may have changed since */
	QUEUE_NS = 2000000,          /* delay in queues that this sender may cause to others */
	FAR_GROWTH = 64,             /* of a large window: its part per round trip */
	LATELY_PACKETS = 1024,
	DAMAGE_MOST = 32, /* one packet of so many may be damaged without a cut */
};

static uint32_t at_least(uint32_t value, uint32_t least)
{
	return value < least ? least : value;
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
	return value > most ? most : value;
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
	bytes = rtt_ns / 1000 * WINDOW_BYTES_PER_US;
	if (bytes > WINDOW_FAR_BYTES)
		bytes = WINDOW_FAR_BYTES;
	c->window_max = at_least(at_most((uint32_t)bytes / c->mtu, WINDOW_FAR_MAX), window_near(c));
}

void vb_congestion_init(struct vb_congestion *c, uint32_t mtu)
{
	*c = (struct vb_congestion){ .mtu = mtu, .threshold = NEVER_CUT };
	c->window_max = window_near(c);
	c->window_256 = at_least(WINDOW_START_BYTES / mtu, 8) << 8;
	if (c->window_256 > 64 << 8)
		c->window_256 = 64 << 8;
	c->unmarked_256 = c->window_256;
}

void vb_congestion_measured(struct vb_congestion *c, uint64_t rtt_ns, uint64_t now_ns)
{
	uint64_t off;

	c->doublings = 0;
	way_measure(c, rtt_ns);
	if (!c->rtt_min_ns || rtt_ns <= c->rtt_min_ns ||
	    now_ns - c->min_since_ns > RTT_MIN_AGE_NS) {
		c->rtt_min_ns = rtt_ns;
		c->min_since_ns = now_ns;
	}
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

/* Packets per round trip. A large window would need minutes to grow by one each time. */
static uint32_t growth(const struct vb_congestion *c, uint32_t window)
{
	return window > window_near(c) ? 1 + window / FAR_GROWTH : 1;
}

static void note_acked(struct vb_congestion *c, uint32_t packets)
{
	c->lately_acked += packets;
	while (c->lately_acked > LATELY_PACKETS) {
		c->lately_acked /= 2;
		c->lately_lost /= 2;
	}
}

void vb_congestion_acked(struct vb_congestion *c, uint32_t packets, uint32_t in_flight)
{
	uint32_t window = vb_congestion_window(c);

	note_acked(c, packets);
	/* A window that is not used up does not show what the network can carry. */
	if (in_flight + packets < window / 2 || is_queueing(c))
		return;
	c->unmarked_256 += (packets << 8) / at_least(c->unmarked_256 >> 8, 1) + 1;
	if (window < c->threshold)
		c->window_256 += packets << 8;
	else
		c->window_256 += (packets << 8) / at_least(window, 1) * growth(c, window) + 1;
	c->window_256 = at_most(c->window_256, c->window_max << 8);
	c->unmarked_256 = at_most(at_least(c->unmarked_256, c->window_256), c->window_max << 8);
}

/* True: then_ns is within the last round trip. */
static bool within_round_trip(const struct vb_congestion *c, uint64_t then_ns, uint64_t now_ns)
{
	uint64_t pause_ns = c->rtt_ns > PATIENCE_MIN_NS / 4 ? c->rtt_ns : PATIENCE_MIN_NS / 4;

	return then_ns && now_ns - then_ns < pause_ns;
}

static void window_cut(struct vb_congestion *c, uint32_t window, uint64_t now_ns)
{
	c->cut_ns = now_ns;
	c->threshold = at_least(window, WINDOW_MIN);
	c->window_256 = c->threshold << 8;
}

/* True: all losses of the last while may be damage, and no queue has built up. */
static bool loss_is_damage(const struct vb_congestion *c)
{
	return c->lately_lost * DAMAGE_MOST < c->lately_acked && !is_queueing(c);
}

/* A cut by a CNP does not hide a loss: any host can send CNPs. */
bool vb_congestion_lost(struct vb_congestion *c, uint32_t packets, uint64_t now_ns)
{
	uint32_t window = vb_congestion_window(c);

	c->lately_lost += packets;
	if (loss_is_damage(c) || within_round_trip(c, c->lost_ns, now_ns))
		return false;
	c->lost_ns = now_ns;
	c->unmarked_256 = at_least(c->unmarked_256 - c->unmarked_256 / 10 * 3, WINDOW_MIN << 8);
	if (!within_round_trip(c, c->cut_ns, now_ns))
		window_cut(c, window - window * 3 / 10, now_ns);
	return true;
}

/*
 * A stranger can guess everything that a CNP carries. Unless losses or round trips show queues too,
 * CNPs take half of the window that would be without them, and no more.
 */
void vb_congestion_marked(struct vb_congestion *c, uint64_t now_ns)
{
	uint32_t window = vb_congestion_window(c),
		 least = is_queueing(c) ? 0 : c->unmarked_256 >> 9;

	if (!within_round_trip(c, c->cut_ns, now_ns) && window > least)
		window_cut(c, at_least(window - window / 4, least), now_ns);
}

void vb_congestion_timeout(struct vb_congestion *c)
{
	uint32_t window = vb_congestion_window(c);

	if (c->doublings < DOUBLINGS_MAX)
		c->doublings++;
	if (window > 1) {
		c->before = window;
		c->before_threshold = c->threshold;
		c->before_unmarked_256 = c->unmarked_256;
		c->threshold = at_least(window / 2, WINDOW_MIN);
		c->unmarked_256 = at_least(c->unmarked_256 / 2, WINDOW_MIN << 8);
	}
	c->window_256 = 1 << 8;
}

void vb_congestion_undo(struct vb_congestion *c)
{
	if (!c->before)
		return;
	c->window_256 = c->before << 8;
	c->threshold = c->before_threshold;
	c->unmarked_256 = c->before_unmarked_256;
	c->before = 0;
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

static uint64_t at_least_ns(uint64_t value_ns, uint64_t least_ns)
{
	return value_ns < least_ns ? least_ns : value_ns;
}

static uint64_t at_most_ns(uint64_t value_ns, uint64_t most_ns)
{
	return value_ns > most_ns ? most_ns : value_ns;
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

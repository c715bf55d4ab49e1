/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window of a QP: the packets that it may have under way. The window grows while packets
 * arrive, and shrinks on loss, on CNPs and when round trips become long. Socket buffers are short:
 * a sender that fills one and then repeats everything makes such protocols collapse.
 */
#ifndef VB_PATH_ROCE_CONGESTION_H
#define VB_PATH_ROCE_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

struct vb_congestion {
	uint32_t mtu;
	uint32_t window_256;    /* packets, times 256 */
	uint32_t threshold_256; /* above it the window grows slowly */
	uint32_t window_max;    /* packets */
	uint64_t gap_ns;        /* pause between two packets; 0: none */
	uint32_t unmarked_256;  /* the window as it would be without CNPs */
	/* all before a timeout that may be a false alarm */
	uint32_t before_256, before_threshold_256, before_unmarked_256;
	uint64_t rtt_ns, rtt_variation_ns, rtt_min_ns; /* 0: not measured yet */
	uint64_t min_since_ns;                         /* time at which rtt_min_ns was measured */
	uint64_t low_ns, low_before_ns; /* shortest round trip of the last samples, and before */
	uint32_t low_samples;           /* in low_ns */
	uint64_t way_ns;            /* shortest round trip of the connection; 0: not measured yet */
	uint64_t acked_ns;          /* time of the last ACK */
	uint32_t peak, peak_before; /* most packets under way in this round trip, and before ... */
	uint64_t peak_ns;           /* ... and the time at which this one began */
	bool gentle;                /* a switch on the way marks packets */
	uint64_t marked_ns;         /* time of the last CNP */
	uint64_t long_ns;           /* time of the last long round trip */
	uint64_t credit_ns;         /* time up to which credit for CNPs is spent */
	uint32_t growth;            /* of the window, 2^-16 of 1/256 packet: what is left */
	uint64_t cut_ns;            /* time of the last cut of the window */
	uint64_t lost_ns;           /* time of the last loss that counted */
	uint64_t late_ns;           /* silence of the peer in which nothing was lost ... */
	uint64_t late_since_ns;     /* ... and its time */
	uint32_t lately_acked, lately_lost; /* packets of the last while */
	uint32_t doublings; /* of the patience: timeouts since a round trip was measured */
};

void vb_congestion_init(struct vb_congestion *c, uint32_t mtu);
void vb_congestion_measured(struct vb_congestion *c, uint64_t rtt_ns, uint64_t now_ns);
/* packets were acknowledged, in_flight are still under way. */
void vb_congestion_acked(struct vb_congestion *c, uint32_t packets, uint32_t in_flight,
			 uint64_t now_ns);
/* True: packets were acknowledged within the last round trip. */
bool vb_congestion_acked_lately(const struct vb_congestion *c, uint64_t now_ns);
/*
 * Packets were lost, or a CNP came: at most one cut per round trip. A few losses in many packets
 * are damage, not a full queue, and do not count. True: this loss counts.
 */
bool vb_congestion_lost(struct vb_congestion *c, uint32_t packets, uint64_t now_ns);
void vb_congestion_marked(struct vb_congestion *c, uint64_t now_ns);
/* The peer is silent for the first time: an undo goes back to no earlier time. */
void vb_congestion_alarm(struct vb_congestion *c);
/* The silence lasts: the window becomes one packet. Undo: the timeout was a false alarm. */
void vb_congestion_timeout(struct vb_congestion *c, uint64_t now_ns);
void vb_congestion_undo(struct vb_congestion *c);
/*
 * A false alarm after this silence: the peer waited for a CPU, and no packet was lost. For a while
 * the patience is longer than the silence was.
 */
void vb_congestion_late(struct vb_congestion *c, uint64_t silence_ns, uint64_t now_ns);
/* The silence that counts as a loss, for the first time. */
uint64_t vb_congestion_patience_ns(const struct vb_congestion *c, uint64_t now_ns);
/*
 * The same after timeouts. A packet that was sent twice gives no round trip, so a slower peer goes
 * unnoticed. Hence the doubled waits stay until a round trip is measured.
 */
uint64_t vb_congestion_patience_now_ns(const struct vb_congestion *c, uint64_t now_ns);
/* The limit of its growth if the QP's timeout is shorter: each try must have time to succeed. */
uint64_t vb_congestion_patience_most_ns(const struct vb_congestion *c, uint64_t now_ns);

/*
 * The share: the bytes that all QPs of the process together may have under way. A thousand windows
 * of one packet are still more than a socket holds.
 */
struct vb_share {
	uint64_t limit_bytes, used_bytes;
	uint64_t cut_ns;
};

void vb_share_init(struct vb_share *share);
void vb_share_acked(struct vb_share *share, uint64_t bytes);
void vb_share_lost(struct vb_share *share, uint64_t now_ns);

/* Of the bytes on a long way, those of VB_SHARE_WAY_NS count: only they can lie in a socket. */
enum { VB_SHARE_WAY_NS = 1000000 };
static inline uint64_t vb_share_bytes(const struct vb_congestion *c, uint64_t bytes)
{
	return __builtin_expect(c->way_ns <= VB_SHARE_WAY_NS, 1)
		       ? bytes
		       : bytes * VB_SHARE_WAY_NS / c->way_ns;
}

static inline bool vb_share_full(const struct vb_share *share)
{
	return share->used_bytes >= share->limit_bytes;
}

static inline uint32_t vb_congestion_window(const struct vb_congestion *c)
{
	return (c->window_256 + (c->gap_ns ? 255 : 0)) >> 8;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much a QP may have on its way: a window in packets that grows while all is well and shrinks on
 * loss, on CNPs and when round trips become long. Socket buffers are short, and going back over
 * everything that was sent into a full one is how such protocols collapse.
 */
#ifndef VB_PATH_ROCE_CONGESTION_H
#define VB_PATH_ROCE_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

struct vb_congestion {
	uint32_t window_256;   /* packets, times 256 */
	uint32_t threshold;    /* packets: above it the window grows slowly */
	uint32_t window_max;   /* packets */
	uint32_t unmarked_256; /* what the window would be if there had been no CNPs */
	uint32_t before, before_unmarked_256; /* both before a timeout that may be a false alarm */
	uint64_t rtt_ns, rtt_variation_ns, rtt_min_ns; /* 0: not measured yet */
	uint64_t min_since_ns;                         /* when rtt_min_ns was taken */
	uint64_t cut_ns;                               /* when the window was cut last */
	uint64_t lost_ns;                              /* when a loss was taken for one last */
	uint64_t late_ns;       /* the peer was once silent so long although nothing was lost ... */
	uint64_t late_since_ns; /* ... at this time */
	uint32_t doublings;     /* of the patience: timeouts since a round trip was measured */
};

void vb_congestion_init(struct vb_congestion *c, uint32_t mtu);
void vb_congestion_measured(struct vb_congestion *c, uint64_t rtt_ns, uint64_t now_ns);
/* packets were acknowledged while in_flight were out. */
void vb_congestion_acked(struct vb_congestion *c, uint32_t packets, uint32_t in_flight);
/* A packet was lost, or a CNP came: at most one cut per round trip. */
void vb_congestion_lost(struct vb_congestion *c, uint64_t now_ns);
void vb_congestion_marked(struct vb_congestion *c, uint64_t now_ns);
/* Nothing was heard for long: one packet at a time; and: it was a false alarm. */
void vb_congestion_timeout(struct vb_congestion *c);
void vb_congestion_undo(struct vb_congestion *c);
/*
 * A false alarm after so long a silence: the peer waited for a CPU, not we for a packet. It is not
 * repeated for a while.
 */
void vb_congestion_late(struct vb_congestion *c, uint64_t silence_ns, uint64_t now_ns);
/* How long silence must last to be taken for a loss, for the first time. */
uint64_t vb_congestion_patience_ns(const struct vb_congestion *c, uint64_t now_ns);
/*
 * The same after timeouts. What was sent twice tells no round trip, so that a peer which has become
 * slower is not noticed: longer waits stay until there is one.
 */
uint64_t vb_congestion_patience_now_ns(const struct vb_congestion *c, uint64_t now_ns);
/* What it may grow to where the QP's timeout is shorter: each try is to be one that can succeed. */
uint64_t vb_congestion_patience_most_ns(const struct vb_congestion *c, uint64_t now_ns);

/*
 * What all QPs of the process together may have on their way. A thousand windows of one packet are
 * still more than a socket holds.
 */
struct vb_share {
	uint64_t limit_bytes, used_bytes;
	uint64_t cut_ns;
};

void vb_share_init(struct vb_share *share);
void vb_share_acked(struct vb_share *share, uint64_t bytes);
void vb_share_lost(struct vb_share *share, uint64_t now_ns);

static inline bool vb_share_full(const struct vb_share *share)
{
	return share->used_bytes >= share->limit_bytes;
}

static inline uint32_t vb_congestion_window(const struct vb_congestion *c)
{
	return c->window_256 >> 8;
}

#endif

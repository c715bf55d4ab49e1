/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets overtake each other. The tolerance is the number of packets that may come behind a
 * missing one before it counts as lost. A repetition that was not needed makes the tolerance
 * larger. It becomes smaller again while nothing of that kind happens.
 *
 * A packet that comes twice shows no more than that somebody sent it twice: a requester that went
 * back, or that missed an ACK. The tolerance is too small where the receiver had called the packet
 * missing, and it comes twice after that.
 */
#ifndef VB_PATH_ROCE_TOLERANCE_H
#define VB_PATH_ROCE_TOLERANCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	VB_TOLERANCE_MIN = 3,
	VB_TOLERANCE_MAX = 192,
	VB_TOLERANCE_CALM = 256,
	VB_TOLD_MAX = 64,
};

struct vb_tolerance {
	uint32_t more; /* packets above VB_TOLERANCE_MIN */
	uint32_t calm; /* packets since the last repetition that was not needed */
};

/* PSNs that were called missing lately: 1 + PSN each, at an index that follows from the PSN. */
struct vb_told {
	uint32_t psn_1[VB_TOLD_MAX];
	bool fresh; /* no repetition was needless since a PSN was called missing */
};

static inline void vb_told_add(struct vb_told *told, uint32_t psn)
{
	told->psn_1[psn % VB_TOLD_MAX] = psn + 1;
	told->fresh = true;
}

static inline bool vb_told_take(struct vb_told *told, uint32_t psn)
{
	if (told->psn_1[psn % VB_TOLD_MAX] != psn + 1)
		return false;
	told->psn_1[psn % VB_TOLD_MAX] = 0;
	return true;
}

static inline uint32_t vb_tolerance_packets(const struct vb_tolerance *tolerance)
{
	return VB_TOLERANCE_MIN + tolerance->more;
}

static inline void vb_tolerance_needless(struct vb_tolerance *tolerance)
{
	tolerance->calm = 0;
	tolerance->more += 2 + tolerance->more / 4;
	if (tolerance->more > VB_TOLERANCE_MAX)
		tolerance->more = VB_TOLERANCE_MAX;
}

/* Packets have come as they should. */
static inline void vb_tolerance_calm(struct vb_tolerance *tolerance, uint32_t packets)
{
	if (__builtin_expect(!tolerance->more, 1))
		return;
	tolerance->calm += packets;
	if (tolerance->calm < VB_TOLERANCE_CALM)
		return;
	tolerance->calm = 0;
	tolerance->more -= (tolerance->more + 7) / 8;
}

#endif

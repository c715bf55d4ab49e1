/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers of READs overtake each other. The tolerance is the number of answers that may come behind
 * a missing one before it counts as lost. A repetition that was not needed makes the tolerance
 * larger. It becomes smaller again while nothing of that kind happens.
 */
#ifndef VB_PATH_ROCE_TOLERANCE_H
#define VB_PATH_ROCE_TOLERANCE_H

#include <stdint.h>

enum { VB_TOLERANCE_MIN = 3, VB_TOLERANCE_MAX = 192, VB_TOLERANCE_CALM = 256 };

struct vb_tolerance {
	uint32_t more; /* packets above VB_TOLERANCE_MIN */
	uint32_t calm; /* packets since the last repetition that was not needed */
};

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

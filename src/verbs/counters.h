/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters objects: places that flows count into. A program attaches points, each with its place,
 * before it binds the object to a flow. Several flows, and several points of one flow, may add to
 * the same place.
 */
#ifndef VB_VERBS_COUNTERS_H
#define VB_VERBS_COUNTERS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"

enum { VB_COUNTERS_MAX = 64 /* places */, VB_COUNTER_POINTS_MAX = 256 };

struct vb_counter_point {
	uint8_t description; /* enum ibv_counter_description */
	uint8_t index;
};

struct vb_counters {
	struct ibv_counters ibv; /* first */
	_Atomic uint32_t flows;  /* bound flows; while there are any, nothing can be attached */
	uint32_t point_count, place_count;
	struct vb_counter_point points[VB_COUNTER_POINTS_MAX];
	_Atomic uint64_t values[VB_COUNTERS_MAX];
};

static inline struct vb_counters *vb_counters(struct ibv_counters *ibv)
{
	return vb_container(ibv, struct vb_counters, ibv);
}

/* A flow matched packets: adds them to all points. */
void vb_counters_add(struct vb_counters *counters, uint64_t packets, uint64_t bytes);

#endif

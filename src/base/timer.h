/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers of many QPs, in a heap. The heap is touched only when a timer is set to an earlier time,
 * or fires. A later time is only noted in the timer: nearly every ACK sets one.
 */
#ifndef VB_BASE_TIMER_H
#define VB_BASE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct vb_timer {
	uint64_t due_ns;   /* VB_NEVER_NS: not set */
	uint64_t filed_ns; /* the time by which the heap has sorted the timer */
	uint32_t place;    /* index in the heap, from 1; 0: not in the heap */
};

struct vb_timers {
	struct vb_timer **heap; /* heap[0] is not used */
	uint32_t count, room;
};

void vb_timers_fini(struct vb_timers *timers);
/* Makes room for total timers; called as each one is made, so that vb_timer_set cannot fail.
 * -ENOMEM. */
int vb_timers_reserve(struct vb_timers *timers, uint32_t total);
void vb_timer_set(struct vb_timers *timers, struct vb_timer *timer, uint64_t due_ns);
void vb_timer_remove(struct vb_timers *timers, struct vb_timer *timer);
/* Takes a timer that is due, which is no longer set then; NULL: no timer is due. */
struct vb_timer *vb_timers_pop(struct vb_timers *timers, uint64_t now_ns);
/* The earliest time at which a timer may be due: not later than the earliest timer. Each poll
 * asks. */
static inline uint64_t vb_timers_next_ns(const struct vb_timers *timers)
{
	return timers->count ? timers->heap[1]->filed_ns : VB_NEVER_NS;
}

#endif

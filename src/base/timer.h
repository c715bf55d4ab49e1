/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers of many QPs: a heap that is touched when a timer is set earlier or fires. Setting it
 * later only notes the new time, which is what nearly every ACK does.
 */
#ifndef VB_BASE_TIMER_H
#define VB_BASE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct vb_timer {
	uint64_t due_ns;   /* VB_NEVER_NS: not set */
	uint64_t filed_ns; /* under which it is in the heap */
	uint32_t place;    /* in the heap, from 1; 0: not there */
};

struct vb_timers {
	struct vb_timer **heap; /* heap[0] is not used */
	uint32_t count, room;
};

void vb_timers_fini(struct vb_timers *timers);
/* Room for one more timer; called once per timer, so that setting it cannot fail. -ENOMEM. */
int vb_timers_reserve(struct vb_timers *timers, uint32_t total);
void vb_timer_set(struct vb_timers *timers, struct vb_timer *timer, uint64_t due_ns);
void vb_timer_remove(struct vb_timers *timers, struct vb_timer *timer);
/* A timer that is due, no longer set; NULL: none is. */
struct vb_timer *vb_timers_pop(struct vb_timers *timers, uint64_t now_ns);
/* Not later than the earliest timer. */
uint64_t vb_timers_next_ns(const struct vb_timers *timers);

#endif

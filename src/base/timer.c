/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

void vb_timers_fini(struct vb_timers *timers)
{
	free(timers->heap);
	*timers = (struct vb_timers){ 0 };
}

int vb_timers_reserve(struct vb_timers *timers, uint32_t total)
{
	uint32_t room = timers->room ? timers->room : 16;
	struct vb_timer **heap;

	if (total < timers->room)
		return 0;
	while (room <= total)
		room *= 2;
	heap = realloc(timers->heap, room * sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	timers->heap = heap;
	timers->room = room;
	return 0;
}

static void heap_put(struct vb_timers *timers, uint32_t place, struct vb_timer *timer)
{
	timers->heap[place] = timer;
	timer->place = place;
}

static void heap_rise(struct vb_timers *timers, uint32_t place)
{
	struct vb_timer *timer = timers->heap[place];

	for (; place > 1 && timers->heap[place / 2]->filed_ns > timer->filed_ns; place /= 2)
		heap_put(timers, place, timers->heap[place / 2]);
	heap_put(timers, place, timer);
}

static void heap_sink(struct vb_timers *timers, uint32_t place)
{
	struct vb_timer *timer = timers->heap[place];
	uint32_t child;

	for (; (child = 2 * place) <= timers->count; place = child) {
		if (child < timers->count &&
		    timers->heap[child + 1]->filed_ns < timers->heap[child]->filed_ns)
			child++;
		if (timers->heap[child]->filed_ns >= timer->filed_ns)
			break;
		heap_put(timers, place, timers->heap[child]);
	}
	heap_put(timers, place, timer);
}

void vb_timer_set(struct vb_timers *timers, struct vb_timer *timer, uint64_t due_ns)
{
	timer->due_ns = due_ns;
	/* Later, or never: vb_timers_pop notices when the filed time comes. */
	if (timer->place && due_ns >= timer->filed_ns)
		return;
	if (due_ns == VB_NEVER_NS)
		return;
	timer->filed_ns = due_ns;
	if (!timer->place)
		heap_put(timers, ++timers->count, timer);
	heap_rise(timers, timer->place);
}

void vb_timer_remove(struct vb_timers *timers, struct vb_timer *timer)
{
	uint32_t place = timer->place;
	struct vb_timer *last;

	if (!place)
		return;
	timer->place = 0;
	last = timers->heap[timers->count--];
	if (last == timer)
		return;
	heap_put(timers, place, last);
	heap_rise(timers, place);
	heap_sink(timers, last->place);
}

struct vb_timer *vb_timers_pop(struct vb_timers *timers, uint64_t now_ns)
{
	while (timers->count && timers->heap[1]->filed_ns <= now_ns) {
		struct vb_timer *timer = timers->heap[1];
		uint64_t due_ns = timer->due_ns;

		vb_timer_remove(timers, timer);
		if (due_ns <= now_ns) {
			timer->due_ns = VB_NEVER_NS;
			return timer;
		}
		vb_timer_set(timers, timer, due_ns);
	}
	return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim.h"

#include <stdlib.h>

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void push(struct world *world, struct event event)
{
	unsigned at = world->heap_count++;

	if (world->heap_count > world->heap_room) {
		world->heap_room = world->heap_room ? 2 * world->heap_room : 256;
		world->heap = realloc(world->heap, world->heap_room * sizeof(event));
		if (!world->heap)
			abort();
	}
	event.order = world->order++;
	for (; at && before(&event, &world->heap[(at - 1) / 2]); at = (at - 1) / 2)
		world->heap[at] = world->heap[(at - 1) / 2];
	world->heap[at] = event;
}

void event_add(struct world *world, uint64_t at_ns, enum event_kind kind, void *subject)
{
	push(world, (struct event){ .at_ns = at_ns, .kind = kind, .subject = subject });
}

void event_add_action(struct world *world, uint64_t at_ns, enum action action, struct end *end)
{
	push(world,
	     (struct event){
		     .at_ns = at_ns, .kind = EVENT_ACTION, .action = action, .subject = end });
}

bool event_next(const struct world *world, uint64_t *at_ns)
{
	if (!world->heap_count)
		return false;
	*at_ns = world->heap[0].at_ns;
	return true;
}

struct event event_pop(struct world *world)
{
	struct event top = world->heap[0], last = world->heap[--world->heap_count];
	unsigned at = 0, child;

	for (; (child = 2 * at + 1) < world->heap_count; at = child) {
		if (child + 1 < world->heap_count &&
		    before(&world->heap[child + 1], &world->heap[child]))
			child++;
		if (!before(&world->heap[child], &last))
			break;
		world->heap[at] = world->heap[child];
	}
	world->heap[at] = last;
	return top;
}

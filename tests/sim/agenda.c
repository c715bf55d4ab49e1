/* SPDX-License-Identifier: BSD-2-Clause */
#include "agenda.h"

#include <stdlib.h>

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void make_room(struct agenda *agenda)
{
	if (agenda->count < agenda->room)
		return;
	agenda->room = agenda->room ? 2 * agenda->room : 256;
	agenda->heap = realloc(agenda->heap, agenda->room * sizeof(*agenda->heap));
	if (!agenda->heap)
		abort();
}

void agenda_add(struct agenda *agenda, uint64_t at_ns, unsigned kind, unsigned action,
		void *subject)
{
	const struct event event = { at_ns, agenda->order++, kind, action, subject };
	unsigned at;

	make_room(agenda);
	for (at = agenda->count++; at && before(&event, &agenda->heap[(at - 1) / 2]);
	     at = (at - 1) / 2)
		agenda->heap[at] = agenda->heap[(at - 1) / 2];
	agenda->heap[at] = event;
}

bool agenda_next(const struct agenda *agenda, uint64_t *at_ns)
{
	if (!agenda->count)
		return false;
	*at_ns = agenda->heap[0].at_ns;
	return true;
}

struct event agenda_pop(struct agenda *agenda)
{
	const struct event top = agenda->heap[0], last = agenda->heap[--agenda->count];
	unsigned at = 0, child;

	for (; (child = 2 * at + 1) < agenda->count; at = child) {
		if (child + 1 < agenda->count &&
		    before(&agenda->heap[child + 1], &agenda->heap[child]))
			child++;
		if (!before(&agenda->heap[child], &last))
			break;
		agenda->heap[at] = agenda->heap[child];
	}
	agenda->heap[at] = last;
	return top;
}

void agenda_fini(struct agenda *agenda)
{
	free(agenda->heap);
	*agenda = (struct agenda){ 0 };
}

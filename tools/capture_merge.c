/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of several processes wait here a moment, and leave in the order of their times. */
#include <stdlib.h>
#include <string.h>

#include "capture.h"

void merge_add(struct merge *merge, struct vb_source *source, const struct vb_capture_frame *frame,
	       const char *comment)
{
	const size_t text = strlen(comment) + 1;
	struct held *held;

	if (merge->count == merge->room) {
		size_t room = merge->room ? 2 * merge->room : 1024;
		struct held **list = realloc(merge->list, room * sizeof(*list));

		if (!list)
			return;
		merge->list = list;
		merge->room = room;
	}
	held = malloc(sizeof(*held) + frame->kept);
	if (!held)
		return;
	held->time_ns = frame->time_ns;
	held->order = merge->order++;
	held->source = source;
	held->out = frame->out;
	held->src_qpn = frame->src_qpn;
	held->dest_qpn = frame->dest_qpn;
	held->wr_id = frame->wr_id;
	held->kept = frame->kept;
	held->length = frame->length;
	memcpy(held->comment, comment, text);
	memcpy(held->bytes, frame->bytes, frame->kept);
	merge->list[merge->count++] = held;
}

struct held *merge_find(struct merge *merge, const struct vb_source *source,
			const struct vb_capture_note *note)
{
	for (size_t i = merge->count; i; i--) {
		struct held *held = merge->list[i - 1];

		if (held->source == source &&
		    (held->src_qpn == note->qpn || held->dest_qpn == note->qpn) &&
		    held->wr_id == note->wr_id)
			return held;
	}
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	const struct held *x = *(struct held *const *)a, *y = *(struct held *const *)b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

bool merge_flush(struct merge *merge, uint64_t until_ns, held_write *write, void *arg)
{
	bool going = true;
	size_t done = 0;

	if (merge->count)
		qsort(merge->list, merge->count, sizeof(*merge->list), by_time);
	while (going && done < merge->count && merge->list[done]->time_ns <= until_ns) {
		going = write(arg, merge->list[done]);
		free(merge->list[done++]);
	}
	merge->count -= done;
	memmove(merge->list, merge->list + done, merge->count * sizeof(*merge->list));
	return going;
}

void merge_free(struct merge *merge)
{
	for (size_t i = 0; i < merge->count; i++)
		free(merge->list[i]);
	free(merge->list);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "delay_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int delay_line_open(struct delay_line *line, size_t capacity)
{
	*line = (struct delay_line){ .capacity = capacity };
	line->heap = calloc(capacity, sizeof(*line->heap));
	return line->heap ? 0 : -ENOMEM;
}

void delay_line_close(struct delay_line *line)
{
	for (size_t i = 0; i < line->count; i++)
		free(line->heap[i].bytes);
	free(line->heap);
}

static bool is_before(const struct delayed *a, const struct delayed *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void swap(struct delayed *a, struct delayed *b)
{
	struct delayed other = *a;

	*a = *b;
	*b = other;
}

static void sift_up(struct delayed *heap, size_t at)
{
	for (; at && is_before(&heap[at], &heap[(at - 1) / 2]); at = (at - 1) / 2)
		swap(&heap[at], &heap[(at - 1) / 2]);
}

static void sift_down(struct delayed *heap, size_t count)
{
	for (size_t at = 0, child; (child = at * 2 + 1) < count; at = child) {
		if (child + 1 < count && is_before(&heap[child + 1], &heap[child]))
			child++;
		if (!is_before(&heap[child], &heap[at]))
			return;
		swap(&heap[child], &heap[at]);
	}
}

bool delay_line_put(struct delay_line *line, const uint8_t *frame, size_t length, uint64_t due_ns)
{
	uint8_t *bytes;

	if (line->count == line->capacity || !(bytes = malloc(length)))
		return false;
	memcpy(bytes, frame, length);
	line->heap[line->count] = (struct delayed){ due_ns, line->numbers++, length, bytes };
	sift_up(line->heap, line->count++);
	return true;
}

bool delay_line_take(struct delay_line *line, uint64_t now_ns, struct delayed *out)
{
	if (!line->count || line->heap[0].due_ns > now_ns)
		return false;
	*out = line->heap[0];
	line->heap[0] = line->heap[--line->count];
	sift_down(line->heap, line->count);
	return true;
}

uint64_t delay_line_next_ns(const struct delay_line *line)
{
	return line->count ? line->heap[0].due_ns : UINT64_MAX;
}

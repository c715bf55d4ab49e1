/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames on their way: a heap by due time, first in first out among equals. Bounded. */
#ifndef NET_DELAY_LINE_H
#define NET_DELAY_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct delayed {
	uint64_t due_ns, number;
	size_t length;
	uint8_t *bytes; /* owned */
};

struct delay_line {
	struct delayed *heap; /* owned; [0] is due first */
	size_t count, capacity;
	uint64_t numbers; /* handed out so far */
};

int delay_line_open(struct delay_line *line, size_t capacity);
void delay_line_close(struct delay_line *line);

/* Copies the frame; false if the line is full or memory is short. */
bool delay_line_put(struct delay_line *line, const uint8_t *frame, size_t length, uint64_t due_ns);

/* Takes the first frame that is due; the caller frees its bytes. */
bool delay_line_take(struct delay_line *line, uint64_t now_ns, struct delayed *out);

/* When the next one is due; UINT64_MAX: none. */
uint64_t delay_line_next_ns(const struct delay_line *line);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A delay line: packets that are held back, by fault rules or until their QP or process exists, in
 * the order in which they become due. The line is bounded, has no thread, and gets the time as an
 * argument. Its owner locks it.
 */
#ifndef VB_BASE_DELAY_LINE_H
#define VB_BASE_DELAY_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct vb_delay_line {
	struct vb_list packets; /* in order of due_ns, then of arrival */
	unsigned count, count_max;
	size_t bytes, bytes_max;
	uint64_t refused; /* packets that came when the line was full */
};

/* One packet. bytes and context are copies, in the same allocation. */
struct vb_delayed {
	struct vb_list node;
	uint64_t due_ns;
	uint32_t flow;       /* packets of the same flow (such as a QPN) may overtake this one */
	bool overtaken_ends; /* the packet is due as soon as another one has overtaken it */
	uint32_t length, context_length;
	uint8_t *bytes;
	void *context; /* aligned for anything */
};

/* A packet, as the caller hands it over. */
struct vb_delay_input {
	const void *bytes;
	uint32_t length;
	const void *context; /* the packet's destination or origin; may be NULL */
	uint32_t context_length;
	uint32_t flow;
	uint64_t due_ns;
	bool until_overtaken; /* for reordering; due_ns is then the latest time */
};

void vb_delay_line_init(struct vb_delay_line *line, unsigned count_max, size_t bytes_max);
void vb_delay_line_fini(struct vb_delay_line *line);

/* 0, -ENOBUFS when the line is full, -ENOMEM. */
int vb_delay_push(struct vb_delay_line *line, const struct vb_delay_input *input);
/* A packet of the flow has gone by: packets that waited to be overtaken are due now. */
void vb_delay_pass(struct vb_delay_line *line, uint32_t flow, uint64_t now_ns);
/* The next packet that is due, or NULL; the caller frees it. */
struct vb_delayed *vb_delay_pop_due(struct vb_delay_line *line, uint64_t now_ns);
/* Removes this packet, due or not; the caller frees it. */
void vb_delay_take(struct vb_delay_line *line, struct vb_delayed *packet);
/* The time at which the next packet is due; VB_NEVER_NS: the line is empty. */
uint64_t vb_delay_next_due_ns(const struct vb_delay_line *line);

#endif

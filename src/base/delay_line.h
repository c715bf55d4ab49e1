/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A delay line: packets that are held back, by rules or until their QP or process is there, in the
 * order in which they become due. Bounded, no threads, time is an argument; its owner locks it.
 */
#ifndef VB_BASE_DELAY_LINE_H
#define VB_BASE_DELAY_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct vb_delay_line {
	struct vb_list packets; /* by due_ns, then as they came */
	unsigned count, count_max;
	size_t bytes, bytes_max;
	uint64_t refused; /* pushed when it was full */
};

/* One packet. bytes and context are its own copies, behind it. */
struct vb_delayed {
	struct vb_list node;
	uint64_t due_ns;
	uint32_t flow;       /* whose packets may overtake it, such as a QPN */
	bool overtaken_ends; /* due at once when one of them has */
	uint32_t length, context_length;
	uint8_t *bytes;
	void *context; /* aligned for anything */
};

/* What the caller gives. */
struct vb_delay_input {
	const void *bytes;
	uint32_t length;
	const void *context; /* where it was to go or came from; may be NULL */
	uint32_t context_length;
	uint32_t flow;
	uint64_t due_ns;
	bool until_overtaken; /* reorder; due_ns is then the latest time */
};

void vb_delay_line_init(struct vb_delay_line *line, unsigned count_max, size_t bytes_max);
void vb_delay_line_fini(struct vb_delay_line *line);

/* 0, -ENOBUFS when it is full, -ENOMEM. */
int vb_delay_push(struct vb_delay_line *line, const struct vb_delay_input *input);
/* A packet of the flow has gone by: what waited to be overtaken is due now. */
void vb_delay_pass(struct vb_delay_line *line, uint32_t flow, uint64_t now_ns);
/* The next that is due, or NULL; the caller frees it. */
struct vb_delayed *vb_delay_pop_due(struct vb_delay_line *line, uint64_t now_ns);
/* This one, whenever it is due; the caller frees it. */
void vb_delay_take(struct vb_delay_line *line, struct vb_delayed *packet);
/* When the next one is due; VB_NEVER_NS: there is none. */
uint64_t vb_delay_next_due_ns(const struct vb_delay_line *line);

#endif

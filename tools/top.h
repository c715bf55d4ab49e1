/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena top: the queue pairs of all processes by their traffic.
 *
 *	top.c         options, keys, the loop
 *	top_sample.c  two answers of each process become rates
 *	top_print.c   a screen, or JSON
 */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include <stdbool.h>
#include <stddef.h>

#include "resources.h"

enum top_sort { TOP_BYTES, TOP_MESSAGES, TOP_WAITING, TOP_PID, TOP_SORTS };

/* A queue pair, and what it did in the last interval. */
struct top_row {
	pid_t pid, peer; /* peer: 0: another host, or none */
	char program[NAME_SIZE];
	const struct vb_describe_record *record; /* of the newer sample */
	double sent, received;                   /* messages a second */
	double bytes_out, bytes_in;              /* bytes a second */
	double waits_s;                          /* the send queue has not moved for so long */
};

/* A process, likewise: packets of the wire. */
struct top_process {
	const struct vb_asked_process *process;
	char program[NAME_SIZE];
	double packets_out, packets_in, repeated, rnr_naks, dropped; /* a second */
};

/* How long a queue has waited: by QPN, from sample to sample. */
struct top_wait {
	uint32_t qpn, sent;
	double since_s;
};

struct top_sample {
	struct vb_asked_processes *older, *newer; /* owned */
	double older_s, newer_s;                  /* when they were taken */
	struct top_row *rows;                     /* owned */
	size_t row_count;
	struct top_process *processes; /* owned */
	size_t process_count;
	struct top_wait *waits; /* owned */
	size_t wait_count;
};

/* --- top_sample.c --- */

/* Asks once more. False, after a complaint: it cannot be done. */
bool sample_take(struct top_sample *sample, pid_t pid);
void sample_sort(struct top_sample *sample, enum top_sort sort);
void sample_free(struct top_sample *sample);
double top_now_s(void);

/* --- top_print.c --- */

/* lines, columns: of the screen; 0: no limit. */
void screen_print(const struct top_sample *sample, enum top_sort sort, unsigned lines,
		  unsigned columns);
void top_print_json(const struct top_sample *sample);
const char *wait_words(const struct vb_describe_record *record);

#endif

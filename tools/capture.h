/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena capture: the traffic of this user's processes as a file of packets.
 *
 *	capture.c          options, the loop
 *	capture_comment.c  the comment of each packet
 *	capture_merge.c    packets of all processes in the order of their times
 *	capture_file.c     pcapng
 *	capture_extcap.c   the same as an interface of Wireshark
 */
#ifndef TOOLS_CAPTURE_H
#define TOOLS_CAPTURE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "capture/frame.h"
#include "capture/reader.h"
#include "engine/attach/sources.h"

enum { COMMENT_SIZE = 640, CAPTURE_BYTES = 64, DEVICE_GIDS = 256 };

/* What the user asked for. */
struct capture_options {
	const char *output; /* NULL: standard output */
	pid_t pid;          /* 0: all processes */
	int64_t qpn;        /* -1: all QPs */
	const char *device; /* NULL: all devices */
	uint32_t bytes;     /* of payload, to keep of each packet */
	uint64_t count;     /* packets to write; 0: no limit */
	double seconds;     /* 0: no limit */
	bool quiet;
	char **program; /* to run; NULL: none */
};

/* --- capture_comment.c --- */

/* The work requests of the wire, by their PSNs: a process tells of them. */
enum { NOTE_BUCKETS = 256, NOTES = 64, FAILURES = 16 };
struct capture_notes {
	struct {
		struct vb_capture_note list[NOTES];
		unsigned next;
	} buckets[NOTE_BUCKETS];
	/* Sentences that no packet has yet. */
	struct capture_failure {
		struct vb_capture_note note;
		char text[VB_CAPTURE_TEXT + 1];
	} failures[FAILURES];
	unsigned failure_count;
};

/* --- capture_comment.c --- */

void notes_take(struct vb_source *source, const struct vb_capture_head *record);
/* Finds the work request of a packet of the wire, if the process has told of it. */
void notes_find(const struct vb_source *source, struct vb_capture_frame *frame, const uint8_t *bth);
/* The sentence of a failure that belongs to this packet, and is told once; NULL: none. */
const char *notes_failure(struct vb_source *source, const struct vb_capture_frame *frame);
void comment_write(const struct vb_sources *sources, const struct vb_source *source,
		   const struct vb_capture_frame *frame, char comment[COMMENT_SIZE]);

/* --- capture_merge.c --- */

struct held {
	uint64_t time_ns, order;
	struct vb_source *source;
	bool out;
	uint32_t src_qpn, dest_qpn;
	uint64_t wr_id;
	uint32_t kept, length;
	char comment[COMMENT_SIZE];
	uint8_t bytes[];
};

struct merge {
	struct held **list; /* owned */
	size_t count, room;
	uint64_t order;
};

void merge_add(struct merge *merge, struct vb_source *source, const struct vb_capture_frame *frame,
	       const char *comment);
/* The packet of that work request that is not written yet, the last one; NULL: none. */
struct held *merge_find(struct merge *merge, const struct vb_source *source,
			const struct vb_capture_note *note);
/* Gives out all packets up to a time; false: write has refused one. */
typedef bool held_write(void *arg, struct held *held);
bool merge_flush(struct merge *merge, uint64_t until_ns, held_write *write, void *arg);
void merge_free(struct merge *merge);

/* --- capture_file.c --- */

struct capture_file {
	FILE *file;
	unsigned interfaces;
	int64_t realtime_ns; /* CLOCK_REALTIME minus CLOCK_MONOTONIC */
};

bool file_open(struct capture_file *file, const char *path);
bool file_packet(struct capture_file *file, struct held *held);
/* The counts of a process, and sentences that found no packet. */
void file_statistics(struct capture_file *file, struct vb_source *source);
bool file_flush(struct capture_file *file);
bool file_close(struct capture_file *file);

/* --- capture.c --- */

/* Captures until a signal, a limit, or the end of the program. Returns the exit status. */
int capture_run(const struct capture_options *options);

#endif

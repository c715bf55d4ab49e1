/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena capture: the traffic of this user's processes as a file of packets.
 *
 *	capture.c          options, the loop
 *	capture_source.c   the processes, their rings
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
#include "engine/attach/ask.h"
#include "engine/attach/capture.h"

enum { PROGRAM_SIZE = 32, COMMENT_SIZE = 640, CAPTURE_BYTES = 64, DEVICE_GIDS = 256 };

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

/* --- capture_source.c --- */

enum source_state { SOURCE_ASKED, SOURCE_READY, SOURCE_ENDED };

/* A process that is captured. */
struct source {
	enum source_state state;
	pid_t pid;
	uid_t uid;
	int socket; /* -1: the process has ended */
	bool told;  /* the user knows that it is stopped */
	char program[PROGRAM_SIZE];
	struct vb_capture_reader reader;
	struct capture_notes *notes;  /* owned */
	int interface;                /* of the file; -1: none yet */
	uint64_t packets;             /* written */
	uint64_t lost, stations_lost; /* once the process has ended */
	bool captured;                /* it has answered */
};

struct sources {
	struct source **list; /* owned; in the order in which they came */
	unsigned count;
	int listener;     /* processes that start later come here; -1: none */
	const char *tool; /* for messages */
	unsigned wants;   /* enum vb_capture_want */
	uint32_t bytes;
	pid_t pid_of_slot[VB_ASK_SLOTS];
	unsigned long *inodes; /* of listeners that were asked; owned */
	size_t inode_count;
	pid_t complain_pid; /* the process of --pid */
	bool complained;
	bool came; /* a process has come by itself: its slots are not known yet */
};

struct sources_options {
	const char *tool; /* for messages */
	unsigned wants;   /* enum vb_capture_want */
	uint32_t bytes;
	pid_t pid;        /* that the user asks for; 0: all */
	const char *name; /* processes that know this name come by themselves; NULL: all */
};
void sources_open(struct sources *sources, const struct sources_options *options);
/* Finds processes, and takes answers; waits up to timeout_ms for them. */
void sources_look(struct sources *sources);
void sources_wait(struct sources *sources, int timeout_ms);
/* Hands out all records. True: there were some. */
typedef void source_each(void *arg, struct source *source, const struct vb_capture_head *record);
bool sources_read(struct sources *sources, source_each *each, void *arg);
void sources_close(struct sources *sources);
/* Packets, or stations. */
uint64_t source_lost(const struct source *source);
uint64_t source_stations_lost(const struct source *source);

/* --- capture_comment.c --- */

void notes_take(struct source *source, const struct vb_capture_head *record);
/* Finds the work request of a packet of the wire, if the process has told of it. */
void notes_find(const struct source *source, struct vb_capture_frame *frame, const uint8_t *bth);
/* The sentence of a failure that belongs to this packet, and is told once; NULL: none. */
const char *notes_failure(struct source *source, const struct vb_capture_frame *frame);
void comment_write(const struct sources *sources, const struct source *source,
		   const struct vb_capture_frame *frame, char comment[COMMENT_SIZE]);

/* --- capture_merge.c --- */

struct held {
	uint64_t time_ns, order;
	struct source *source;
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

void merge_add(struct merge *merge, struct source *source, const struct vb_capture_frame *frame,
	       const char *comment);
/* The packet of that work request that is not written yet, the last one; NULL: none. */
struct held *merge_find(struct merge *merge, const struct source *source,
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
void file_statistics(struct capture_file *file, struct source *source);
bool file_flush(struct capture_file *file);
bool file_close(struct capture_file *file);

/* --- capture.c --- */

/* Captures until a signal, a limit, or the end of the program. Returns the exit status. */
int capture_run(const struct capture_options *options);

#endif

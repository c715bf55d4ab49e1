/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The other end of a capture (capture.h): the processes that are captured. Finds them, asks them,
 * and reads their rings. For programs that capture or trace, and for sniffer flows.
 */
#ifndef VB_ENGINE_ATTACH_SOURCES_H
#define VB_ENGINE_ATTACH_SOURCES_H

#include <stdbool.h>
#include <sys/types.h>

#include "capture/reader.h"
#include "engine/attach/ask.h"
#include "engine/attach/capture.h"

enum { VB_PROGRAM_SIZE = 32 };

enum vb_source_state { VB_SOURCE_ASKED, VB_SOURCE_READY, VB_SOURCE_ENDED };

/* A process that is captured. */
struct vb_source {
	enum vb_source_state state;
	pid_t pid;
	uid_t uid;
	int socket; /* -1: the process has ended */
	bool told;  /* the user knows that it is stopped */
	char program[VB_PROGRAM_SIZE];
	struct vb_capture_reader reader;
	void *notes;                  /* owned; notes_size bytes for the program that captures */
	int interface;                /* the same; -1 at first */
	uint64_t packets;             /* the same */
	uint64_t lost, stations_lost; /* once the process has ended */
	bool captured;                /* it has answered */
};

/* Tells the user something. */
typedef void vb_sources_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct vb_sources_options {
	const char *tool;      /* for messages */
	vb_sources_tell *tell; /* NULL: nobody is told */
	unsigned wants;        /* enum vb_capture_want */
	uint32_t bytes;
	size_t notes_size;
	pid_t pid;        /* that the user asks for; 0: all */
	bool alone;       /* the others are not asked */
	const char *name; /* processes that know this name come by themselves; NULL: all */
};

struct vb_sources {
	struct vb_source **list; /* owned; in the order in which they came */
	unsigned count;
	uid_t uid;    /* that the listener has; tcpdump changes its own */
	int listener; /* processes that start later come here; -1: none */
	struct vb_sources_options options;
	pid_t pid_of_slot[VB_ASK_SLOTS];
	unsigned long *inodes; /* of listeners that were asked; owned */
	size_t inode_count;
	bool complained;
	bool came; /* a process has come by itself: its slots are not known yet */
};

void vb_sources_open(struct vb_sources *sources, const struct vb_sources_options *options);
/* Finds processes, and takes answers; waits up to timeout_ms for them. */
void vb_sources_look(struct vb_sources *sources);
void vb_sources_wait(struct vb_sources *sources, int timeout_ms);
/* Hands out all records. True: there were some. */
typedef void vb_source_each(void *arg, struct vb_source *source,
			    const struct vb_capture_head *record);
bool vb_sources_read(struct vb_sources *sources, vb_source_each *each, void *arg);
void vb_sources_close(struct vb_sources *sources);
/* Packets, or stations. */
uint64_t vb_source_lost(const struct vb_source *source);
uint64_t vb_source_stations_lost(const struct vb_source *source);

#endif

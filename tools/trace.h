/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena trace, verbena run --trace: a time line of work requests.
 *
 *	trace.c          options, the loop
 *	trace_model.c    stations of all processes become slices
 *	trace_receive.c  those of receives
 *	trace_cm.c       messages of the connection manager become slices
 *	trace_arrow.c    a send and its receive become an arrow
 *	trace_json.c     the file
 */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/record.h"

enum { TRACE_LIMIT_MB = 256, ARGS_SIZE = 512, TRACK_NAME_SIZE = 48 };

/* What the user asked for. */
struct trace_options {
	const char *output;
	pid_t pid; /* 0: all processes of the user */
	uint64_t limit_mb;
	double seconds; /* 0: no limit */
	bool quiet;
};

/* --- trace_json.c: events of Chrome's trace format, one per line --- */

struct trace_file {
	int fd;
	char *buffer; /* owned */
	size_t used;
	uint64_t written, limit;  /* bytes */
	uint64_t events, refused; /* refused: beyond the limit */
	bool broken;
};

/* A row of the time line. */
struct trace_track {
	pid_t pid;
	uint32_t tid;
};

/* Several programs may write to one file at the same time; the first of them empties it. */
bool trace_file_open(struct trace_file *file, const char *path, uint64_t limit);
bool trace_file_flush(struct trace_file *file);
bool trace_file_close(struct trace_file *file);
/* args: members of a JSON object, or "". */
void trace_slice(struct trace_file *file, struct trace_track track, const char *name,
		 uint64_t from_ns, uint64_t to_ns, const char *args);
void trace_instant(struct trace_file *file, struct trace_track track, const char *name,
		   uint64_t at_ns, const char *args);
void trace_flow(struct trace_file *file, struct trace_track track, bool start, uint64_t at_ns,
		uint64_t id);
void trace_name_process(struct trace_file *file, pid_t pid, const char *program);
void trace_name_track(struct trace_file *file, struct trace_track track, const char *name);

/* --- trace_arrow.c --- */

/* A place in a slice. */
struct trace_point {
	bool known;
	struct trace_track track;
	uint64_t at_ns;
};

struct trace_arrow {
	uint64_t key; /* 0: unused */
	uint64_t placed_ns, psn_key;
	struct trace_point from, to;
	uint32_t from_qpn, to_qpn;
};

/* Arrows of which one end is known; the oldest are forgotten. */
struct trace_arrows {
	struct trace_arrow *list; /* owned; by their key */
	size_t room, count;
};

/* The keys that both ends of a message know: its receive, or on the wire its last packet. */
uint64_t trace_receive_key(uint32_t qpn, uint32_t receive);
uint64_t trace_packet_key(uint32_t qpn, uint32_t src_qpn, uint32_t psn);
/* Finds, or makes if `make`. NULL: there is none, or no memory. */
struct trace_arrow *trace_arrow_find(struct trace_arrows *arrows, uint64_t key, bool make);
void trace_arrow_remove(struct trace_arrows *arrows, struct trace_arrow *arrow);

/* --- trace_model.c, trace_cm.c --- */

/* A queue or connection with slices that may overlap: each is on the first row that is free. */
struct trace_rows {
	uint64_t *ends_ns; /* owned: the end of the last slice of each row */
	uint32_t *tids;    /* owned */
	unsigned count;
};

/* One work request of a send queue. */
struct trace_wr {
	bool known;
	uint32_t length, peer_qpn, receive, psn;
	uint64_t wr_id, posted_ns, begun_ns, done_ns;
	uint8_t opcode, status;
	bool consumed, wired;
};

struct trace_qp {
	uint32_t qpn;
	struct trace_wr *wrs; /* owned; a ring of `room`, which begins at `first` */
	uint32_t first, count, room;
	struct trace_rows sends, receives, waits;
	uint8_t why; /* enum vb_trace_wait */
	uint64_t why_ns;
};

struct trace_handshake {
	uint32_t id; /* 0: unused */
	bool out;    /* this process has sent the request */
	uint64_t begun_ns;
	struct trace_mark {
		uint16_t attribute;
		bool out;
		uint64_t at_ns;
	} marks[8];
	unsigned mark_count;
};

/* A poll that is not written yet: its completions come one by one. */
struct trace_poll {
	uint32_t cq;
	uint64_t from_ns, to_ns;
	unsigned count;
};

/* When a receive was posted. A later one may take its place here. */
enum { TRACE_POSTED = 1 << 14 };
struct trace_posted {
	uint32_t owner, receive; /* the QP, or the SRQ */
	uint64_t at_ns;
};

struct trace_cq {
	uint32_t cq, tid;
};

struct trace_process {
	pid_t pid;
	struct trace_posted *posted; /* owned; TRACE_POSTED of them */
	struct trace_qp *qps;        /* owned */
	unsigned qp_count;
	struct trace_handshake *handshakes; /* owned */
	unsigned handshake_count;
	struct trace_rows connections;
	struct trace_cq *cqs; /* owned */
	unsigned cq_count;
	struct trace_poll poll;
	uint32_t tid_last;
};

/* A receive that was polled. It waits for the word of its sender. */
struct trace_receive {
	struct vb_capture_station station;
	unsigned process; /* index */
	unsigned round;
};

struct trace_model {
	struct trace_file *file;
	struct trace_process *processes; /* owned */
	unsigned process_count;
	struct trace_arrows arrows;
	struct trace_receive *receives; /* owned; the oldest first */
	size_t receive_count, receive_room;
	unsigned round;
	uint64_t last_ns; /* of all stations */
};

void trace_station(struct trace_model *model, pid_t pid, const char *program,
		   const struct vb_capture_station *station);
/* After each look at all processes. */
void trace_round(struct trace_model *model);
/* Writes what has not ended. */
void trace_finish(struct trace_model *model, uint64_t now_ns);
void trace_free(struct trace_model *model);

struct trace_qp *trace_qp_find(struct trace_process *process, uint32_t qpn);
/* Writes the arrow if both of its ends are known. */
void trace_arrow_join(struct trace_model *model, struct trace_arrow *arrow);

/* --- trace_receive.c --- */

void trace_receives_posted(struct trace_process *process, const struct vb_capture_station *station);
void trace_receive_placed(struct trace_model *model, const struct vb_capture_station *station);
void trace_receive_hold(struct trace_model *model, const struct trace_process *process,
			const struct vb_capture_station *station);
/* Those that were held for long enough, or all. */
void trace_receives_write(struct trace_model *model, bool all);

/* --- rows, handshakes --- */

/* Finds the row for a slice; name: of the queue. */
struct trace_track trace_row(struct trace_model *model, struct trace_process *process,
			     struct trace_rows *rows, const char *name, uint64_t from_ns,
			     uint64_t to_ns);
void trace_rows_free(struct trace_rows *rows);
void trace_handshake_take(struct trace_model *model, struct trace_process *process,
			  const struct vb_capture_station *station);
void trace_handshakes_finish(struct trace_model *model, struct trace_process *process,
			     uint64_t now_ns);

/* --- trace.c --- */

/* Traces the processes that a program starts. start becomes the program, in a child. */
int trace_program(const struct trace_options *options, int (*start)(void *arg), void *arg);
bool trace_parse_limit(const char *text, uint64_t *limit_mb);

#endif

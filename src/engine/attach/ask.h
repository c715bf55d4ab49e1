/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks the processes of this host to describe their objects (describe.h). */
#ifndef VB_ENGINE_ATTACH_ASK_H
#define VB_ENGINE_ATTACH_ASK_H

#include <sys/types.h>

#include "engine/attach/describe.h"
#include "engine/attach/port_counts.h"
#include "engine/attach/why.h"

enum { VB_ASK_NAME_SIZE = 32, VB_ASK_SLOTS = 4096 };

/* A process that holds a slot of this host, and its answer. */
struct vb_asked_process {
	pid_t pid;
	uid_t uid;
	unsigned slot;               /* the lowest of its slots */
	char name[VB_ASK_NAME_SIZE]; /* of its socket at that slot */
	int socket;                  /* open until the process has answered */
	int error; /* 0, or the reason why there is no listing: EPERM, ETIMEDOUT, ... */
	struct vb_describe_answer answer;
	union { /* owned */
		struct vb_describe_record *records;
		struct vb_why_record *waits; /* the filter asks for VB_DESCRIBE_WAITS */
		struct vb_port_counts *port; /* for VB_DESCRIBE_PORT */
	};
};

struct vb_asked_processes {
	struct vb_asked_process *list; /* by pid; owned */
	unsigned count;
	pid_t pid_of_slot[VB_ASK_SLOTS]; /* 0: no process holds the slot */
};

/* The processes to ask. */
struct vb_ask_filter {
	pid_t only;        /* 0: all */
	const pid_t *pids; /* some; NULL: all */
	unsigned pid_count;
	pid_t except; /* 0: none */
	enum vb_describe_what what;
	uint16_t clear; /* counters of the port (describe.h) */
};

/*
 * Names of slots in this network namespace. inode: of the socket that listens there; 0: of another
 * socket. False: stop. Returns 0, -ENOMEM (stopped) or -errno.
 */
typedef bool vb_ask_each_name(void *arg, unsigned slot, const char *text, unsigned long inode);
int vb_ask_names(vb_ask_each_name *each, void *arg);
/* Connects to such a name; -1: no process listens there any more. */
int vb_ask_connect(const char *text);
/* A name counts only if the slot is for the user that bound it. */
bool vb_ask_is_holder(unsigned slot, uid_t uid);

/* 0, or -errno: there is nothing to free. */
int vb_ask_processes(struct vb_asked_processes *all, const struct vb_ask_filter *filter);
void vb_ask_free(struct vb_asked_processes *all);

#endif

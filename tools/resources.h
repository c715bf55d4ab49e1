/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena resources: the RDMA objects of each process. */
#ifndef TOOLS_RESOURCES_H
#define TOOLS_RESOURCES_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "engine/attach/describe.h"

enum { NAME_SIZE = 32 };

/* A process that holds a slot of this host, and its answer. */
struct process {
	pid_t pid;
	uid_t uid;
	unsigned slot;        /* the lowest of its slots */
	char name[NAME_SIZE]; /* of its socket at that slot */
	char program[NAME_SIZE];
	char user[NAME_SIZE];
	int socket; /* open until the process has answered */
	int error;  /* 0, or the reason why there is no listing: EPERM, ETIMEDOUT, ... */
	struct vb_describe_answer answer;
	struct vb_describe_record *records; /* owned */
};

struct processes {
	struct process *list; /* by pid; owned */
	unsigned count;
	pid_t pid_of_slot[4096]; /* 0: no process holds the slot */
};

/* The objects and the process to show; 0: all. */
struct selection {
	unsigned kinds; /* bits of enum vb_describe_kind */
	pid_t pid;
};

/* --- resources_ask.c --- */

/* Asks all processes, or only that one (0: all). False after a complaint. */
bool processes_ask(struct processes *all, pid_t only);
void processes_free(struct processes *all);

/* --- resources_print.c, resources_json.c --- */

void processes_print(const struct processes *all, const struct selection *selection);
void processes_print_json(const struct processes *all, const struct selection *selection);

/* --- both --- */

bool is_selected(const struct selection *selection, const struct vb_describe_record *record);
const char *kind_name(unsigned kind); /* "qp", "cq", ... */
const char *qp_type_name(unsigned type);
const char *qp_state_name(unsigned state);
/* The number of unused PDs, which have no record. */
unsigned pds_unused(const struct process *process);
/* The process at the other end of a QP, if it is on this host; else 0. */
pid_t peer_pid(const struct processes *all, const struct vb_describe_record *record);

#endif

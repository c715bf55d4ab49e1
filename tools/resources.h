/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena resources: the RDMA objects of each process. */
#ifndef TOOLS_RESOURCES_H
#define TOOLS_RESOURCES_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "engine/attach/ask.h"

enum { NAME_SIZE = 32, ADDRESS_SIZE = 64 };

/* The objects and the process to show; 0: all. */
struct selection {
	unsigned kinds; /* bits of enum vb_describe_kind */
	pid_t pid;
};

/* --- resources_print.c, resources_json.c --- */

void processes_print(const struct vb_asked_processes *all, const struct selection *selection);
void processes_print_json(const struct vb_asked_processes *all, const struct selection *selection);

/* --- both --- */

const char *program_of(const struct vb_asked_process *process, char text[NAME_SIZE]);
const char *user_of(const struct vb_asked_process *process, char text[NAME_SIZE]);

bool is_selected(const struct selection *selection, const struct vb_describe_record *record);
const char *kind_name(unsigned kind); /* "qp", "cq", ... */
const char *qp_type_name(unsigned type);
const char *qp_state_name(unsigned state);
const char *cm_state_name(unsigned state);
const char *port_space_name(unsigned port_space);
/* ADDRESS:PORT of an identifier; an empty text: there is none. */
const char *address_text(const uint8_t bytes[28], char text[ADDRESS_SIZE]);
/* The number of unused PDs, which have no record. */
unsigned pds_unused(const struct vb_asked_process *process);
/* The process at the other end of a QP, if it is on this host; else 0. */
pid_t peer_pid(const struct vb_asked_processes *all, const struct vb_describe_record *record);

#endif

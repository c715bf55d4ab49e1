/* SPDX-License-Identifier: BSD-2-Clause */
/* Words about a process that a tool asked for, and that gave no answer. */
#ifndef VB_ENGINE_ATTACH_SILENT_H
#define VB_ENGINE_ATTACH_SILENT_H

#include <sys/types.h>

enum { VB_SILENT_LINE = 256 };

/* The state letter of /proc/PID/stat: 'T' is stopped, 'Z' has ended; 0: no such process. */
char vb_process_state(pid_t pid);
/* The program of a process; "?": not known. */
const char *vb_process_program(pid_t pid, char name[32]);

/* A sentence. error: of the question (ask.h); 0: no socket of the process was found. */
const char *vb_silent_words(pid_t pid, int error, char line[VB_SILENT_LINE]);

#endif

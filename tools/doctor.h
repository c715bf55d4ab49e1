/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena doctor: each check reports findings, and gives advice if the user can do something. */
#ifndef VERBENA_DOCTOR_H
#define VERBENA_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

void report(enum verdict verdict, const char *subject, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void advise(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* doctor_kernel.c: restrictions of the kernel and the container */
void check_yama(void);
void check_seccomp(void);
void check_capabilities(void);
void check_dumpable(void);
void check_namespaces(void);

/* doctor_memory.c: tries the system calls of the local path */
void check_peer_memory(void);
void check_memfd(void);
void check_mapping(void);
void check_abstract_socket(void);
void check_netlink(void);

/* doctor_environment.c: variables of Verbena with values that keep devices from opening */
void check_environment(void);
void check_profile(void);
/* opens all devices in a process of its own: 0, an errno value, or minus a signal */
int try_devices(void);

/* doctor_limits.c, doctor_buffers.c, doctor_port.c */
void check_limits(void);
void check_buffers(void);
void check_port(void);

/* --- probe.c --- */

/*
 * Runs body in a process of its own: a seccomp filter may kill the process for a system call.
 * Returns the result of body (0 or an errno value), or minus the signal.
 */
int probe_run(int (*body)(void *argument), void *argument);
/* "Operation not permitted", or "killed by a seccomp filter". */
const char *probe_text(int result);

/* The number in a line of /proc/self/status; false: there is no such line. */
bool probe_status_value(const char *name, int base, uint64_t *value);
bool probe_has_capability(int capability);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena doctor: each check reports one finding, and advises where something can be done. */
#ifndef VERBENA_DOCTOR_H
#define VERBENA_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

void report(enum verdict verdict, const char *subject, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void advise(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* doctor_kernel.c: what the kernel forbids */
void check_yama(void);
void check_seccomp(void);
void check_capabilities(void);
void check_dumpable(void);
void check_namespaces(void);

/* doctor_memory.c: what the local path is made of, tried out */
void check_peer_memory(void);
void check_memfd(void);
void check_abstract_socket(void);
void check_netlink(void);

/* doctor_environment.c: variables of Verbena's that no device opens with */
void check_environment(void);
/* devices_each in a process of its own: 0, an errno value or minus a signal */
int try_devices(void);

/* doctor_limits.c, doctor_buffers.c, doctor_port.c */
void check_limits(void);
void check_buffers(void);
void check_port(void);

/* --- probe.c --- */

/*
 * Runs body in a process of its own, because a seccomp filter may kill whoever makes a call that it
 * does not like. Returns what body returned (0 or an errno value), or minus the signal.
 */
int probe_run(int (*body)(void *argument), void *argument);
/* "Operation not permitted", or "killed by a seccomp filter". */
const char *probe_text(int result);

/* The value of a line of /proc/self/status, read in a base; false if there is none. */
bool probe_status_value(const char *name, int base, uint64_t *value);
bool probe_has_capability(int capability);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part of a test in a process of its own, which may set limits, change its environment, or be
 * ended by a signal. cmocka's assertions stay with the parent; the child uses child_check.
 */
#ifndef VB_TESTS_UNIT_CHILD_H
#define VB_TESTS_UNIT_CHILD_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define child_check(condition)                                                                 \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			dprintf(STDERR_FILENO, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			return 1;                                                              \
		}                                                                              \
	} while (0)

/* Runs body in a child; gives its wait status, and in said what it wrote to standard error. */
static inline int child_run(int (*body)(const void *), const void *arg, char *said, size_t size)
{
	size_t used = 0;
	ssize_t part;
	int ends[2], status = -1;
	pid_t child;

	if (pipe(ends))
		return -1;
	child = fork();
	if (!child) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		_exit(body(arg));
	}
	close(ends[1]);
	while (used + 1 < size && (part = read(ends[0], said + used, size - used - 1)) > 0)
		used += (size_t)part;
	said[used] = '\0';
	close(ends[0]);
	if (child > 0)
		waitpid(child, &status, 0);
	return status;
}

/* The body must return 0. */
#define assert_child_passes(body, arg)                                                      \
	do {                                                                                \
		char child_said[4096];                                                      \
		int child_status = child_run(body, arg, child_said, sizeof(child_said));    \
                                                                                            \
		if (child_status)                                                           \
			fail_msg("the child ended with wait status 0x%x: %s", child_status, \
				 child_said);                                               \
	} while (0)

#endif

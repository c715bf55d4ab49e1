/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits until a thread waits: the one thing about a thread in a system call that can be seen. */
#ifndef TESTS_ASLEEP_H
#define TESTS_ASLEEP_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* Also true of a thread that has ended: nobody needs to wait for that one. */
static inline bool thread_is_asleep(pid_t thread_id)
{
	char path[64], line[256] = "";
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread_id);
	stat = fopen(path, "r");
	if (!stat)
		return true;
	if (!fgets(line, sizeof(line), stat))
		line[0] = '\0';
	fclose(stat);
	return !line[0] || strstr(line, ") S ");
}

/* The thread writes its number when it has nothing to do but the call that it will sleep in. */
static inline void thread_await_sleep(_Atomic pid_t *thread_id)
{
	while (!*thread_id || !thread_is_asleep(*thread_id))
		sched_yield();
}

#endif

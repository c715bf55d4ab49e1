/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/silent.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nic/stopped.h"

/* --- facts --- */

static bool stat_read(pid_t pid, char text[256])
{
	char path[64];
	FILE *file;
	bool good;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	good = fgets(text, 256, file) != NULL;
	fclose(file);
	return good;
}

char vb_process_state(pid_t pid)
{
	char text[256];
	const char *end = stat_read(pid, text) ? strrchr(text, ')') : NULL;

	return end && end[1] ? end[2] : 0;
}

const char *vb_process_program(pid_t pid, char name[32])
{
	char text[256];
	const char *begin, *end;

	snprintf(name, 32, "?");
	if (!stat_read(pid, text))
		return name;
	begin = strchr(text, '(');
	end = strrchr(text, ')');
	if (begin && end > begin)
		snprintf(name, 32, "%.*s", (int)(end - begin - 1), begin + 1);
	return name;
}

static bool is_of_another_user(pid_t pid)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return geteuid() && !stat(path, &status) && status.st_uid != geteuid();
}

/* Sockets of another network namespace are not found. False also if /proc does not tell. */
static bool is_in_another_network(pid_t pid)
{
	char path[64];
	struct stat own, other;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	return !stat("/proc/self/ns/net", &own) && !stat(path, &other) &&
	       (own.st_ino != other.st_ino || own.st_dev != other.st_dev);
}

/* --- words --- */

static const char *reason_of(pid_t pid, int error)
{
	if (error == EPERM || is_of_another_user(pid))
		return "belongs to another user: ask as that user, or as root";
	switch (error) {
	case EPROTO:
	case ECONNRESET:
		return "runs another version of Verbena";
	case EAGAIN:
		return "answers others now: ask again";
	case ETIMEDOUT:
		return "does not answer: it has no QP yet, or is busy";
	case 0:
		return "has no RDMA device of Verbena open";
	}
	return strerror(error);
}

const char *vb_silent_words(pid_t pid, int error, char line[VB_SILENT_LINE])
{
	const char state = vb_process_state(pid);
	char program[32];

	vb_process_program(pid, program);
	if (!state)
		snprintf(line, VB_SILENT_LINE, "there is no process %d", pid);
	else if (state == 'Z' || state == 'X')
		snprintf(line, VB_SILENT_LINE, "%s (pid %d) has ended", program, pid);
	else if (vb_stopped_process(pid))
		snprintf(line, VB_SILENT_LINE,
			 "%s (pid %d) is stopped (%s): `kill -CONT %d` continues it", program, pid,
			 state == 'T' ? "SIGSTOP" : "by a debugger", pid);
	else if (!error && is_in_another_network(pid))
		snprintf(line, VB_SILENT_LINE,
			 "%s (pid %d) is in another network namespace: ask from there "
			 "(nsenter -n -t %d verbena ...)",
			 program, pid, pid);
	else
		snprintf(line, VB_SILENT_LINE, "%s (pid %d) %s", program, pid,
			 reason_of(pid, error));
	return line;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A signal stops a thread on its way out of the kernel, never inside a system call. So a thread in
 * state T whose registers are those of a call has finished that call. (A debugger also stops
 * threads before calls; their state is t.)
 */
#include "nic/stopped.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"

enum { FILE_MAX = 4096 };

/* Reads a file of the thread in /proc as a string; false: no such file, or no right to read it. */
static bool read_file(pid_t pid, pid_t tid, const char *name, char text[FILE_MAX])
{
	char path[64];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = vb_read(fd, text, FILE_MAX - 1);
	vb_close(fd);
	text[length > 0 ? length : 0] = 0;
	return length > 0;
}

/* The last number of the line that begins with name; -1: no such line. name begins with "\n". */
static long long last_number(const char *text, const char *name)
{
	const char *line = strstr(text, name), *end;

	if (!line)
		return -1;
	end = line + 1 + strcspn(line + 1, "\n");
	while (end > line && end[-1] >= '0' && end[-1] <= '9')
		end--;
	return atoll(end);
}

bool vb_stopped_process(pid_t pid)
{
	char text[FILE_MAX];

	return read_file(pid, pid, "status", text) &&
	       (strstr(text, "\nState:\tT ") || strstr(text, "\nState:\tt "));
}

/* Count of the thread's context switches; -1: it is not stopped, or is another thread. */
static long long stopped_switches(pid_t pid, pid_t tid)
{
	char text[FILE_MAX];

	if (!read_file(pid, tid, "status", text) || !strstr(text, "\nState:\tT "))
		return -1;
	/* In another pid namespace the thread has another number than here. */
	if (last_number(text, "\nNSpid:") != tid)
		return -1;
	return last_number(text, "\nvoluntary_ctxt_switches:") +
	       last_number(text, "\nnonvoluntary_ctxt_switches:");
}

bool vb_stopped_for_ever(pid_t pid, pid_t tid)
{
	char text[FILE_MAX];

	return !pid || !tid || !read_file(pid, tid, "status", text) ||
	       strstr(text, "\nState:\tZ ") || strstr(text, "\nState:\tX ");
}

bool vb_stopped_behind_copy(pid_t pid, pid_t tid)
{
	char text[FILE_MAX];
	long long before, number;

	if (!pid || !tid)
		return false;
	before = stopped_switches(pid, tid);
	if (before < 0 || !read_file(pid, tid, "syscall", text))
		return false;
	/* "running", or the number of the call; -1: the thread is in no call. */
	if (text[0] < '0' || text[0] > '9')
		return false;
	number = atoll(text);
	if (number != SYS_process_vm_readv && number != SYS_process_vm_writev)
		return false;
	/* Equal counts: the thread did not run between the looks. */
	return stopped_switches(pid, tid) == before;
}

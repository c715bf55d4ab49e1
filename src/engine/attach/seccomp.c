/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/seccomp.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_filter(void)
{
	char text[4096], *line;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (size <= 0)
		return false;
	text[size] = '\0';
	line = strstr(text, "\nSeccomp:");
	return line && line[strcspn(line, "0123456789")] == '2';
}

/* Tries the call in a throw-away child, without a signal to the application: a filter may kill. */
static bool probe_in_child(void)
{
	int status = -1;
	long child = syscall(SYS_clone, 0, 0, 0, 0, 0);

	if (!child) {
		char from = 1, to = 0;
		struct iovec here = { &to, 1 }, there = { &from, 1 };
		long got = syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0);

		syscall(SYS_exit_group, got == 1 ? 0 : 1);
	}
	if (child < 0)
		return false;
	if (waitpid((pid_t)child, &status, __WCLONE) != child)
		return true; /* another thread reaped the child: believe the best */
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

bool vb_filter_forbids_vm(void)
{
	return has_filter() && !probe_in_child();
}

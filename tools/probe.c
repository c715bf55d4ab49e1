/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers of the checks: a throw-away process, and values from /proc. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

int probe_run(int (*body)(void *argument), void *argument)
{
	const struct rlimit no_core = { 0 };
	int status;
	pid_t child = fork();

	if (child == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		_exit(body(argument));
	}
	if (child < 0)
		return errno;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

const char *probe_text(int result)
{
	if (result == -SIGSYS)
		return "killed by a seccomp filter";
	return result < 0 ? strsignal(-result) : strerror(result);
}

bool probe_status_value(const char *name, int base, uint64_t *value)
{
	FILE *file = fopen("/proc/self/status", "re");
	const size_t length = strlen(name);
	char line[256];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, length) || line[length] != ':')
			continue;
		*value = strtoull(line + length + 1, NULL, base);
		found = true;
	}
	fclose(file);
	return found;
}

bool probe_has_capability(int capability)
{
	uint64_t effective;

	return probe_status_value("CapEff", 16, &effective) && (effective >> capability & 1);
}

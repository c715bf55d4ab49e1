/* SPDX-License-Identifier: BSD-2-Clause */
/* Restrictions of the kernel and of the container around this process. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <linux/capability.h>

#include "doctor.h"

/* --- Yama --- */

static int yama_scope(void)
{
	FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%d", &scope) != 1)
		scope = -1;
	fclose(file);
	return scope;
}

/* Scope 1 asks the target for its consent, and the library gives it (PR_SET_PTRACER). */
void check_yama(void)
{
	const int scope = yama_scope();
	const bool privileged = probe_has_capability(CAP_SYS_PTRACE);

	if (scope <= 0) {
		report(VERDICT_OK, "yama", scope < 0 ? "not in this kernel" : "ptrace_scope is 0");
	} else if (scope == 1) {
		report(VERDICT_OK, "yama",
		       "ptrace_scope is 1; programs on Verbena allow each other");
	} else if (scope == 2 && privileged) {
		report(VERDICT_OK, "yama",
		       "ptrace_scope is 2, and this process has CAP_SYS_PTRACE");
	} else {
		report(VERDICT_WARN, "yama",
		       "ptrace_scope is %d: processes cannot reach each other's memory; they "
		       "exchange packets, which is slower",
		       scope);
		advise(scope == 2 ? "as root: sysctl kernel.yama.ptrace_scope=1"
				  : "3 stays until the next boot; then set "
				    "kernel.yama.ptrace_scope=1");
	}
}

/* --- seccomp, capabilities, dumpable --- */

void check_seccomp(void)
{
	uint64_t mode, filters = 1;

	if (!probe_status_value("Seccomp", 10, &mode)) {
		report(VERDICT_WARN, "seccomp", "unknown: /proc/self/status has no line for it");
	} else if (!mode) {
		report(VERDICT_OK, "seccomp", "no filter");
	} else {
		probe_status_value("Seccomp_filters", 10, &filters);
		report(VERDICT_OK, "seccomp", "%llu filter(s); the trials below show their effect",
		       (unsigned long long)filters);
	}
}

void check_capabilities(void)
{
	const bool ptrace = probe_has_capability(CAP_SYS_PTRACE);

	report(VERDICT_OK, "capabilities", "none is needed; CAP_SYS_PTRACE is %s",
	       ptrace ? "present: memory of other users' processes can be reached"
		      : "absent: processes of other users exchange packets with us");
}

void check_dumpable(void)
{
	if (prctl(PR_GET_DUMPABLE) == 1) {
		report(VERDICT_OK, "dumpable", "yes");
		return;
	}
	report(VERDICT_WARN, "dumpable",
	       "no: other processes cannot reach the memory of this one; they send it packets");
	advise("a program that changes its user, or whose file is not readable, loses the flag; it "
	       "can set it again with prctl(PR_SET_DUMPABLE, 1)");
}

/* --- namespaces --- */

static bool namespace_name(const char *of, const char *kind, char *name, size_t size)
{
	char path[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%s/ns/%s", of, kind);
	length = readlink(path, name, size - 1);
	if (length <= 0)
		return false;
	name[length] = '\0';
	return true;
}

static const char *compared_with_init(const char *kind, const char *own)
{
	char first[64];

	if (!namespace_name("1", kind, first, sizeof(first)))
		return "";
	return strcmp(own, first) ? ", not that of process 1" : ", that of process 1";
}

void check_namespaces(void)
{
	static const struct {
		const char *kind, *subject, *meaning;
	} rows[] = {
		{ "net", "network namespace", "another network namespace is another host" },
		{ "pid", "process namespace",
		  "programs in another process namespace exchange packets with us" },
		{ "user", "user namespace",
		  "programs in another user namespace may have to exchange packets with us" },
	};
	char own[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (namespace_name("self", rows[i].kind, own, sizeof(own)))
			report(VERDICT_OK, rows[i].subject, "%s%s; %s", own,
			       compared_with_init(rows[i].kind, own), rows[i].meaning);
		else
			report(VERDICT_WARN, rows[i].subject, "unknown: is /proc mounted?");
	}
}

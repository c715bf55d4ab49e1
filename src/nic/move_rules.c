/* SPDX-License-Identifier: BSD-2-Clause */
/* The questions before a move. Each answer is conservative: what is not known forbids. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "base/annotate.h"
#include "nic/move.h"

enum { STACK_MARGIN = 64 << 10 };

__attribute__((visibility("default"))) unsigned vb_move_rules_off;

struct vb_range vb_move_pages(uint64_t addr, uint64_t length)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = (addr + page - 1) & ~(page - 1), end = (addr + length) & ~(page - 1);

	if (vb_move_rules_off & VB_RULE_PAGES) {
		start = addr & ~(page - 1);
		end = (addr + length + page - 1) & ~(page - 1);
	}
	return (struct vb_range){ start, end > start ? end - start : 0 };
}

/* --- threads --- */

static bool is_ours(pid_t tid, pid_t service)
{
	return tid == (pid_t)syscall(SYS_gettid) || (service && tid == service);
}

const char *vb_move_threads_forbid(pid_t service)
{
	const char *why = NULL;
	struct dirent *entry;
	DIR *tasks;

	if (vb_move_rules_off & VB_RULE_THREADS)
		return NULL;
	tasks = opendir("/proc/self/task");
	if (!tasks)
		return "/proc does not show the threads";
	while (!why && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.' && !is_ours(atoi(entry->d_name), service))
			why = "the program has several threads";
	closedir(tasks);
	return why;
}

/* --- pages --- */

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

struct line { /* of /proc/self/maps */
	unsigned long start, end;
	char perms[8];
	unsigned long inode;
	const char *name;
};

static bool line_read(char *text, struct line *line)
{
	int name = 0;

	text[strcspn(text, "\n")] = '\0';
	if (sscanf(text, "%lx-%lx %7s %*x %*x:%*x %lu %n", &line->start, &line->end, line->perms,
		   &line->inode, &name) < 4)
		return false;
	line->name = text + name;
	return true;
}

static const char *line_forbids(const struct line *line, const struct vb_range *range,
				uint64_t *covered)
{
	const uint64_t end = range->start + range->length;

	if (line->end <= range->start || line->start >= end)
		return NULL;
	if (strcmp(line->perms, "rw-p") != 0 || line->inode || begins(line->name, "[stack") ||
	    begins(line->name, "/"))
		return "the memory is not private, anonymous and writable";
	if (line->start > *covered)
		return "part of the memory is not mapped";
	*covered = line->end;
	return NULL;
}

static const char *maps_forbid(const struct vb_range *range)
{
	FILE *file = fopen("/proc/self/maps", "re");
	uint64_t covered = range->start;
	const char *why = NULL;
	struct line line;
	char text[512];

	if (!file)
		return "/proc does not show the mappings";
	while (!why && fgets(text, sizeof(text), file))
		if (line_read(text, &line))
			why = line_forbids(&line, range, &covered);
	fclose(file);
	if (!why && covered < range->start + range->length)
		why = "part of the memory is not mapped";
	return why;
}

/* The caller's stack may be memory that the program has allocated. */
bool vb_move_is_stack(const struct vb_range *range)
{
	const uint64_t here = (uintptr_t)__builtin_frame_address(0);

	return here + STACK_MARGIN > range->start &&
	       here < range->start + range->length + STACK_MARGIN;
}

static bool has_policy(const struct vb_range *range)
{
	int mode = MPOL_DEFAULT;

	return !syscall(SYS_get_mempolicy, &mode, NULL, 0, range->start, MPOL_F_ADDR) &&
	       mode != MPOL_DEFAULT;
}

const char *vb_move_pages_forbid(const struct vb_range *range)
{
	if ((vb_is_watched() && vb_tools != VB_TOOL_TRACE) || vb_on_valgrind())
		return "a tool watches the memory of the program";
	if (vb_move_is_stack(range))
		return "the memory is a stack";
	if (has_policy(range))
		return "the memory has a NUMA policy";
	return maps_forbid(range);
}

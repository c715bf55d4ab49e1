/* SPDX-License-Identifier: BSD-2-Clause */
/* The questions before a move. Each answer is conservative: what is not known forbids. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "base/annotate.h"
#include "nic/move.h"

enum {
	DESCRIPTORS_MAX = 1024, /* more of them take too long to look at */
	STACK_MARGIN = 64 << 10,
	REGISTERED_RINGS = 16, /* of io_uring, per thread */
	RING_PROBE_BYTES = 16, /* struct io_uring_probe without operations */
	RING_REGISTER_PROBE = 8,
};
#define RING_USE_REGISTERED 0x80000000u

unsigned vb_move_rules_off;

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

/* --- what may have pages pinned --- */

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool is_listed(const char *text, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(text, *list))
			return true;
	return false;
}

/* Of other families, and of sockets that send without a copy, nothing is known. */
static bool socket_is_harmless(int fd)
{
	int domain = -1, zero_copy = 0;
	socklen_t size = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size))
		return false;
	size = sizeof(zero_copy);
	if (domain == AF_INET || domain == AF_INET6)
		return !getsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &zero_copy, &size) && !zero_copy;
	return domain == AF_UNIX || domain == AF_NETLINK;
}

/* The kinds of descriptors that pin no memory of the program for longer than a system call. */
static bool descriptor_is_harmless(int fd, const char *link)
{
	static const char *const inodes[] = { "anon_inode:[eventfd]",  "anon_inode:[eventpoll]",
					      "anon_inode:[timerfd]",  "anon_inode:[signalfd]",
					      "anon_inode:inotify",    "anon_inode:[pidfd]",
					      "anon_inode:[fanotify]", NULL };
	static const char *const devices[] = { "/dev/null", "/dev/zero",    "/dev/full",
					       "/dev/tty",  "/dev/console", "/dev/random",
					       "/dev/ptmx", "/dev/urandom", NULL };

	if (begins(link, "socket:"))
		return socket_is_harmless(fd);
	if (begins(link, "anon_inode:"))
		return is_listed(link, inodes);
	if (begins(link, "/dev/"))
		return is_listed(link, devices) || begins(link, "/dev/pts/") ||
		       begins(link, "/dev/shm/");
	return link[0] == '/' || begins(link, "pipe:") || begins(link, "pidfd:") ||
	       begins(link, "net:[") || begins(link, "mnt:[") || begins(link, "user:[");
}

static const char *descriptors_forbid(void)
{
	const char *why = NULL;
	struct dirent *entry;
	DIR *all = opendir("/proc/self/fd");
	char link[64];
	int seen = 0;

	if (!all)
		return "/proc does not show the descriptors";
	while (!why && (entry = readdir(all))) {
		ssize_t length;

		if (entry->d_name[0] == '.')
			continue;
		length = readlinkat(dirfd(all), entry->d_name, link, sizeof(link) - 1);
		link[length > 0 ? length : 0] = '\0';
		if (++seen > DESCRIPTORS_MAX)
			why = "the program has too many descriptors to look at";
		else if (length <= 0 || !descriptor_is_harmless(atoi(entry->d_name), link))
			why = "a descriptor may have memory of the program pinned";
	}
	closedir(all);
	return why;
}

/* The number behind a key of /proc/self/status; 0: there is none. */
static long status_value(const char *key)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	long value = 0;

	while (file && fgets(line, sizeof(line), file))
		if (begins(line, key))
			value = atol(line + strlen(key));
	if (file)
		fclose(file);
	return value;
}

/* A ring may be known by its number alone, without a descriptor or a mapping. A filter of system
 * calls may end the program for this question: then it also keeps the program from rings. */
static bool has_hidden_ring(void)
{
	uint64_t probe[RING_PROBE_BYTES / sizeof(uint64_t)];

	if (status_value("Seccomp:"))
		return false;
	for (int i = 0; i < REGISTERED_RINGS; i++) {
		memset(probe, 0, sizeof(probe));
		if (!syscall(SYS_io_uring_register, i, RING_REGISTER_PROBE | RING_USE_REGISTERED,
			     probe, 0))
			return true;
	}
	return false;
}

const char *vb_move_pins_forbid(void)
{
	if (vb_move_rules_off & VB_RULE_PINS)
		return NULL;
	if (status_value("VmLck:") || status_value("VmPin:"))
		return "the program has locked memory";
	if (has_hidden_ring())
		return "the program has a ring of io_uring";
	return descriptors_forbid();
}

/* --- pages --- */

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

	if (strstr(line->name, "[aio]") || strstr(line->name, "io_uring"))
		return "the program has a context of asynchronous I/O";
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

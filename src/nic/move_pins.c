/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Users of pages that may have them pinned. Each answer is conservative: what is not known
 * forbids. Writes may be held meanwhile (hold.h), so nothing here allocates.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/message.h"
#include "nic/move.h"

enum {
	DESCRIPTORS_MAX = 1024, /* more of them take too long to look at */
	REGISTERED_RINGS = 16,  /* of io_uring, per thread */
	RING_PROBE_BYTES = 16,  /* struct io_uring_probe without operations */
	RING_REGISTER_PROBE = 8,
	TEXT_MAX = 4096,
};
#define RING_USE_REGISTERED 0x80000000u

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

static int proc_open(const char *path)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/* --- descriptors --- */

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
	static const char *const inodes[] = {
		"anon_inode:[eventfd]",     "anon_inode:[eventpoll]", "anon_inode:[timerfd]",
		"anon_inode:[signalfd]",    "anon_inode:inotify",     "anon_inode:[pidfd]",
		"anon_inode:[userfaultfd]", "anon_inode:[fanotify]",  NULL
	};
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

/* A descriptor that is closed meanwhile has let go of its pages, or is one of ours. */
static const char *descriptor_forbids(int folder, const char *name, int *seen)
{
	char link[64];
	ssize_t length;

	if (name[0] == '.' || atoi(name) == folder)
		return NULL;
	if (++*seen > DESCRIPTORS_MAX)
		return "the program has too many descriptors to look at";
	length = readlinkat(folder, name, link, sizeof(link) - 1);
	link[length > 0 ? length : 0] = '\0';
	return length <= 0 || !descriptor_is_harmless(atoi(name), link)
		       ? "a descriptor may have memory of the program pinned"
		       : NULL;
}

struct look {
	const char *why;
	int seen;
};

static bool look_at_descriptor(int folder, const char *name, void *arg)
{
	struct look *look = arg;

	look->why = descriptor_forbids(folder, name, &look->seen);
	return !look->why;
}

static const char *descriptors_forbid(void)
{
	struct look look = { 0 };

	if (!vb_move_list("/proc/self/fd", look_at_descriptor, &look))
		return "/proc does not show the descriptors";
	return look.why;
}

/* --- rings and contexts --- */

/* The number behind a key of /proc/self/status; 0: there is none. */
static long status_value(const char *key)
{
	char text[TEXT_MAX];
	int fd = proc_open("/proc/self/status");
	ssize_t size = fd < 0 ? 0 : vb_read(fd, text, sizeof(text) - 1);
	const char *line;

	if (fd >= 0)
		vb_close(fd);
	text[size > 0 ? size : 0] = '\0';
	line = strstr(text, key);
	return line ? atol(line + strlen(key)) : 0;
}

bool vb_move_has_filter(void)
{
	return status_value("\nSeccomp:") != 0;
}

/* A ring may be known by its number alone, without a descriptor or a mapping. A filter of system
 * calls may end the program for this question: then it also keeps the program from rings. */
static bool has_hidden_ring(void)
{
	uint64_t probe[RING_PROBE_BYTES / sizeof(uint64_t)];

	if (vb_move_has_filter())
		return false;
	for (int i = 0; i < REGISTERED_RINGS; i++) {
		memset(probe, 0, sizeof(probe));
		if (!syscall(SYS_io_uring_register, i, RING_REGISTER_PROBE | RING_USE_REGISTERED,
			     probe, 0))
			return true;
	}
	return false;
}

/* /proc gives whole lines, but a read may end within one: its end is looked at again. */
static bool has_context(void)
{
	enum { OVERLAP = 64 };
	char text[TEXT_MAX + 1];
	int fd = proc_open("/proc/self/maps");
	bool found = fd < 0;
	size_t kept = 0;
	ssize_t size;

	while (!found && (size = vb_read(fd, text + kept, TEXT_MAX - kept)) > 0) {
		kept += (size_t)size;
		text[kept] = '\0';
		found = strstr(text, "[aio]") || strstr(text, "[io_uring]");
		if (kept > OVERLAP) {
			memmove(text, text + kept - OVERLAP, OVERLAP);
			kept = OVERLAP;
		}
	}
	if (fd >= 0)
		vb_close(fd);
	return found;
}

const char *vb_move_pins_forbid(void)
{
	if (vb_move_rules_off & VB_RULE_PINS)
		return NULL;
	if (status_value("\nVmLck:") || status_value("\nVmPin:"))
		return "the program has locked memory";
	if (has_hidden_ring())
		return "the program has a ring of io_uring";
	if (has_context())
		return "the program has a context of asynchronous I/O";
	return descriptors_forbid();
}

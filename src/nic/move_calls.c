/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The system calls of other threads, as /proc tells them. A thread that runs is told apart from no
 * other one: a call that waits for a device, or on a futex, sleeps. Pages may be held meanwhile
 * (hold.h), so nothing here allocates, and nothing is a cancellation point.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/message.h"
#include "nic/move.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_futex_wait
#define SYS_futex_wait 455
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

struct entry { /* linux_dirent64 */
	uint64_t inode;
	int64_t offset;
	unsigned short size;
	unsigned char type;
	char name[];
};

static bool is_listed(long call, const short *list)
{
	for (; *list >= 0; list++)
		if (call == *list)
			return true;
	return false;
}

/* Calls that pin no memory, however long they sleep. */
static bool call_only_waits(long call)
{
	static const short calls[] = {
#ifdef SYS_poll
		SYS_poll,
		SYS_select,
		SYS_epoll_wait,
		SYS_pause,
#endif
		SYS_ppoll,
		SYS_pselect6,
		SYS_epoll_pwait,
		SYS_epoll_pwait2,
		SYS_nanosleep,
		SYS_clock_nanosleep,
		SYS_restart_syscall,
		SYS_rt_sigtimedwait,
		SYS_rt_sigsuspend,
		SYS_wait4,
		SYS_waitid,
		SYS_accept,
		SYS_accept4,
		SYS_connect,
		SYS_recvfrom,
		SYS_recvmsg,
		SYS_sendto,
		SYS_sendmsg,
		SYS_sched_yield,
		SYS_flock,
		SYS_process_vm_readv,
		SYS_process_vm_writev,
		-1,
	};

	return is_listed(call, calls);
}

/* Only direct I/O lets a device have the pages. */
static bool call_copies(long call, unsigned long fd)
{
	static const short calls[] = { SYS_read,    SYS_readv,    SYS_pread64, SYS_preadv,
				       SYS_preadv2, SYS_write,    SYS_writev,  SYS_pwrite64,
				       SYS_pwritev, SYS_pwritev2, -1 };
	int flags;

	if (!is_listed(call, calls))
		return false;
	flags = fcntl((int)fd, F_GETFL);
	return flags >= 0 && !(flags & O_DIRECT);
}

/* A futex without the flag for private ones has another name in a file than outside. */
static bool sleeps_there(long call, unsigned long at, const struct vb_range *range)
{
	if (call == SYS_futex_waitv)
		return true;
	if (call != SYS_futex && call != SYS_futex_wait)
		return false;
	return !range || at - range->start < range->length;
}

static const char *call_forbids(const char *text, const struct vb_range *range, bool pins)
{
	char *rest;
	long call;
	unsigned long first;

	if (!strncmp(text, "running", 7))
		return NULL;
	call = strtol(text, &rest, 10);
	if (rest == text)
		return "/proc does not show the calls of threads";
	first = strtoul(rest, NULL, 16);
	if (sleeps_there(call, first, range))
		return range ? "a thread sleeps on a futex in the memory" : NULL;
	if (!pins || call < 0 || call == SYS_futex || call == SYS_futex_wait ||
	    call_only_waits(call) || call_copies(call, first))
		return NULL;
	return "a thread is in a system call that may have memory pinned";
}

/* A thread that has ended is in no call. */
static const char *thread_forbids(int tasks, const char *name, const struct vb_range *range,
				  bool pins)
{
	char path[40], text[256];
	ssize_t size;
	int fd;

	if (name[0] == '.' || atoi(name) == (int)syscall(SYS_gettid))
		return NULL;
	snprintf(path, sizeof(path), "%s/syscall", name);
	fd = (int)syscall(SYS_openat, tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return faccessat(tasks, name, F_OK, 0) ? NULL
						       : "/proc does not show the calls of threads";
	size = vb_read(fd, text, sizeof(text) - 1);
	vb_close(fd);
	text[size > 0 ? size : 0] = '\0';
	return size > 0 ? call_forbids(text, range, pins) : NULL;
}

bool vb_move_list(const char *path, bool (*visit)(int folder, const char *name, void *arg),
		  void *arg)
{
	_Alignas(struct entry) char entries[2048];
	int folder = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool more = folder >= 0;
	long size;

	while (more && (size = syscall(SYS_getdents64, folder, entries, sizeof(entries))) > 0)
		for (long at = 0; more && at < size; at += ((struct entry *)(entries + at))->size)
			more = visit(folder, ((struct entry *)(entries + at))->name, arg);
	if (folder >= 0)
		vb_close(folder);
	return folder >= 0;
}

struct look {
	const struct vb_range *range;
	bool pins;
	const char *why;
};

static bool look_at_thread(int folder, const char *name, void *arg)
{
	struct look *look = arg;

	look->why = thread_forbids(folder, name, look->range, look->pins);
	return !look->why;
}

const char *vb_move_calls_forbid(const struct vb_range *range, bool pins)
{
	struct look look = { range, pins, NULL };

	if (vb_move_rules_off & VB_RULE_CALLS)
		return NULL;
	if (!vb_move_list("/proc/self/task", look_at_thread, &look))
		return "/proc does not show the threads";
	return look.why;
}

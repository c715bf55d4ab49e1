/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/annotate.h"

enum { DEPTH_MAX = 16, ENTRIES_SIZE = 1024 };

static bool is_dot(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static void remove_below(int directory_fd, int depth);

static void remove_entry(int directory_fd, const char *name, int depth)
{
	int fd;

	if (!unlinkat(directory_fd, name, 0) || depth == DEPTH_MAX)
		return;
	fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	remove_below(fd, depth + 1);
	close(fd);
	unlinkat(directory_fd, name, AT_REMOVEDIR);
}

/* A system call, because opendir would allocate. */
static void remove_below(int directory_fd, int depth)
{
	_Alignas(struct dirent64) char entries[ENTRIES_SIZE];
	long length;

	lseek(directory_fd, 0, SEEK_SET);
	vb_tools_find();
	while ((length = syscall(SYS_getdents64, directory_fd, entries, sizeof(entries))) > 0) {
		vb_tell_filled(entries, (size_t)length);
		for (long at = 0; at < length;) {
			const struct dirent64 *entry = (const struct dirent64 *)(entries + at);

			if (!is_dot(entry->d_name))
				remove_entry(directory_fd, entry->d_name, depth);
			at += entry->d_reclen;
		}
	}
}

void vb_remove_content(int directory_fd)
{
	remove_below(directory_fd, 0);
}

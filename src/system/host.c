/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Under `verbena run` the C library's calls show the tree of src/sysfs instead of the kernel's. So
 * these are calls of the kernel itself.
 */
#include "system/host.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/environment.h"

/* What getdents64 writes; the name follows. */
struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t size;
	uint8_t type;
	char name[];
};

static bool has_entry(const char *bytes, long length)
{
	for (long at = 0; at < length;) {
		const struct entry *entry = (const struct entry *)(bytes + at);

		if (entry->name[0] != '.')
			return true;
		at += entry->size;
	}
	return false;
}

bool vb_system_host_has_devices(void)
{
	_Alignas(struct entry) char bytes[1024];
	const char *sysfs = vb_environment_text(VB_ENV_SYSFS_PATH);
	char path[PATH_MAX];
	bool found = false;
	long fd, length;

	snprintf(path, sizeof(path), "%s/class/infiniband", sysfs ? sysfs : "/sys");
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (!found && (length = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0)
		found = has_entry(bytes, length);
	syscall(SYS_close, fd);
	return found;
}

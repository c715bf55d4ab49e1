/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A directory that many processes use and the last one removes. Who uses it holds a shared flock on
 * it; who fills or removes it an exclusive one, which nobody gets while it is in use. The kernel
 * drops the locks of the dead, so what a killed process leaves behind is used, and removed, by
 * the next one.
 */
#ifndef VB_SYSFS_LEASE_H
#define VB_SYSFS_LEASE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct vb_lease {
	char path[PATH_MAX];
	int fd;    /* holds the shared lock; the program may have closed it behind our back */
	pid_t pid; /* who took it: a lock goes over to the children of a fork, a lease does not */
	uid_t uid; /* whose it is: a process that changes its user cannot reach it any more */
	dev_t dev;
	ino_t ino;
};

/*
 * Takes the directory path, which fill makes complete if nobody did. 0 or -errno: -EPERM if it is
 * somebody else's, -EBUSY if somebody fills or removes it for longer than anybody should.
 */
int vb_lease_take(struct vb_lease *lease, const char *path, int (*fill)(int directory_fd));

/* It is this process's, and the directory still there. */
bool vb_lease_holds(const struct vb_lease *lease);

/* Gives it back; removes the directory if nobody else has it. Without memory allocation. */
void vb_lease_release(struct vb_lease *lease);

/* Removes the directory if it is this user's and nobody uses it. Without memory allocation. */
void vb_lease_remove_unused(const char *path);
/* Removes the directories in base whose names begin with prefix and which nobody uses. */
void vb_lease_sweep(const char *base, const char *prefix);

#endif

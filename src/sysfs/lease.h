/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A directory that many processes use and the last one removes. A process that uses the directory
 * holds a shared flock on it. A process that fills or removes the directory holds an exclusive one,
 * which excludes users. The kernel drops the locks of a killed process, so the next process uses,
 * and removes, what a killed one left.
 */
#ifndef VB_SYSFS_LEASE_H
#define VB_SYSFS_LEASE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct vb_lease {
	char path[PATH_MAX];
	int fd;    /* holds the shared lock; the program may have closed it */
	pid_t pid; /* of the holder: children of a fork inherit the lock, but not the lease */
	uid_t uid; /* of the holder: after a change of user the directory is out of reach */
	dev_t dev;
	ino_t ino;
};

/*
 * Takes a lease of the directory path. fill fills a new directory. 0 or -errno: -EPERM: the
 * directory belongs to another user; -EBUSY: another process fills or removes it for too long.
 */
int vb_lease_take(struct vb_lease *lease, const char *path, int (*fill)(int directory_fd));

/* Does this process have the lease, and does the directory still exist? */
bool vb_lease_holds(const struct vb_lease *lease);

/* Ends the lease. The last holder removes the directory. Allocates no memory. */
void vb_lease_release(struct vb_lease *lease);

/* Removes a directory of this user that no process uses. Allocates no memory. */
void vb_lease_remove_unused(const char *path);
/* Removes the unused directories in base whose names begin with prefix. */
void vb_lease_sweep(const char *base, const char *prefix);

#endif

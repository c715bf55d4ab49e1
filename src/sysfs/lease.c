/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/lease.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sysfs/remove.h"

/* Filling takes some milliseconds. A process that needs much longer has been stopped. */
#define PATIENCE_NS UINT64_C(3000000000)
enum { PAUSE_NS_MIN = 1000000, PAUSE_NS_MAX = 64000000 };

static const char ready[] = "ready"; /* this file marks a complete directory */

static bool is_ready(int fd)
{
	return !faccessat(fd, ready, F_OK, 0);
}

static bool is_removed(int fd)
{
	struct stat info;

	return fstat(fd, &info) || !info.st_nlink;
}

static int make_ready(int fd)
{
	int file = openat(fd, ready, O_CREAT | O_WRONLY | O_CLOEXEC, 0400);

	if (file < 0)
		return -errno;
	close(file);
	return 0;
}

/* The directory must belong to this user alone, because the library trusts its contents. */
static int open_own(const char *path)
{
	struct stat info;
	int fd;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (!fstat(fd, &info) && info.st_uid == geteuid() && !(info.st_mode & 077))
		return fd;
	close(fd);
	return -EPERM;
}

static void remove_locked(const char *path, int fd)
{
	unlinkat(fd, ready, 0);
	vb_remove_content(fd);
	rmdir(path);
}

/* Under the exclusive lock, which then becomes a shared one. */
static int fill_directory(const char *path, int fd, int (*fill)(int directory_fd))
{
	int result = 0;

	if (is_removed(fd))
		return -EAGAIN;
	if (!is_ready(fd)) {
		result = fill(fd);
		if (!result)
			result = make_ready(fd);
		if (result)
			remove_locked(path, fd);
	}
	if (!result && flock(fd, LOCK_SH | LOCK_NB))
		result = -EAGAIN;
	return result;
}

/* -EAGAIN: another process fills or removes the directory. */
static int take_once(const char *path, int fd, int (*fill)(int directory_fd))
{
	const bool complete_already = is_ready(fd);
	int result = 0;

	if (flock(fd, (complete_already ? LOCK_SH : LOCK_EX) | LOCK_NB))
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (!complete_already)
		result = fill_directory(path, fd, fill);
	/* flock drops the lock while it changes it: a leaving process may have come in between. */
	if (!result && (is_removed(fd) || !is_ready(fd)))
		result = -EAGAIN;
	return result;
}

static int accept_lease(struct vb_lease *lease, const char *path, int fd)
{
	struct stat info;

	lease->fd = vb_fd_high(fd);
	if (fstat(lease->fd, &info))
		return -errno;
	lease->dev = info.st_dev;
	lease->ino = info.st_ino;
	lease->pid = getpid();
	lease->uid = geteuid();
	snprintf(lease->path, sizeof(lease->path), "%s", path);
	return 0;
}

int vb_lease_take(struct vb_lease *lease, const char *path, int (*fill)(int directory_fd))
{
	const uint64_t deadline_ns = vb_now_ns() + PATIENCE_NS;

	/* Longer and different pauses: a hundred waiters must not take the CPU from the holder. */
	for (long pause_ns = PAUSE_NS_MIN; vb_now_ns() < deadline_ns;
	     pause_ns += pause_ns < PAUSE_NS_MAX ? pause_ns : 0) {
		const struct timespec pause = { .tv_nsec = pause_ns + getpid() % 8 * pause_ns / 8 };
		int fd = open_own(path);
		int result = fd < 0 ? fd : take_once(path, fd, fill);

		if (!result)
			return accept_lease(lease, path, fd);
		if (fd >= 0)
			close(fd);
		if (result != -EAGAIN)
			return result;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

static bool is_our_fd(const struct vb_lease *lease, struct stat *info)
{
	return lease->pid && !fstat(lease->fd, info) && info->st_dev == lease->dev &&
	       info->st_ino == lease->ino;
}

bool vb_lease_holds(const struct vb_lease *lease)
{
	struct stat info;

	return lease->pid == getpid() && lease->uid == geteuid() && is_our_fd(lease, &info) &&
	       info.st_nlink > 0;
}

void vb_lease_release(struct vb_lease *lease)
{
	struct stat info;

	/* A child of fork shares the lock with its parent, and must not make it exclusive. */
	if (vb_lease_holds(lease) && !flock(lease->fd, LOCK_EX | LOCK_NB))
		remove_locked(lease->path, lease->fd);
	if (is_our_fd(lease, &info))
		close(lease->fd);
	lease->pid = 0;
}

void vb_lease_remove_unused(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat info;

	if (fd < 0)
		return;
	if (!fstat(fd, &info) && info.st_uid == geteuid() && !(info.st_mode & 077) &&
	    !flock(fd, LOCK_EX | LOCK_NB))
		remove_locked(path, fd);
	close(fd);
}

void vb_lease_sweep(const char *base, const char *prefix)
{
	DIR *directory = opendir(base);
	struct dirent *entry;
	char path[PATH_MAX];

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)))
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", base, entry->d_name) <
		    sizeof(path))
			vb_lease_remove_unused(path);
	}
	closedir(directory);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads attributes below /sys, for utilities and applications that do so through the library. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/environment.h"
#include "base/symver.h"

/* Used by applications and exported, but not in the installed headers. */
struct verbs_sysfs_dev;
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct verbs_sysfs_dev *dev,
			      const char *format, ...) VB_PRIVATE(ibv_read_ibdev_sysfs_file);

static pthread_once_t sysfs_once = PTHREAD_ONCE_INIT;
static char sysfs_path[IBV_SYSFS_PATH_MAX] = "/sys"; /* written once, under sysfs_once */

static void sysfs_path_init(void)
{
	const char *path = vb_environment(VB_ENV_SYSFS_PATH);
	size_t length = path ? strlen(path) : 0;

	if (!path || length >= sizeof(sysfs_path))
		return;
	while (length > 0 && path[length - 1] == '/')
		length--;
	memcpy(sysfs_path, path, length);
	sysfs_path[length] = '\0';
}

VB_PUBLIC const char *ibv_get_sysfs_path(void)
{
	VB_NO_CANCEL;

	pthread_once(&sysfs_once, sysfs_path_init);
	return sysfs_path;
}

/* Returns the length without the newline at the end; -1 and errno if text and NUL do not fit. */
static int line_terminate(char *buf, size_t size, ssize_t length)
{
	if (length > 0 && buf[length - 1] == '\n')
		length--;
	if ((size_t)length >= size) {
		errno = ENOBUFS;
		return -1;
	}
	buf[length] = '\0';
	return (int)length;
}

static int file_read(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;
	int saved_errno;

	if (fd < 0)
		return -1;
	length = read(fd, buf, size);
	saved_errno = errno;
	close(fd);
	errno = saved_errno;
	return length < 0 ? -1 : line_terminate(buf, size, length);
}

VB_PUBLIC int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	VB_NO_CANCEL;
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", dir, file);

	if (length < 0 || (size_t)length >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return file_read(path, buf, size);
}

/* For providers, with a device that libibverbs found in sysfs: there is none. */
VB_PUBLIC int __attribute__((format(printf, 4, 5)))
ibv_read_ibdev_sysfs_file(char *buf, size_t size, struct verbs_sysfs_dev *dev, const char *format,
			  ...)
{
	VB_NO_CANCEL;

	errno = ENODEV;
	return -1;
}
VB_PRIVATE_SINCE_34(ibv_read_ibdev_sysfs_file);

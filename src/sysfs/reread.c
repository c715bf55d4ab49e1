/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/real.h"

#include "sysfs/reread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "sysfs/build.h"
#include "sysfs/umad.h"

/* Programs compiled with _FORTIFY_SOURCE call these; no header declares them. */
ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buffer, size_t size, off64_t offset, size_t room);

enum { WATCHED_MAX = 64 };

static struct watched {
	int fd;
	dev_t dev; /* the program may have closed fd and opened another file */
	ino_t ino;
	char path[VB_ATTRIBUTE_NAME_SIZE];
} table[WATCHED_MAX];          /* under lock; the oldest is forgotten for a new one */
static unsigned watched_count; /* since the start; under lock */

/* Threads only try this lock: a fork may have left it locked for ever. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

_Atomic uint64_t vb_reread_suspects[VB_REREAD_FDS / VB_REREAD_WORD];

void vb_reread_suspect(int fd)
{
	if (fd >= 0 && fd < VB_REREAD_FDS)
		atomic_fetch_or(&vb_reread_suspects[fd / VB_REREAD_WORD],
				UINT64_C(1) << fd % VB_REREAD_WORD);
}

void vb_reread_watch(int fd, const char *path)
{
	struct watched *watched;
	struct stat info;

	if (fd >= VB_REREAD_FDS || fstat(fd, &info) || pthread_mutex_trylock(&lock))
		return;
	watched = &table[watched_count++ % WATCHED_MAX];
	*watched = (struct watched){ .fd = fd, .dev = info.st_dev, .ino = info.st_ino };
	snprintf(watched->path, sizeof(watched->path), "%s", path);
	vb_reread_suspect(fd);
	pthread_mutex_unlock(&lock);
}

static const struct watched *find_watched(int fd)
{
	struct stat info;

	if (fstat(fd, &info))
		return NULL;
	for (int i = 0; i < WATCHED_MAX; i++)
		if (*table[i].path && table[i].fd == fd && table[i].dev == info.st_dev &&
		    table[i].ino == info.st_ino)
			return &table[i];
	return NULL;
}

/* Writes through the name in /proc, because the program's descriptor is read-only. */
static void write_again(const struct watched *watched)
{
	struct vb_attribute_text text;
	char name[32];
	int fd;

	vb_build_read(watched->path, &text);
	if (text.length < 0)
		return;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", watched->fd);
	fd = REAL(open)(name, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		return;
	while (write(fd, text.text, (size_t)text.length) < 0 && errno == EINTR)
		;
	close(fd);
}

static void refresh(int fd)
{
	VB_NO_CANCEL;
	const int saved_errno = errno;
	const struct watched *watched;

	if (!pthread_mutex_trylock(&lock)) {
		watched = find_watched(fd);
		if (watched)
			write_again(watched);
		else
			atomic_fetch_and(&vb_reread_suspects[fd / VB_REREAD_WORD],
					 ~(UINT64_C(1) << fd % VB_REREAD_WORD));
		pthread_mutex_unlock(&lock);
	}
	errno = saved_errno;
}

/* True: the read is done. */
static bool read_suspect(int fd, void *buffer, size_t size, ssize_t *result)
{
	const int saved_errno = errno;

	if (vb_umad_read(fd, buffer, size, result))
		return true;
	if (lseek(fd, 0, SEEK_CUR) <= 0) /* it fails for another kind of file */
		refresh(fd);
	errno = saved_errno;
	return false;
}

static inline void before_pread(int fd, off64_t offset)
{
	if (__builtin_expect(vb_reread_is_suspect(fd), 0) && offset == 0)
		refresh(fd);
}

VB_PUBLIC ssize_t read(int fd, void *buffer, size_t size)
{
	ssize_t result;

	if (__builtin_expect(vb_reread_is_suspect(fd), 0) &&
	    read_suspect(fd, buffer, size, &result))
		return result;
	return REAL(read)(fd, buffer, size);
}

VB_PUBLIC ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
	ssize_t result;

	if (__builtin_expect(vb_reread_is_suspect(fd), 0) && size <= room &&
	    read_suspect(fd, buffer, size, &result))
		return result;
	return REAL(__read_chk)(fd, buffer, size, room);
}

VB_PUBLIC ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
	before_pread(fd, offset);
	return REAL(pread)(fd, buffer, size, offset);
}

VB_PUBLIC ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset)
{
	before_pread(fd, offset);
	return REAL(pread64)(fd, buffer, size, offset);
}

VB_PUBLIC ssize_t __pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room)
{
	before_pread(fd, offset);
	return REAL(__pread_chk)(fd, buffer, size, offset, room);
}

VB_PUBLIC ssize_t __pread64_chk(int fd, void *buffer, size_t size, off64_t offset, size_t room)
{
	before_pread(fd, offset);
	return REAL(__pread64_chk)(fd, buffer, size, offset, room);
}

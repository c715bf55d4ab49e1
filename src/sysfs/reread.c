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

/* Programs compiled with _FORTIFY_SOURCE call these; no header declares them. */
ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buffer, size_t size, off64_t offset, size_t room);

enum { WATCHED_MAX = 64, FDS = 1024, WORD = 64 };

static struct watched {
	int fd;
	dev_t dev; /* the program may have closed fd and opened another file */
	ino_t ino;
	char path[VB_ATTRIBUTE_NAME_SIZE];
} table[WATCHED_MAX];          /* under lock; the oldest is forgotten for a new one */
static unsigned watched_count; /* since the start; under lock */

/* Threads only try this lock: a fork may have left it locked for ever. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Descriptors that may be in the table. Every read of the program looks at one bit. */
static _Atomic uint64_t suspects[FDS / WORD];

static inline bool is_suspect(int fd)
{
	return (unsigned)fd < FDS &&
	       atomic_load_explicit(&suspects[fd / WORD], memory_order_relaxed) >> fd % WORD & 1;
}

void vb_reread_watch(int fd, const char *path)
{
	struct watched *watched;
	struct stat info;

	if (fd >= FDS || fstat(fd, &info) || pthread_mutex_trylock(&lock))
		return;
	watched = &table[watched_count++ % WATCHED_MAX];
	*watched = (struct watched){ .fd = fd, .dev = info.st_dev, .ino = info.st_ino };
	snprintf(watched->path, sizeof(watched->path), "%s", path);
	atomic_fetch_or(&suspects[fd / WORD], UINT64_C(1) << fd % WORD);
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
			atomic_fetch_and(&suspects[fd / WORD], ~(UINT64_C(1) << fd % WORD));
		pthread_mutex_unlock(&lock);
	}
	errno = saved_errno;
}

static inline void before_read(int fd)
{
	if (__builtin_expect(is_suspect(fd), 0) && lseek(fd, 0, SEEK_CUR) == 0)
		refresh(fd);
}

static inline void before_pread(int fd, off64_t offset)
{
	if (__builtin_expect(is_suspect(fd), 0) && offset == 0)
		refresh(fd);
}

VB_PUBLIC ssize_t read(int fd, void *buffer, size_t size)
{
	before_read(fd);
	return REAL(read)(fd, buffer, size);
}

VB_PUBLIC ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
	before_read(fd);
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

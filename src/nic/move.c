/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "nic/freeze.h"
#include "nic/nic.h"

enum {
	LOG_FILE_BYTES = 46, /* half of a usual address space; only pages that are used count */
	TURN_NS = 20000000,  /* the service thread is rarely at work for longer */
};

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; without it nothing moves */
#endif

pthread_mutex_t vb_service_turn = PTHREAD_MUTEX_INITIALIZER;

/* --- nobody else runs --- */

static bool take_turn(void)
{
	const uint64_t until_ns = vb_now_ns() + TURN_NS;
	const struct timespec until = { (time_t)(until_ns / 1000000000),
					(long)(until_ns % 1000000000) };

	return !pthread_mutex_clocklock(&vb_service_turn, CLOCK_MONOTONIC, &until);
}

/* Signals first: a handler could start a thread. */
const char *vb_move_begin(struct vb_nic *nic, struct vb_move *move)
{
	const char *why;
	sigset_t all;

	move->nic = nic;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &move->signals);
	why = vb_move_threads_forbid(nic->engine ? nic->self->tid : 0);
	if (!why)
		why = vb_move_pins_forbid();
	if (!why && !take_turn())
		why = "the service thread is at work";
	if (why)
		pthread_sigmask(SIG_SETMASK, &move->signals, NULL);
	return why;
}

void vb_move_end(struct vb_move *move)
{
	pthread_mutex_unlock(&vb_service_turn);
	pthread_sigmask(SIG_SETMASK, &move->signals, NULL);
}

/* --- files and mappings --- */

/* Far longer than the region: a program may let its mapping grow by mremap. */
int vb_move_file(void)
{
	int file = vb_fd_high(memfd_create("verbena-region", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	int err;

	if (file < 0)
		return -errno;
	err = vb_truncate_quietly(file, 1ull << LOG_FILE_BYTES);
	if (!err && (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
		     fchmod(file, S_IRUSR | S_IWUSR)))
		err = -errno;
	if (err)
		vb_fd_close(&file);
	return err ? err : file;
}

static int prot_of(const char *perms)
{
	return (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
	       (perms[2] == 'x' ? PROT_EXEC : 0);
}

static bool line_read(const char *text, unsigned long inode, struct vb_mapping *at)
{
	unsigned long start, end, offset, its_inode;
	char perms[8];

	if (sscanf(text, "%lx-%lx %7s %lx %*x:%*x %lu", &start, &end, perms, &offset, &its_inode) <
		    5 ||
	    its_inode != inode || !strstr(text, "/memfd:verbena-region"))
		return false;
	*at = (struct vb_mapping){ start, end - start, offset, prot_of(perms) };
	return true;
}

/* All lines are read before the first visit, which changes them. */
int vb_mappings_of(int file, int (*visit)(const struct vb_mapping *at, void *arg), void *arg)
{
	enum { MAPPINGS = 64 }; /* a program that has cut it into more pieces keeps it as it is */
	struct vb_mapping found[MAPPINGS];
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned count = 0;
	struct stat st;
	char text[512];
	int err = 0;

	if (!maps || fstat(file, &st))
		err = -errno;
	while (!err && fgets(text, sizeof(text), maps))
		if (line_read(text, st.st_ino, &found[count]) && ++count == MAPPINGS)
			err = -E2BIG;
	if (maps)
		fclose(maps);
	for (unsigned i = 0; !err && i < count; i++)
		err = visit(&found[i], arg);
	return err;
}

/* Puts a mapping in the place of another one. */
static int replace(void *with, uint64_t length, uint64_t start)
{
	void *to = (void *)(uintptr_t)start;

	if (mremap(with, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
		return 0;
	return -errno;
}

/* --- out --- */

static void *map_populated(uint64_t length, int flags, int file)
{
	void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, file, 0);

	if (at == MAP_FAILED)
		return NULL;
	/* Not MAP_POPULATE, which hides a failure: there must be memory for every page. */
	if (!madvise(at, length, MADV_POPULATE_WRITE))
		return at;
	munmap(at, length);
	return NULL;
}

/*
 * From the freeze to the thaw nothing but this function writes: no thread of this process, no peer,
 * no handler of a signal. A child of fork that does not run our handlers has none of the pages.
 */
int vb_move_out(struct vb_move *move, const struct vb_range *range, int file)
{
	void *with = map_populated(range->length, MAP_SHARED, file);
	int err = -ENOMEM;

	if (!with)
		return err;
	madvise(with, range->length, MADV_DONTFORK);
	if (vb_freeze(move->nic, range->start, range->start + range->length, false)) {
		memcpy(with, (void *)(uintptr_t)range->start, range->length);
		err = replace(with, range->length, range->start);
		vb_thaw(move->nic);
	} else {
		err = -EBUSY;
	}
	if (err)
		munmap(with, range->length);
	return err;
}

/* --- back --- */

struct back {
	int file;
};

/* The bytes are read from the file: the program may have forbidden itself to read the mapping. */
static int mapping_back(const struct vb_mapping *at, void *arg)
{
	const struct back *back = arg;
	const struct vb_range range = { at->start, at->length };
	char *with = vb_move_is_stack(&range)
			     ? NULL
			     : map_populated(at->length, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint64_t done = 0;
	int err = with ? 0 : -ENOMEM;

	while (!err && done < at->length) {
		ssize_t got = pread(back->file, with + done, at->length - done,
				    (off_t)(at->offset + done));

		err = got > 0 ? 0 : got < 0 ? -errno : -EIO;
		done += got > 0 ? (uint64_t)got : 0;
	}
	if (!err && at->prot != (PROT_READ | PROT_WRITE) && mprotect(with, at->length, at->prot))
		err = -errno;
	if (!err)
		err = replace(with, at->length, at->start);
	if (err && with)
		munmap(with, at->length);
	return err;
}

int vb_move_back(struct vb_move *move, int file)
{
	struct back back = { file };
	int err;

	/* Another region may have the same memory, at any address by now. Views reach the file,
	 * which nobody looks at afterwards. */
	if (!vb_freeze(move->nic, 0, UINT64_MAX, true))
		return -EBUSY;
	err = vb_mappings_of(file, mapping_back, &back);
	vb_thaw(move->nic);
	return err;
}

int vb_move_back_in_child(int file)
{
	struct back back = { file };

	return vb_mappings_of(file, mapping_back, &back);
}

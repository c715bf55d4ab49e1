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
#include "nic/hold.h"
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

/* Whether pages may move although the program has several threads. */
static const char *threads_forbid(bool out)
{
	if (!(vb_move_rules_off & VB_RULE_ALONE))
		return "the program has several threads";
	if (vb_hold_kind() != VB_HOLD_THREADS || vb_move_rules_off & VB_RULE_HOLD)
		return "the program has several threads, and may not use userfaultfd";
	return out ? NULL : vb_move_calls_forbid(NULL, true);
}

/* Signals first: a handler could start a thread. */
const char *vb_move_begin(struct vb_nic *nic, struct vb_move *move, bool out)
{
	const char *why;
	sigset_t all;

	move->nic = nic;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &move->signals);
	move->alone = !vb_move_threads_forbid(nic->engine ? nic->self->tid : 0);
	why = move->alone ? NULL : threads_forbid(out);
	if (!why)
		why = vb_move_pins_forbid();
	if (!why && move->alone && !take_turn())
		why = "the service thread is at work";
	if (why)
		pthread_sigmask(SIG_SETMASK, &move->signals, NULL);
	return why;
}

void vb_move_end(struct vb_move *move)
{
	if (move->alone)
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

/* The bytes are copied from the place itself: nothing but this function writes there. */
static int move_alone(const struct vb_range *range, void *with)
{
	memcpy(with, (void *)(uintptr_t)range->start, range->length);
	return replace(with, range->length, range->start);
}

/* Nobody reaches the pages. Nothing is allocated, and no other memory is touched, from the taking
 * of the pages to their end. */
static int move_held(struct vb_hold *hold, const struct vb_range *range, void *with)
{
	int err = vb_hold_take(hold);

	if (err)
		return err;
	memcpy(with, hold->aside, range->length);
	if (vb_move_calls_forbid(range, false) || !vb_hold_is_whole(hold))
		err = -EAGAIN;
	else
		err = replace(with, range->length, range->start);
	if (err)
		vb_hold_give_back(hold);
	else
		vb_hold_follow(hold);
	return err;
}

/* Where the kernel cannot hold pages, being alone must do. */
static int move_frozen(const struct vb_move *move, const struct vb_range *range, void *with)
{
	struct vb_hold hold;
	int err = vb_move_rules_off & VB_RULE_HOLD
			  ? -EPERM
			  : vb_hold_open(&hold, range->start, range->length);

	if (err)
		return move->alone ? move_alone(range, with) : err;
	err = move_held(&hold, range, with);
	vb_hold_end(&hold);
	return err;
}

/* Every page is there, and this process has it alone, so that the kernel can move it. */
static int pages_prepare(const struct vb_range *range)
{
	return madvise((void *)(uintptr_t)range->start, range->length, MADV_POPULATE_WRITE) ? -errno
											    : 0;
}

/* A child of fork that does not run our handlers has none of the pages. */
int vb_move_out(struct vb_move *move, const struct vb_range *range, int file)
{
	int err = pages_prepare(range);
	void *with = err ? NULL : map_populated(range->length, MAP_SHARED, file);

	if (!with)
		return err ? err : -ENOMEM;
	madvise(with, range->length, MADV_DONTFORK);
	if (vb_freeze(move->nic, range->start, range->start + range->length, false)) {
		err = move_frozen(move, range, with);
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
	bool alone;
};

/* The bytes are read from the file: the program may have forbidden itself to read the mapping. */
static int bytes_back(const struct vb_mapping *at, int file, char *with)
{
	for (uint64_t done = 0; done < at->length;) {
		ssize_t got =
			pread(file, with + done, at->length - done, (off_t)(at->offset + done));

		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		done += (uint64_t)got;
	}
	if (at->prot != (PROT_READ | PROT_WRITE) && mprotect(with, at->length, at->prot))
		return -errno;
	return replace(with, at->length, at->start);
}

/* Nobody writes meanwhile, so nothing is allocated, as in move_held. */
static int bytes_back_held(const struct vb_mapping *at, int file, char *with)
{
	const struct vb_range range = { at->start, at->length };
	struct vb_hold hold;
	int err = vb_hold_writes(&hold, at->start, at->length);

	if (err)
		return err;
	if (at->prot != (PROT_READ | PROT_WRITE) || vb_move_calls_forbid(&range, true) ||
	    vb_move_pins_forbid()) /* since the first look */
		err = -EBUSY;
	else
		err = bytes_back(at, file, with);
	vb_hold_end(&hold);
	return err;
}

static int mapping_back(const struct vb_mapping *at, void *arg)
{
	const struct back *back = arg;
	const struct vb_range range = { at->start, at->length };
	char *with;
	int err;

	with = vb_move_is_stack(&range)
		       ? NULL
		       : map_populated(at->length, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!with)
		return -ENOMEM;
	err = back->alone ? bytes_back(at, back->file, with)
			  : bytes_back_held(at, back->file, with);
	if (err)
		munmap(with, at->length);
	return err;
}

int vb_move_back(struct vb_move *move, int file)
{
	struct back back = { file, move->alone };
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
	struct back back = { file, true };

	return vb_mappings_of(file, mapping_back, &back);
}

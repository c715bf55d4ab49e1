/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/userfaultfd.h>

#include "base/fd.h"
#include "base/message.h"
#include "nic/move.h"

#ifndef UFFDIO_MOVE /* Linux 6.8 */
struct uffdio_move {
	uint64_t dst, src, len, mode;
	int64_t move;
};
#define UFFDIO_MOVE                      _IOWR(UFFDIO, 0x05, struct uffdio_move)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES ((uint64_t)1 << 1)
#define UFFD_FEATURE_MOVE                (1 << 16)
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM /* Linux 5.19 */
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { TRIES = 100 }; /* of a page that the kernel is at work on */

static int faults_open(int flags)
{
	struct uffdio_api api = { .api = UFFD_API,
				  .features = UFFD_FEATURE_MOVE | UFFD_FEATURE_PAGEFAULT_FLAG_WP |
					      UFFD_FEATURE_WP_HUGETLBFS_SHMEM |
					      UFFD_FEATURE_EVENT_REMAP |
					      UFFD_FEATURE_EVENT_REMOVE };
	int fd = vb_fd_high((int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags));

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api))
		vb_fd_close(&fd);
	return fd;
}

/* A filter of system calls may end the program for the question. */
static int faults_get(enum vb_hold_kind *kind)
{
	int fd = -1;

	*kind = VB_HOLD_NONE;
	if (vb_move_has_filter())
		return -1;
	fd = faults_open(0);
	if (fd >= 0) {
		*kind = VB_HOLD_THREADS;
		return fd;
	}
	fd = faults_open(UFFD_USER_MODE_ONLY);
	if (fd >= 0)
		*kind = VB_HOLD_ALONE;
	return fd;
}

enum vb_hold_kind vb_hold_kind(void)
{
	enum vb_hold_kind kind;
	int fd = faults_get(&kind);

	vb_fd_close(&fd);
	return kind;
}

static int watch(int faults, uint64_t start, uint64_t length, uint64_t mode)
{
	struct uffdio_register range = { .range = { start, length }, .mode = mode };

	return ioctl(faults, UFFDIO_REGISTER, &range) ? -errno : 0;
}

static void unwatch(int faults, uint64_t start, uint64_t length)
{
	struct uffdio_range range = { start, length };

	ioctl(faults, UFFDIO_UNREGISTER, &range);
}

int vb_hold_open(struct vb_hold *hold, uint64_t start, uint64_t length)
{
	enum vb_hold_kind kind;
	void *aside;
	int err;

	*hold = (struct vb_hold){ .faults = faults_get(&kind), .start = start, .length = length };
	if (hold->faults < 0)
		return -EPERM;
	aside = mmap(NULL, 2 * length, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (aside == MAP_FAILED) {
		vb_fd_close(&hold->faults);
		return -ENOMEM;
	}
	hold->aside = aside;
	madvise(aside, 2 * length, MADV_DONTFORK);
	err = watch(hold->faults, (uintptr_t)aside, 2 * length, UFFDIO_REGISTER_MODE_MISSING);
	if (!err)
		err = watch(hold->faults, start, length,
			    UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
	if (err)
		vb_hold_end(hold);
	return err;
}

/* One call; the bytes that have moved, or -errno. Holes stay holes. */
static int64_t pages_move_once(int faults, uint64_t to, uint64_t from, uint64_t length)
{
	struct uffdio_move move = {
		.dst = to, .src = from, .len = length, .mode = UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES
	};

	if (!ioctl(faults, UFFDIO_MOVE, &move))
		return (int64_t)length;
	return move.move > 0 ? move.move : -errno;
}

/* Moves pages within this process; the bytes that have moved. The place may consist of several
 * mappings, and the kernel moves from one at a time: a length that it refuses is cut in halves. */
static uint64_t pages_move(int faults, uint64_t to, uint64_t from, uint64_t length, int *err)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t done = 0, piece = length;
	int tries = 0;

	*err = 0;
	while (done < length) {
		int64_t moved = pages_move_once(faults, to + done, from + done, piece);

		if (moved > 0) {
			done += (uint64_t)moved;
			piece = length - done;
			tries = 0;
		} else if (moved == -EINVAL && piece > page) {
			piece = piece / 2 / page * page;
		} else if (moved != -EAGAIN || ++tries > TRIES) {
			*err = (int)moved;
			return done;
		}
	}
	return done;
}

/* The program has discarded these bytes (MADV_DONTNEED): they are zeros, wherever they are. */
static void bytes_discard(const struct vb_hold *hold, uint64_t from, uint64_t to)
{
	const uint64_t end = hold->start + hold->length;

	from = from < hold->start ? hold->start : from;
	to = to > end ? end : to;
	if (from < to)
		memset(hold->aside + (from - hold->start), 0, to - from);
}

static void remap_note(struct vb_hold *hold, const struct uffd_msg *event)
{
	unsigned i = hold->remap_count;

	if (i == VB_HOLD_REMAPS)
		return;
	hold->remaps[i].from = event->arg.remap.from;
	hold->remaps[i].to = event->arg.remap.to;
	hold->remaps[i].length = event->arg.remap.len;
	hold->remap_count++;
}

/* Calls of the program that change the place wait until their events are read. True: there was one
 * of them. */
static bool events_read(struct vb_hold *hold)
{
	struct uffd_msg event;
	bool any = false;

	while (vb_read(hold->faults, &event, sizeof(event)) == (ssize_t)sizeof(event)) {
		any |= event.event != UFFD_EVENT_PAGEFAULT;
		if (event.event == UFFD_EVENT_REMAP)
			remap_note(hold, &event);
		if (event.event == UFFD_EVENT_REMOVE)
			bytes_discard(hold, event.arg.remove.start, event.arg.remove.end);
	}
	return any;
}

static uint64_t address_now(const struct vb_hold *hold, uint64_t address)
{
	for (unsigned i = 0; i < hold->remap_count; i++)
		if (address - hold->remaps[i].from < hold->remaps[i].length)
			address += hold->remaps[i].to - hold->remaps[i].from;
	return address;
}

/* A page whose place is not there any more, and has no new address, has no reader either. */
static void page_copy_back(struct vb_hold *hold, uint64_t at, uint64_t page)
{
	struct uffdio_copy copy = { .src = (uintptr_t)hold->aside + at, .len = page };
	int err;

	do {
		copy.dst = address_now(hold, hold->start + at);
		err = ioctl(hold->faults, UFFDIO_COPY, &copy) ? errno : 0;
	} while (err && (err == EAGAIN || err == ENOMEM || events_read(hold)));
}

/* A child that is made meanwhile, without the handlers of fork, has none of the pages. */
static void place_advise(const struct vb_hold *hold, int advice)
{
	madvise((void *)(uintptr_t)hold->start, hold->length, advice);
}

/* Pages are copied where the program has changed the address of the place, or its protection. */
static void pages_give_back(struct vb_hold *hold, uint64_t length)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t done = 0;
	int err;

	events_read(hold);
	if (!hold->remap_count)
		done = pages_move(hold->faults, hold->start, (uintptr_t)hold->aside, length, &err);
	events_read(hold);
	for (; done < length; done += page)
		page_copy_back(hold, done, page);
	place_advise(hold, MADV_DOFORK);
}

int vb_hold_take(struct vb_hold *hold)
{
	uint64_t done;
	int err;

	place_advise(hold, MADV_DONTFORK);
	done = pages_move(hold->faults, (uintptr_t)hold->aside, hold->start, hold->length, &err);
	unwatch(hold->faults, (uintptr_t)hold->aside, hold->length); /* holes are zeros */
	if (err)
		pages_give_back(hold, done);
	return err;
}

static int protect(const struct vb_hold *hold, uint64_t mode)
{
	struct uffdio_writeprotect range = { .range = { hold->start, hold->length }, .mode = mode };

	return ioctl(hold->faults, UFFDIO_WRITEPROTECT, &range) ? -errno : 0;
}

/* The place is watched, and the kernel would move from it: it is writable. Nothing is there to be
 * moved. */
bool vb_hold_is_whole(struct vb_hold *hold)
{
	int err;

	if (events_read(hold) || protect(hold, UFFDIO_WRITEPROTECT_MODE_DONTWAKE))
		return false;
	pages_move(hold->faults, (uintptr_t)hold->aside + hold->length, hold->start, hold->length,
		   &err);
	return !err;
}

int vb_hold_writes(struct vb_hold *hold, uint64_t start, uint64_t length)
{
	enum vb_hold_kind kind;
	int err;

	*hold = (struct vb_hold){ .faults = faults_get(&kind), .start = start, .length = length };
	if (kind != VB_HOLD_THREADS) {
		vb_fd_close(&hold->faults);
		return -EPERM;
	}
	err = watch(hold->faults, start, length, UFFDIO_REGISTER_MODE_WP);
	if (!err)
		err = protect(hold, UFFDIO_WRITEPROTECT_MODE_WP);
	if (err)
		vb_hold_end(hold);
	return err;
}

void vb_hold_give_back(struct vb_hold *hold)
{
	pages_give_back(hold, hold->length);
}

void vb_hold_follow(struct vb_hold *hold)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	events_read(hold);
	for (uint64_t at = 0; hold->remap_count && at < hold->length; at += page) {
		uint64_t there = address_now(hold, hold->start + at);

		if (there == hold->start + at)
			continue;
		page_copy_back(hold, at, page);
		munmap((void *)(uintptr_t)(hold->start + at), page);
	}
}

/* Closing the descriptor ends the watch, and wakes all. */
void vb_hold_end(struct vb_hold *hold)
{
	struct uffdio_range place = { hold->start, hold->length };

	ioctl(hold->faults, UFFDIO_WAKE, &place);
	vb_fd_close(&hold->faults);
	if (hold->aside)
		munmap(hold->aside, 2 * hold->length);
}

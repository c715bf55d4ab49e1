/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <linux/magic.h>

#include "base/fd.h"

enum {
	EXTENT_MIN = 256 << 10,
	PAGE_MAX = 64 << 10, /* kernels for arm64 have pages of 4, 16 or 64 KB */
};

/* ulimit -f applies to memfds, too. SIGXFSZ would end the application; the error does not. */
int vb_truncate_quietly(int fd, uint64_t size)
{
	sigset_t xfsz, before, pending;
	struct timespec none = { 0 };
	int err = 0;

	sigemptyset(&xfsz);
	sigaddset(&xfsz, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &xfsz, &before);
	if (ftruncate(fd, (off_t)size)) {
		err = -errno;
		sigpending(&pending);
		if (sigismember(&pending, SIGXFSZ))
			sigtimedwait(&xfsz, NULL, &none);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

static void *map_extent(int memfd, uint64_t offset, uint64_t size)
{
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, (off_t)offset);

	if (map == MAP_FAILED)
		return NULL;
	madvise(map, size, MADV_DONTFORK);
	madvise(map, size, MADV_DONTDUMP);
	return map;
}

/* Only tmpfs: huge pages can be missing even in a sealed file. F_GET_SEALS may fail with -1. */
bool vb_file_stays(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;

	return seals >= 0 && seals & F_SEAL_SHRINK && !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC;
}

static int life_init(pthread_mutex_t *life)
{
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	err = pthread_mutex_init(life, &attr);
	pthread_mutexattr_destroy(&attr);
	return -err;
}

static uint64_t page_round(uint64_t size)
{
	return (size + PAGE_MAX - 1) & ~(PAGE_MAX - 1ull);
}

static uint64_t offset_bit(const struct vb_segment *seg, const struct vb_segment_part *part)
{
	return part == &seg->parts[VB_PART_LENT] ? VB_LENT : 0;
}

/* Maps a new extent at the end of the file. The store of extent_count pairs with the acquire loads
 * in at_unmapped (peer.c) and vb_segment_at. */
static int extent_add(struct vb_segment *seg, struct vb_segment_part *part, uint64_t size)
{
	struct vb_segment_head *head = seg->head;
	uint32_t count = head ? atomic_load_explicit(&head->extent_count, memory_order_relaxed) : 0;
	void *map = map_extent(part->memfd, part->end, size);

	if (!map)
		return -ENOMEM;
	if (!head)
		head = seg->head = map;
	seg->maps[count] = map;
	head->extents[count] = (struct vb_extent){ part->end | offset_bit(seg, part), size };
	part->fresh = part->end;
	part->end += size;
	part->fresh_end = part->end;
	atomic_store_explicit(&head->extent_count, count + 1, memory_order_release);
	return 0;
}

/* F_SEAL_SEAL: peers may write the lent part, but cannot seal it against growing. */
static int part_create(struct vb_segment *seg, struct vb_segment_part *part, uint64_t head_size)
{
	uint64_t size = page_round(head_size) + EXTENT_MIN;
	int err;

	part->memfd = vb_fd_high(memfd_create("verbena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (part->memfd < 0)
		return -errno;
	err = vb_truncate_quietly(part->memfd, size);
	if (!err && (fcntl(part->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) ||
		     fchmod(part->memfd, S_IRUSR | S_IWUSR)))
		err = -errno;
	if (!err)
		err = extent_add(seg, part, size);
	part->fresh += page_round(head_size);
	return err;
}

/* Opens the memfd again without the right to write. Only /proc allows that. */
static int open_read_only(int memfd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
	return vb_fd_high(open(path, O_RDONLY | O_CLOEXEC));
}

int vb_segment_create(struct vb_segment *seg, uint32_t slot)
{
	struct vb_segment_head *head;
	int err;

	memset(seg, 0, sizeof(*seg));
	seg->shown_fd = seg->parts[VB_PART_SHOWN].memfd = seg->parts[VB_PART_LENT].memfd = -1;
	err = part_create(seg, &seg->parts[VB_PART_SHOWN], sizeof(*head));
	if (!err)
		err = part_create(seg, &seg->parts[VB_PART_LENT], sizeof(*seg->lent));
	if (err) {
		vb_segment_destroy(seg);
		return err;
	}
	seg->shown_fd = open_read_only(seg->parts[VB_PART_SHOWN].memfd);
	seg->lent = seg->maps[1];
	head = seg->head;
	head->layout_version = VB_LAYOUT_VERSION;
	head->slot = slot;
	head->nonce = vb_random64();
	vb_permutation_init(&head->keys, vb_random64());
	life_init(&head->life);
	head->magic = VB_SEGMENT_MAGIC;
	return 0;
}

static void free_list_drop(struct vb_free_block *block)
{
	while (block) {
		struct vb_free_block *next = block->next;

		free(block);
		block = next;
	}
}

static void part_destroy(struct vb_segment_part *part)
{
	for (int i = 0; i < VB_SIZE_CLASSES; i++)
		free_list_drop(part->free[i]);
	vb_fd_close(&part->memfd);
}

void vb_segment_destroy(struct vb_segment *seg)
{
	uint32_t count = seg->head ? atomic_load(&seg->head->extent_count) : 0;
	struct vb_extent extents[VB_EXTENTS];

	if (seg->head)
		memcpy(extents, seg->head->extents, sizeof(extents));
	for (uint32_t i = 0; i < count; i++)
		munmap(seg->maps[i], extents[i].size);
	for (int i = 0; i < VB_PARTS; i++)
		part_destroy(&seg->parts[i]);
	vb_fd_close(&seg->shown_fd);
	memset(seg, 0, sizeof(*seg));
	seg->shown_fd = seg->parts[VB_PART_SHOWN].memfd = seg->parts[VB_PART_LENT].memfd = -1;
}

/* Each extent is half as large as everything before it: few extents, little waste. */
static int part_grow(struct vb_segment *seg, struct vb_segment_part *part, uint64_t at_least)
{
	uint64_t size = page_round(part->end / 2 > at_least ? part->end / 2 : at_least);
	struct stat st;
	int err;

	if (atomic_load_explicit(&seg->head->extent_count, memory_order_relaxed) == VB_EXTENTS)
		return -ENOMEM;
	/* The file may be long enough already: an earlier growth could not be mapped, and the seal
	 * forbids shrinking. */
	err = fstat(part->memfd, &st) ? -errno : 0;
	if (!err && (uint64_t)st.st_size < part->end + size)
		err = vb_truncate_quietly(part->memfd, part->end + size);
	return err ? err : extent_add(seg, part, size);
}

/* Four classes per doubling: 64, 80, 96, 112, 128, 160 … rounded up to lines. */
static int size_class(size_t size, uint64_t *rounded)
{
	for (int index = 0; index < VB_SIZE_CLASSES; index++) {
		*rounded = (uint64_t)(4 + index % 4) << (index / 4 + 4);
		*rounded = (*rounded + VB_LINE - 1) & ~(VB_LINE - 1ull);
		if (*rounded >= size)
			return index;
	}
	return -1;
}

void *vb_segment_at(const struct vb_segment *seg, uint64_t offset)
{
	uint32_t count = atomic_load_explicit(&seg->head->extent_count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++) {
		const struct vb_extent *extent = &seg->head->extents[i];

		if (offset - extent->offset < extent->size)
			return (char *)seg->maps[i] + (offset - extent->offset);
	}
	return NULL;
}

static uint64_t part_alloc_fresh(struct vb_segment *seg, struct vb_segment_part *part,
				 uint64_t size)
{
	uint64_t offset;

	if (part->fresh_end - part->fresh < size && part_grow(seg, part, size))
		return 0;
	offset = part->fresh | offset_bit(seg, part);
	part->fresh += size;
	return offset;
}

static uint64_t part_alloc(struct vb_segment *seg, struct vb_segment_part *part, size_t size)
{
	uint64_t offset, rounded;
	int class = size_class(size, &rounded);

	if (class < 0)
		return 0;
	vb_spin_lock(&seg->lock);
	if (part->free[class]) {
		struct vb_free_block *block = part->free[class];

		part->free[class] = block->next;
		offset = block->offset;
		free(block);
		memset(vb_segment_at(seg, offset), 0, size);
	} else {
		offset = part_alloc_fresh(seg, part, rounded);
	}
	vb_spin_unlock(&seg->lock);
	return offset;
}

uint64_t vb_segment_alloc(struct vb_segment *seg, size_t size)
{
	return part_alloc(seg, &seg->parts[VB_PART_SHOWN], size);
}

uint64_t vb_segment_lend(struct vb_segment *seg, size_t size)
{
	return part_alloc(seg, &seg->parts[VB_PART_LENT], size);
}

void vb_segment_free(struct vb_segment *seg, uint64_t offset, size_t size)
{
	struct vb_segment_part *part = &seg->parts[offset & VB_LENT ? VB_PART_LENT : VB_PART_SHOWN];
	struct vb_free_block *block = offset ? malloc(sizeof(*block)) : NULL;
	uint64_t rounded;
	int class = size_class(size, &rounded);

	if (!block)
		return; /* the memory is lost until the process ends, nothing worse */
	vb_spin_lock(&seg->lock);
	*block = (struct vb_free_block){ offset, part->free[class] };
	part->free[class] = block;
	vb_spin_unlock(&seg->lock);
}

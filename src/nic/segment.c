/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/segment.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXTENT_MIN = 256 << 10 };

/* ulimit -f applies to memfds too: the signal would end the application, the error does not. */
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

int vb_robust_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	err = pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return -err;
}

static uint64_t page_round(uint64_t size)
{
	return (size + 4095) & ~4095ull;
}

int vb_segment_create(struct vb_segment *seg, uint32_t slot)
{
	uint64_t size = page_round(sizeof(struct vb_segment_head)) + EXTENT_MIN;
	struct vb_segment_head *head;
	int err;

	memset(seg, 0, sizeof(*seg));
	seg->memfd = vb_fd_high(memfd_create("verbena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (seg->memfd < 0)
		return -errno;
	err = vb_truncate_quietly(seg->memfd, size);
	if (!err && fcntl(seg->memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		err = -errno;
	head = err ? NULL : map_extent(seg->memfd, 0, size);
	if (!head) {
		vb_fd_close(&seg->memfd);
		return err ? err : -ENOMEM;
	}
	seg->head = seg->maps[0] = head;
	head->layout_version = VB_LAYOUT_VERSION;
	head->slot = slot;
	head->nonce = vb_random64();
	vb_permutation_init(&head->keys, vb_random64());
	vb_robust_mutex_init(&head->life);
	vb_robust_mutex_init(&head->atomics);
	head->extents[0] = (struct vb_extent){ 0, size };
	seg->fresh = page_round(sizeof(*head));
	seg->fresh_end = size;
	atomic_store(&head->extent_count, 1);
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

void vb_segment_destroy(struct vb_segment *seg)
{
	uint32_t count = seg->head ? atomic_load(&seg->head->extent_count) : 0;
	struct vb_extent extents[VB_EXTENTS];

	if (seg->head)
		memcpy(extents, seg->head->extents, sizeof(extents));
	for (uint32_t i = 0; i < count; i++)
		munmap(seg->maps[i], extents[i].size);
	for (int i = 0; i < VB_SIZE_CLASSES; i++)
		free_list_drop(seg->free[i]);
	vb_fd_close(&seg->memfd);
	memset(seg, 0, sizeof(*seg));
	seg->memfd = -1;
}

/* Each extent is half as large as everything before it: few extents, little waste. */
static int grow(struct vb_segment *seg, uint64_t at_least)
{
	struct vb_segment_head *head = seg->head;
	uint32_t count = atomic_load_explicit(&head->extent_count, memory_order_relaxed);
	uint64_t offset = head->extents[count - 1].offset + head->extents[count - 1].size;
	uint64_t size = page_round(offset / 2 > at_least ? offset / 2 : at_least);
	struct stat st;
	int err;

	if (count == VB_EXTENTS)
		return -ENOMEM;
	/* It may be long enough already, from a growth that could not be mapped; shrinking it is
	 * sealed. */
	err = fstat(seg->memfd, &st) ? -errno : 0;
	if (!err && (uint64_t)st.st_size < offset + size)
		err = vb_truncate_quietly(seg->memfd, offset + size);
	if (err)
		return err;
	seg->maps[count] = map_extent(seg->memfd, offset, size);
	if (!seg->maps[count])
		return -ENOMEM;
	head->extents[count] = (struct vb_extent){ offset, size };
	seg->fresh = offset;
	seg->fresh_end = offset + size;
	/* Pairs with the acquire load in a peer's look-up. */
	atomic_store_explicit(&head->extent_count, count + 1, memory_order_release);
	return 0;
}

/* Four classes per doubling: 64, 80, 96, 112, 128, 160 … rounded up to lines. */
static int size_class(size_t size, uint64_t *rounded)
{
	for (int class = 0; class < VB_SIZE_CLASSES; class++) {
		*rounded = (uint64_t)(4 + class % 4) << (class / 4 + 4);
		*rounded = (*rounded + VB_LINE - 1) & ~(VB_LINE - 1ull);
		if (*rounded >= size)
			return class;
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

static uint64_t alloc_fresh(struct vb_segment *seg, uint64_t size)
{
	uint64_t offset;

	if (seg->fresh_end - seg->fresh < size && grow(seg, size))
		return 0;
	offset = seg->fresh;
	seg->fresh += size;
	return offset;
}

uint64_t vb_segment_alloc(struct vb_segment *seg, size_t size)
{
	uint64_t offset, rounded;
	int class = size_class(size, &rounded);

	if (class < 0)
		return 0;
	vb_spin_lock(&seg->lock);
	if (seg->free[class]) {
		struct vb_free_block *block = seg->free[class];

		seg->free[class] = block->next;
		offset = block->offset;
		free(block);
		memset(vb_segment_at(seg, offset), 0, size);
	} else {
		offset = alloc_fresh(seg, rounded);
	}
	vb_spin_unlock(&seg->lock);
	return offset;
}

void vb_segment_free(struct vb_segment *seg, uint64_t offset, size_t size)
{
	struct vb_free_block *block = offset ? malloc(sizeof(*block)) : NULL;
	uint64_t rounded;
	int class = size_class(size, &rounded);

	if (!block)
		return; /* lost to this process, nothing worse */
	vb_spin_lock(&seg->lock);
	*block = (struct vb_free_block){ offset, seg->free[class] };
	seg->free[class] = block;
	vb_spin_unlock(&seg->lock);
}

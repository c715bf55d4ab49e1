/* SPDX-License-Identifier: BSD-2-Clause */
/* The owner's side of its segment: a sealed memfd that grows by extents, and an allocator. */
#ifndef VB_NIC_SEGMENT_H
#define VB_NIC_SEGMENT_H

#include "base/spin.h"
#include "nic/layout.h"

enum { VB_SIZE_CLASSES = 112 /* up to 16 GB */ };

struct vb_free_block {
	uint64_t offset;
	struct vb_free_block *next;
};

struct vb_segment {
	int memfd;
	struct vb_segment_head *head; /* extent 0 begins with it */
	void *maps[VB_EXTENTS];
	struct vb_spin lock; /* allocator state below */
	uint64_t fresh, fresh_end; /* unused rest of the last extent */
	struct vb_free_block *free[VB_SIZE_CLASSES]; /* by size class */
};

int vb_segment_create(struct vb_segment *seg, uint32_t slot);
void vb_segment_destroy(struct vb_segment *seg);
/* Zeroed memory on a cache line; gives its offset, 0 when out of memory. */
uint64_t vb_segment_alloc(struct vb_segment *seg, size_t size);
void vb_segment_free(struct vb_segment *seg, uint64_t offset, size_t size);
void *vb_segment_at(const struct vb_segment *seg, uint64_t offset);

/* What other shared files need as well. */
int vb_truncate_quietly(int fd, uint64_t size);
int vb_robust_mutex_init(pthread_mutex_t *mutex);

#endif

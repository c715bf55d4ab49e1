/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner's side of its segment: two sealed memfds that grow by extents, and an allocator. Peers
 * get a read-only descriptor of the shown part; the file's mode keeps processes of other users from
 * opening it again for writing.
 */
#ifndef VB_SHM_SEGMENT_H
#define VB_SHM_SEGMENT_H

#include "base/spin.h"
#include "shm/layout.h"

enum { VB_SIZE_CLASSES = 112 /* up to 16 GB */ };

struct vb_free_block {
	uint64_t offset;
	struct vb_free_block *next;
};

enum vb_part { VB_PART_SHOWN, VB_PART_LENT, VB_PARTS };

struct vb_segment_part {
	int memfd;
	uint64_t end;                                /* of its last extent */
	uint64_t fresh, fresh_end;                   /* unused rest of the last extent */
	struct vb_free_block *free[VB_SIZE_CLASSES]; /* by size class */
};

struct vb_segment {
	struct vb_segment_head *head; /* the beginning of the shown part */
	struct vb_lent_head *lent;    /* the beginning of the lent part */
	void *maps[VB_EXTENTS];
	int shown_fd; /* read-only descriptor of the shown part, for peers; -1: /proc makes none */
	struct vb_spin lock; /* allocator state below */
	struct vb_segment_part parts[VB_PARTS];
};

int vb_segment_create(struct vb_segment *seg, uint32_t slot);
void vb_segment_destroy(struct vb_segment *seg);
/* Zeroed, cache-aligned memory of the shown part: its offset, or 0 when out of memory. */
uint64_t vb_segment_alloc(struct vb_segment *seg, size_t size);
/* The same of the lent part. Peers may write it from the first moment on. */
uint64_t vb_segment_lend(struct vb_segment *seg, size_t size);
void vb_segment_free(struct vb_segment *seg, uint64_t offset, size_t size);
void *vb_segment_at(const struct vb_segment *seg, uint64_t offset);

/* ftruncate without SIGXFSZ; for other shared files as well. 0 or -errno. */
int vb_truncate_quietly(int fd, uint64_t size);
/* The file cannot become shorter: pages of a mapping never vanish. False for files that are no
 * sealed memfds: of those nothing is known. */
bool vb_file_stays(int fd);

#endif

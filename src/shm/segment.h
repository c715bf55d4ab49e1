/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner's side of its segment: two sealed memfds that grow by extents, and an allocator. Peers get
 * a descriptor of the shown part that the kernel lets them read only; the file's mode keeps processes
 * of other users from opening it anew.
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
	uint64_t fresh, fresh_end;                   /* unused rest of that one */
	struct vb_free_block *free[VB_SIZE_CLASSES]; /* by size class */
};

struct vb_segment {
	struct vb_segment_head *head; /* the shown part begins with it */
	struct vb_lent_head *lent;    /* the lent part begins with it */
	void *maps[VB_EXTENTS];
	int shown_fd; /* of the shown part, for peers: read-only; -1: there is none to be had */
	struct vb_spin lock; /* allocator state below */
	struct vb_segment_part parts[VB_PARTS];
};

int vb_segment_create(struct vb_segment *seg, uint32_t slot);
void vb_segment_destroy(struct vb_segment *seg);
/* Zeroed memory on a cache line that peers read; gives its offset, 0 when out of memory. */
uint64_t vb_segment_alloc(struct vb_segment *seg, size_t size);
/* The same that peers write as well, from the first moment on. */
uint64_t vb_segment_lend(struct vb_segment *seg, size_t size);
void vb_segment_free(struct vb_segment *seg, uint64_t offset, size_t size);
void *vb_segment_at(const struct vb_segment *seg, uint64_t offset);

/* What other shared files need as well. */
int vb_truncate_quietly(int fd, uint64_t size);
/* The file cannot become shorter under whoever maps it: its pages never vanish. Of other files than
 * memfds this is not known. */
bool vb_file_stays(int fd);

#endif

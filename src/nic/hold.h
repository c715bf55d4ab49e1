/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holding pages, by userfaultfd. The pages are taken out of the place where the program has them.
 * Until something is in that place again, every access waits: of a thread, of a system call, of
 * another process. The kernel takes no page that somebody has pinned (UFFDIO_MOVE, Linux 6.8).
 *
 *   vb_hold_take ---> the bytes are in `aside` ---> another mapping takes the place, or
 *                                                   vb_hold_give_back
 *                                              ---> vb_hold_end: all that waits goes on
 *
 * Pages of a file can only be held against writes (vb_hold_writes); pins are not known there.
 *
 * Between take and end the caller touches its stack and `aside` only: any other memory may be among
 * the pages, and any lock may belong to a thread that waits. So it allocates nothing.
 */
#ifndef VB_NIC_HOLD_H
#define VB_NIC_HOLD_H

#include <stdbool.h>
#include <stdint.h>

enum vb_hold_kind {
	VB_HOLD_NONE,   /* the kernel has no such call, or does not permit it */
	VB_HOLD_ALONE,  /* system calls would fail instead of wait: for programs with one thread */
	VB_HOLD_THREADS /* everything waits */
};

enum { VB_HOLD_REMAPS = 8 };

struct vb_hold {
	int faults; /* the descriptor of userfaultfd */
	uint64_t start, length;
	/* Parts of the place that the program has given another address (mremap). */
	struct {
		uint64_t from, to, length;
	} remaps[VB_HOLD_REMAPS];
	unsigned remap_count;
	char *aside; /* address space, twice the length; NULL: only writes are held */
};

/* The rights of this process. */
enum vb_hold_kind vb_hold_kind(void);
/* Prepares for whole pages of private anonymous memory. 0 or -errno. */
int vb_hold_open(struct vb_hold *hold, uint64_t start, uint64_t length);
/* 0 or -errno: nothing is held. -EBUSY: somebody has pages pinned. */
int vb_hold_take(struct vb_hold *hold);
/* True: the program has not changed the mapping since, or discarded its bytes. */
bool vb_hold_is_whole(struct vb_hold *hold);
void vb_hold_give_back(struct vb_hold *hold);
/* After another mapping has taken the place: a part that got another address just before has its
 * bytes there. */
void vb_hold_follow(struct vb_hold *hold);
/* Afterwards every write to these pages of a shared file waits. 0 or -errno: there is no end. */
int vb_hold_writes(struct vb_hold *hold, uint64_t start, uint64_t length);
/* Frees all; after take, lets all go on. */
void vb_hold_end(struct vb_hold *hold);

#endif

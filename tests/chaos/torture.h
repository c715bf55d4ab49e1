/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Acts of torture_map: what one thread of a program does to memory, while the memory is a region
 * that moves and peers write, read and count in it. An act knows the bytes that it must find.
 */
#ifndef CHAOS_TORTURE_H
#define CHAOS_TORTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TORTURE_PAGE = 4096,
	TORTURE_PAGES = 32,
	TORTURE_SHARED = 28, /* pages that peers use; the others belong to the act */
	TORTURE_SIZE = TORTURE_PAGES * TORTURE_PAGE,
	/* The layout of a page that peers use: words of the writers and their counter, then words
	 * of the act. */
	TORTURE_ACT_AT = 1024,
	TORTURE_BYTES_AT = 2048,
};

struct torture {
	char *memory;
	atomic_bool over;
	unsigned long turns;
	const char *broken; /* a sentence; NULL: nothing was lost */
};

struct torture_act {
	const char *name;
	void (*turn)(struct torture *torture, unsigned turn);
	void (*end)(void); /* after the last turn; may be NULL */
	bool pins;         /* it needs direct I/O, and regions seldom move beside it */
	bool holes;        /* for moments part of the memory cannot be registered */
};

extern const struct torture_act torture_acts[];
extern const unsigned torture_act_count;

/* Runs turns until it is over, or something is broken. For pthread_create. */
struct torture_run {
	const struct torture_act *act;
	struct torture *torture;
};
void *torture_main(void *run);
/* A file for direct I/O, made before the first act and removed at once; false: there is none. */
bool torture_file(const char *folder);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hints for tools that watch a program: ThreadSanitizer, MemorySanitizer, AddressSanitizer,
 * valgrind. The libraries are not built for a sanitizer, and another process writes memory behind
 * the back of all of them. So the libraries say, in the words of the tool that is there,
 *
 *   - which bytes are written now, by the libraries or by a peer;
 *   - which bytes a work request has read;
 *   - that all a thread did before one call happened before all that another thread does after
 *     another call (a release, and an acquire of the same address).
 *
 * Without a tool each place costs a load and a branch, and no function is called.
 */
#ifndef VB_BASE_ANNOTATE_H
#define VB_BASE_ANNOTATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vb_tool {
	VB_TOOL_THREADS = 1 << 0,  /* ThreadSanitizer */
	VB_TOOL_MEMORY = 1 << 1,   /* MemorySanitizer */
	VB_TOOL_ADDRESS = 1 << 2,  /* AddressSanitizer */
	VB_TOOL_MEMCHECK = 1 << 3, /* valgrind's tool of that name */
	VB_TOOL_TRACE = 1 << 4,    /* verbena trace: capture/ring.c sets and clears it */
};

/* enum vb_tool. Hidden, so that its address costs no load. vb_tools_find writes all but TRACE;
 * every later search finds the same. */
extern _Atomic unsigned vb_tools __attribute__((visibility("hidden")));

/* Looks which tools are there. Called before the first object is made; again: no effect. */
void vb_tools_find(void);

/* Any tool of valgrind. Some of them count instructions, and are told nothing. */
bool vb_on_valgrind(void);

/* Out of line: only for a program that a tool watches. */
void vb_tool_filled(const void *at, size_t size);
void vb_tool_written(const void *at, size_t size);
void vb_tool_read(const void *at, size_t size);
void vb_tool_sending(bool begin);
void vb_tool_release(const void *sync);
void vb_tool_acquire(const void *sync);

static inline bool vb_is_watched(void)
{
	return __builtin_expect(atomic_load_explicit(&vb_tools, memory_order_relaxed) != 0, 0);
}

/* A result of a call lies there: its bytes are defined. */
static inline void vb_tell_filled(const void *at, size_t size)
{
	if (vb_is_watched())
		vb_tool_filled(at, size);
}

/* A peer, or the NIC, has written there: its bytes are defined, and the writing is an access. */
static inline void vb_tell_written(const void *at, size_t size)
{
	if (vb_is_watched())
		vb_tool_written(at, size);
}

/* A work request that is complete has read there. */
static inline void vb_tell_read(const void *at, size_t size)
{
	if (vb_is_watched())
		vb_tool_read(at, size);
}

/* From begin to end a system call takes bytes of the program. Some may be undefined: padding. */
static inline void vb_tell_sending(bool begin)
{
	if (vb_is_watched())
		vb_tool_sending(begin);
}

/* sync: any address. Nothing there is touched. */
static inline void vb_tell_release(const void *sync)
{
	if (vb_is_watched())
		vb_tool_release(sync);
}

static inline void vb_tell_acquire(const void *sync)
{
	if (vb_is_watched())
		vb_tool_acquire(sync);
}

/*
 * After the last call of a function that programs call. As a jump, that call would look to a tool
 * as if the program had made it: a program that unlocks what it never locked.
 */
static inline void vb_tell_returns(void)
{
	__asm__ volatile("");
}

/* The address that stands for a number: a QP's, or a remote address. Two numbers may share one. */
const void *vb_sync_at(uint64_t number);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Call stacks: one object for all equal ones, so that a post costs little. */
#ifndef VB_CHECK_STACK_H
#define VB_CHECK_STACK_H

#include <stdint.h>

enum { VB_STACK_DEPTH = 16 };

struct vb_stack {
	struct vb_stack *next; /* same hash */
	uint64_t hash;
	uint32_t depth;
	void *pc[VB_STACK_DEPTH]; /* return addresses, the innermost first */
};

/* The stack of the caller of a function, from that function's return address and frame. */
const struct vb_stack *vb_stack_here(void *return_address, void *frame);

/* One object for all equal stacks. */
const struct vb_stack *vb_stack_intern(void *const *pc, uint32_t depth);
/* The stack from that place on, as a handler of a signal may ask for it. */
uint32_t vb_stack_walk(void *first, void **pc);

/* In the child of fork: the lock may have been held. */
void vb_stacks_forked(void);

#endif

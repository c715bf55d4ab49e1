/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unwinding costs a microsecond or more, a post less. So each thread remembers the stacks of its
 * last calls, by the place of the call and its depth. On x86-64 a return address lies right below
 * the frame of its function: a remembered stack is still true if all its return addresses are where
 * they were. Each one vouches for the place of the next.
 */
#include "check/stack.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

enum { BUCKETS = 4096, REMEMBERED = 64 };

struct memory {
	void *return_address, *frame;
	const struct vb_stack *stack;
	uint32_t checked;              /* frames whose return address can be compared */
	uintptr_t cfa[VB_STACK_DEPTH]; /* the return address lies right below */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_stack *buckets[BUCKETS]; /* under lock; never freed */
static __thread struct memory *memories __attribute__((tls_model("initial-exec")));
static pthread_key_t memories_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static const struct vb_stack unknown = { .depth = 0 };

static void key_make(void)
{
	pthread_key_create(&memories_key, free);
}

static uint64_t hash_of(void *const *pc, uint32_t depth)
{
	uint64_t hash = depth;

	for (uint32_t i = 0; i < depth; i++)
		hash = (hash ^ (uintptr_t)pc[i]) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

const struct vb_stack *vb_stack_intern(void *const *pc, uint32_t depth)
{
	const uint64_t hash = hash_of(pc, depth);
	struct vb_stack **bucket = &buckets[hash % BUCKETS], *stack;

	pthread_mutex_lock(&lock);
	for (stack = *bucket; stack; stack = stack->next)
		if (stack->hash == hash && stack->depth == depth &&
		    !memcmp(stack->pc, pc, depth * sizeof(*pc)))
			break;
	if (!stack) {
		stack = calloc(1, sizeof(*stack));
		if (stack) {
			stack->hash = hash;
			stack->depth = depth;
			memcpy(stack->pc, pc, depth * sizeof(*pc));
			stack->next = *bucket;
			*bucket = stack;
		}
	}
	pthread_mutex_unlock(&lock);
	return stack ? stack : &unknown;
}

void vb_stacks_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* --- unwinding --- */

struct walk {
	void *first; /* frames before this return address are the check's own */
	void *pc[VB_STACK_DEPTH];
	uintptr_t cfa[VB_STACK_DEPTH];
	uint32_t depth;
};

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg)
{
	struct walk *walk = arg;
	void *pc = (void *)_Unwind_GetIP(context);

	if (!pc || walk->depth == VB_STACK_DEPTH)
		return _URC_END_OF_STACK;
	if (!walk->depth && pc != walk->first)
		return _URC_NO_REASON;
	walk->cfa[walk->depth] = _Unwind_GetCFA(context);
	walk->pc[walk->depth++] = pc;
	return _URC_NO_REASON;
}

uint32_t vb_stack_walk(void *first, void **pc)
{
	struct walk walk = { .first = first };

	_Unwind_Backtrace(step, &walk);
	if (!walk.depth)
		walk.pc[walk.depth++] = first;
	memcpy(pc, walk.pc, walk.depth * sizeof(*pc));
	return walk.depth;
}

static bool lies_below(uintptr_t cfa, const void *pc)
{
#ifdef __x86_64__
	return *(void *const *)(cfa - sizeof(void *)) == pc;
#else
	return false;
#endif
}

static const struct vb_stack *unwind(struct memory *memory, void *return_address, void *frame)
{
	struct walk walk = { .first = return_address };

	_Unwind_Backtrace(step, &walk);
	if (!walk.depth) {
		walk.pc[0] = return_address;
		walk.depth = 1;
	}
	memory->return_address = return_address;
	memory->frame = frame;
	memory->stack = vb_stack_intern(walk.pc, walk.depth);
	for (memory->checked = 0; memory->checked < walk.depth; memory->checked++) {
		const uint32_t i = memory->checked;

		if (!walk.cfa[i] || !lies_below(walk.cfa[i], walk.pc[i]))
			break;
		memory->cfa[i] = walk.cfa[i];
	}
	return memory->stack;
}

static bool still_true(const struct memory *memory)
{
	for (uint32_t i = 0; i < memory->checked; i++)
		if (!lies_below(memory->cfa[i], memory->stack->pc[i]))
			return false;
	return true;
}

static struct memory *memories_make(void)
{
	pthread_once(&key_once, key_make);
	memories = calloc(REMEMBERED, sizeof(*memories));
	pthread_setspecific(memories_key, memories);
	return memories;
}

const struct vb_stack *vb_stack_here(void *return_address, void *frame)
{
	struct memory *all = memories ? memories : memories_make();
	const uintptr_t key = (uintptr_t)return_address ^ (uintptr_t)frame >> 4;
	struct memory *memory;

	if (!all)
		return &unknown;
	memory = &all[(key ^ key >> 6) % REMEMBERED];
	if (memory->return_address == return_address && memory->frame == frame &&
	    still_true(memory))
		return memory->stack;
	return unwind(memory, return_address, frame);
}

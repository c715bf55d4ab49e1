/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replaced calls: memory goes away. The check looks behind the real call: a library with a cache of
 * registrations deregisters within it.
 *
 * A freed block counts if the whole region lies in it, or memory of posted work. Some libraries
 * register whole pages around a block, and other blocks of those pages are freed with right.
 */
#include "check/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "check/create.h"
#include "check/report.h"
#include "check/watch.h"

/* The span of all regions that ever were: most blocks lie outside. */
static _Atomic uintptr_t lowest = UINTPTR_MAX, highest;

static struct {
	void (*free)(void *);
	void *(*realloc)(void *, size_t);
	size_t (*usable)(void *);
	int (*munmap)(void *, size_t);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	void *(*mremap)(void *, size_t, size_t, int, ...);
	int (*madvise)(void *, size_t, int);
} next;

/* volatile: the header says of dlsym that it calls nothing here, but it frees an old error. */
static __thread volatile bool finding __attribute__((tls_model("initial-exec")));

static void find_next(void)
{
	finding = true;
	next.usable = (__typeof__(next.usable))dlsym(RTLD_NEXT, "malloc_usable_size");
	next.realloc = (__typeof__(next.realloc))dlsym(RTLD_NEXT, "realloc");
	next.munmap = (__typeof__(next.munmap))dlsym(RTLD_NEXT, "munmap");
	next.mmap = (__typeof__(next.mmap))dlsym(RTLD_NEXT, "mmap64");
	next.mremap = (__typeof__(next.mremap))dlsym(RTLD_NEXT, "mremap");
	next.madvise = (__typeof__(next.madvise))dlsym(RTLD_NEXT, "madvise");
	next.free = (__typeof__(next.free))dlsym(RTLD_NEXT, "free");
	finding = false;
}

#define NEXT(call) (__builtin_expect(!next.free, 0) ? find_next() : (void)0, next.call)

void vb_memory_registered(const struct vb_object *mr)
{
	uintptr_t seen = atomic_load(&lowest);

	while (mr->addr < seen && !atomic_compare_exchange_weak(&lowest, &seen, mr->addr))
		;
	seen = atomic_load(&highest);
	while (mr->addr + mr->length > seen &&
	       !atomic_compare_exchange_weak(&highest, &seen, mr->addr + mr->length))
		;
}

static bool may_be_registered(uintptr_t addr, size_t length)
{
	return !vb_check_inside && addr < atomic_load_explicit(&highest, memory_order_relaxed) &&
	       addr + length > atomic_load_explicit(&lowest, memory_order_relaxed);
}

/* A living region in [addr, addr + length), wholly or in part. */
static struct vb_object *find_region(uintptr_t addr, size_t length, bool wholly)
{
	struct vb_object *mr;

	for (mr = vb_objects_first(); mr; mr = mr->next) {
		if (mr->kind != VB_KIND_MR || !mr->host_memory || mr->unmapped || mr->cached ||
		    !mr->length || atomic_load(&mr->gone))
			continue;
		if (wholly ? mr->addr >= addr && mr->addr + mr->length <= addr + length
			   : mr->addr < addr + length && mr->addr + mr->length > addr)
			return mr;
	}
	return NULL;
}

/* The device can reach the memory: not so if the region of the posted work is gone already. */
static bool reachable(const struct vb_range *range)
{
	for (const struct vb_object *mr = vb_objects_first(); mr; mr = mr->next)
		if (mr->kind == VB_KIND_MR && mr->host_memory && !atomic_load(&mr->gone) &&
		    mr->addr <= range->addr && mr->addr + mr->length >= range->addr + range->length)
			return true;
	return false;
}

/* The pages stay, and the next owner of the block shares it with the NIC. */
static void freed_in_flight(uintptr_t addr, size_t length, const char *how,
			    const struct vb_stack *stack)
{
	const struct vb_range *range = vb_range_in_use(addr, length);

	if (!range || !reachable(range) || (stack->depth && vb_check_by_library(stack->pc[0])))
		return;
	vb_report(VB_RULE_FREED, VB_CALLS({ "by", stack }, { "posted by", range->stack }),
		  "%s took %zu bytes at 0x%" PRIxPTR " away, and posted work still %s %" PRIu64
		  " bytes at 0x%" PRIx64 ".",
		  how, length, addr, range->writes ? "writes" : "reads", range->length,
		  range->addr);
}

static void taken_away(enum vb_rule rule, uintptr_t addr, size_t length, const char *how,
		       const struct vb_stack *stack)
{
	struct vb_object *mr;

	vb_check_enter();
	vb_watch_forget_memory(addr, length);
	mr = find_region(addr, length, rule == VB_RULE_FREED);
	if (mr && !(stack->depth && vb_check_by_library(stack->pc[0]))) {
		mr->unmapped = stack;
		vb_report(rule, VB_CALLS({ "by", stack }, { "registered by", mr->made }),
			  "%s took %zu bytes at 0x%" PRIxPTR " away, and a region of %" PRIu64
			  " bytes at 0x%" PRIx64 " (lkey 0x%x) is still registered there.",
			  how, length, addr, mr->length, mr->addr, mr->lkey);
	} else if (!mr && rule == VB_RULE_FREED) {
		freed_in_flight(addr, length, how, stack);
	}
	vb_check_leave();
}

/* --- the heap --- */

VB_PUBLIC void free(void *p)
{
	void (*real)(void *);

	if (finding)
		return; /* a few bytes of the loader's */
	real = NEXT(free);
	if (!p || vb_check_inside) {
		real(p);
		return;
	}
	if (vb_object_keeps(p, next.usable))
		return;
	if (__builtin_expect(may_be_registered((uintptr_t)p, 1), 0))
		taken_away(VB_RULE_FREED, (uintptr_t)p, next.usable(p), "free", VB_HERE());
	real(p);
}

VB_PUBLIC void *realloc(void *p, size_t size)
{
	void *(*real)(void *, size_t) = NEXT(realloc);
	const bool look = p && may_be_registered((uintptr_t)p, 1);
	const size_t before = look ? next.usable(p) : 0;
	void *moved = real(p, size);

	if (look && moved && moved != p)
		taken_away(VB_RULE_FREED, (uintptr_t)p, before, "realloc", VB_HERE());
	return moved;
}

/* --- mappings --- */

VB_PUBLIC int munmap(void *addr, size_t length)
{
	const int result = NEXT(munmap)(addr, length);
	const int error = errno;

	if (!result && may_be_registered((uintptr_t)addr, length))
		taken_away(VB_RULE_UNMAPPED, (uintptr_t)addr, length, "munmap", VB_HERE());
	errno = error;
	return result;
}

/* The header gives mmap the name of mmap64; the library has both. */
VB_PUBLIC void *vb_check_mmap(void *, size_t, int, int, int, off_t) __asm__("mmap");
VB_PUBLIC void *vb_check_mmap64(void *, size_t, int, int, int, off_t) __asm__("mmap64");

static void mapped(void *addr, size_t length, int flags, const void *result,
		   const struct vb_stack *stack)
{
	const int error = errno;

	if (flags & MAP_FIXED && result != MAP_FAILED)
		taken_away(VB_RULE_UNMAPPED, (uintptr_t)addr, length, "mmap with MAP_FIXED", stack);
	errno = error;
}

void *vb_check_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *result = NEXT(mmap)(addr, length, prot, flags, fd, offset);

	if (may_be_registered((uintptr_t)addr, length))
		mapped(addr, length, flags, result, VB_HERE());
	return result;
}

void *vb_check_mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *result = NEXT(mmap)(addr, length, prot, flags, fd, offset);

	if (may_be_registered((uintptr_t)addr, length))
		mapped(addr, length, flags, result, VB_HERE());
	return result;
}

VB_PUBLIC void *mremap(void *addr, size_t old_size, size_t new_size, int flags, ...)
{
	void *target = NULL, *result;
	va_list args;
	int error;

	va_start(args, flags);
	if (flags & MREMAP_FIXED)
		target = va_arg(args, void *);
	va_end(args);
	result = NEXT(mremap)(addr, old_size, new_size, flags, target);
	error = errno;
	if (result != MAP_FAILED && result != addr && may_be_registered((uintptr_t)addr, old_size))
		taken_away(VB_RULE_UNMAPPED, (uintptr_t)addr, old_size, "mremap", VB_HERE());
	else if (result == addr && new_size < old_size &&
		 may_be_registered((uintptr_t)addr + new_size, old_size - new_size))
		taken_away(VB_RULE_UNMAPPED, (uintptr_t)addr + new_size, old_size - new_size,
			   "mremap", VB_HERE());
	errno = error;
	return result;
}

/* The NIC keeps the pages that it has; the program gets others. */
VB_PUBLIC int madvise(void *addr, size_t length, int advice)
{
	const int result = NEXT(madvise)(addr, length, advice);
	const int error = errno;

	if (!result && (advice == MADV_DONTNEED || advice == MADV_REMOVE || advice == MADV_FREE) &&
	    may_be_registered((uintptr_t)addr, length))
		taken_away(VB_RULE_UNMAPPED, (uintptr_t)addr, length, "madvise", VB_HERE());
	errno = error;
	return result;
}

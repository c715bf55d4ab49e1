/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/annotate.h"

#include <stdlib.h>

/* Interfaces of the sanitizers' runtimes. The program has them, or it has not. */
#define RUNTIME extern __attribute__((weak, visibility("default")))
RUNTIME void __tsan_acquire(void *sync);
RUNTIME void __tsan_release(void *sync);
RUNTIME void __tsan_read_range(void *at, unsigned long size);
RUNTIME void __tsan_write_range(void *at, unsigned long size);
RUNTIME void __msan_unpoison(const volatile void *at, size_t size);
RUNTIME void __msan_scoped_disable_interceptor_checks(void);
RUNTIME void __msan_scoped_enable_interceptor_checks(void);
RUNTIME void *__asan_region_is_poisoned(void *at, size_t size);
RUNTIME void __asan_report_store_n(uintptr_t at, size_t size);

_Atomic unsigned vb_tools;

/* --- valgrind: requests are instructions without effect elsewhere --- */

#ifdef VB_HAS_VALGRIND
#include <valgrind/memcheck.h>

bool vb_on_valgrind(void)
{
	return RUNNING_ON_VALGRIND;
}

/* The answer to a request without bytes tells. */
static bool on_memcheck(void)
{
	return RUNNING_ON_VALGRIND && VALGRIND_MAKE_MEM_DEFINED(&vb_tools, 0);
}

/* Freed memory stays what it is. */
static void memcheck_define(const void *at, size_t size)
{
	(void)VALGRIND_MAKE_MEM_DEFINED_IF_ADDRESSABLE(at, size);
}

static void memcheck_write(const void *at, size_t size)
{
	(void)VALGRIND_CHECK_MEM_IS_ADDRESSABLE(at, size);
	memcheck_define(at, size);
}

static void memcheck_pause(bool begin)
{
	if (begin)
		VALGRIND_DISABLE_ERROR_REPORTING;
	else
		VALGRIND_ENABLE_ERROR_REPORTING;
}
#else
bool vb_on_valgrind(void)
{
	return false;
}

static bool on_memcheck(void)
{
	return false;
}

static void memcheck_define(const void *at, size_t size)
{
	(void)at;
	(void)size;
}

static void memcheck_write(const void *at, size_t size)
{
	memcheck_define(at, size);
}

static void memcheck_pause(bool begin)
{
	(void)begin;
}
#endif

/* --- all tools --- */

/* Libraries that are built for ThreadSanitizer show it what they do: our own tests. */
static bool is_built_for_tsan(void)
{
#ifdef __has_feature
	return __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_THREAD__)
	return true;
#else
	return false;
#endif
}

void vb_tools_find(void)
{
	unsigned found = 0;

	if (!is_built_for_tsan() && &__tsan_acquire && &__tsan_release && &__tsan_read_range &&
	    &__tsan_write_range)
		found |= VB_TOOL_THREADS;
	if (&__msan_unpoison && &__msan_scoped_disable_interceptor_checks &&
	    &__msan_scoped_enable_interceptor_checks)
		found |= VB_TOOL_MEMORY;
	if (&__asan_region_is_poisoned && &__asan_report_store_n)
		found |= VB_TOOL_ADDRESS;
	if (on_memcheck())
		found |= VB_TOOL_MEMCHECK;
	atomic_fetch_or_explicit(&vb_tools, found, memory_order_relaxed);
}

void vb_tool_filled(const void *at, size_t size)
{
	if (vb_tools & VB_TOOL_MEMORY)
		__msan_unpoison(at, size);
	if (vb_tools & VB_TOOL_MEMCHECK)
		memcheck_define(at, size);
}

/* Written to freed memory: AddressSanitizer reports the call that takes the completion. */
void vb_tool_written(const void *at, size_t size)
{
	if (!size)
		return;
	if (vb_tools & VB_TOOL_THREADS)
		__tsan_write_range((void *)at, size);
	if (vb_tools & VB_TOOL_MEMORY)
		__msan_unpoison(at, size);
	if (vb_tools & VB_TOOL_ADDRESS && __asan_region_is_poisoned((void *)at, size))
		__asan_report_store_n((uintptr_t)at, size);
	if (vb_tools & VB_TOOL_MEMCHECK)
		memcheck_write(at, size);
}

void vb_tool_read(const void *at, size_t size)
{
	if (size && vb_tools & VB_TOOL_THREADS)
		__tsan_read_range((void *)at, size);
}

void vb_tool_sending(bool begin)
{
	if (vb_tools & VB_TOOL_MEMORY && begin)
		__msan_scoped_disable_interceptor_checks();
	else if (vb_tools & VB_TOOL_MEMORY)
		__msan_scoped_enable_interceptor_checks();
	if (vb_tools & VB_TOOL_MEMCHECK)
		memcheck_pause(begin);
}

void vb_tool_release(const void *sync)
{
	if (vb_tools & VB_TOOL_THREADS)
		__tsan_release((void *)sync);
}

void vb_tool_acquire(const void *sync)
{
	if (vb_tools & VB_TOOL_THREADS)
		__tsan_acquire((void *)sync);
}

/* The runtime tells addresses apart that differ by 8. The table is never touched. */
const void *vb_sync_at(uint64_t number)
{
	enum { PLACES = 1 << 16 };
	static const uint64_t places[PLACES];

	return &places[(number * 0x9e3779b97f4a7c15ull) >> 48];
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What tools are told. This program has the functions of the sanitizers' runtimes itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/annotate.h"

static struct {
	const void *acquired, *released, *read, *written, *unpoisoned, *reported;
	size_t read_size, written_size, unpoisoned_size, reported_size;
	int paused;       /* begun and not ended */
	bool is_poisoned; /* the answer of AddressSanitizer */
} told;

#define RUNTIME __attribute__((visibility("default")))
RUNTIME void __tsan_acquire(void *sync);
RUNTIME void __tsan_release(void *sync);
RUNTIME void __tsan_read_range(void *at, unsigned long size);
RUNTIME void __tsan_write_range(void *at, unsigned long size);
RUNTIME void __msan_unpoison(const volatile void *at, size_t size);
RUNTIME void __msan_scoped_disable_interceptor_checks(void);
RUNTIME void __msan_scoped_enable_interceptor_checks(void);
RUNTIME void *__asan_region_is_poisoned(void *at, size_t size);
RUNTIME void __asan_report_store_n(uintptr_t at, size_t size);

void __tsan_acquire(void *sync)
{
	told.acquired = sync;
}

void __tsan_release(void *sync)
{
	told.released = sync;
}

void __tsan_read_range(void *at, unsigned long size)
{
	told.read = at;
	told.read_size = size;
}

void __tsan_write_range(void *at, unsigned long size)
{
	told.written = at;
	told.written_size = size;
}

void __msan_unpoison(const volatile void *at, size_t size)
{
	told.unpoisoned = (const void *)at;
	told.unpoisoned_size = size;
}

void __msan_scoped_disable_interceptor_checks(void)
{
	told.paused++;
}

void __msan_scoped_enable_interceptor_checks(void)
{
	told.paused--;
}

void *__asan_region_is_poisoned(void *at, size_t size)
{
	return told.is_poisoned && size ? at : NULL;
}

void __asan_report_store_n(uintptr_t at, size_t size)
{
	told.reported = (const void *)at;
	told.reported_size = size;
}

static char bytes[64];

static int begin(void **state)
{
	memset(&told, 0, sizeof(told));
	vb_tools_find();
	return 0;
}

static void before_the_tools_are_found_nothing_is_told(void **state)
{
	memset(&told, 0, sizeof(told));
	assert_false(vb_is_watched());
	vb_tell_filled(bytes, 8);
	vb_tell_written(bytes, 8);
	vb_tell_read(bytes, 8);
	vb_tell_release(bytes);
	vb_tell_acquire(bytes);
	assert_null(told.unpoisoned);
	assert_null(told.written);
	assert_null(told.read);
	assert_null(told.released);
	assert_null(told.acquired);
}

static void all_tools_are_found(void **state)
{
	assert_int_equal(vb_tools & ~(unsigned)VB_TOOL_MEMCHECK,
			 VB_TOOL_THREADS | VB_TOOL_MEMORY | VB_TOOL_ADDRESS);
}

static void a_result_is_defined_and_no_access(void **state)
{
	vb_tell_filled(bytes, 24);
	assert_ptr_equal(told.unpoisoned, bytes);
	assert_int_equal(told.unpoisoned_size, 24);
	assert_null(told.written);
}

static void received_bytes_are_defined_and_a_write(void **state)
{
	vb_tell_written(bytes + 8, 16);
	assert_ptr_equal(told.unpoisoned, bytes + 8);
	assert_int_equal(told.unpoisoned_size, 16);
	assert_ptr_equal(told.written, bytes + 8);
	assert_int_equal(told.written_size, 16);
	assert_null(told.reported);
}

static void received_bytes_in_freed_memory_are_reported(void **state)
{
	told.is_poisoned = true;
	vb_tell_written(bytes, 16);
	assert_ptr_equal(told.reported, bytes);
	assert_int_equal(told.reported_size, 16);
}

static void sent_bytes_are_a_read(void **state)
{
	vb_tell_read(bytes, 5);
	assert_ptr_equal(told.read, bytes);
	assert_int_equal(told.read_size, 5);
	assert_null(told.unpoisoned);
}

static void bytes_without_a_value_may_be_sent(void **state)
{
	vb_tell_sending(true);
	assert_int_equal(told.paused, 1);
	vb_tell_sending(false);
	assert_int_equal(told.paused, 0);
}

static void no_bytes_are_no_access(void **state)
{
	vb_tell_written(bytes, 0);
	vb_tell_read(bytes, 0);
	assert_null(told.written);
	assert_null(told.read);
}

static void a_release_and_its_acquire_have_one_address(void **state)
{
	vb_tell_release(vb_sync_at(0x123456));
	vb_tell_acquire(vb_sync_at(0x123456));
	assert_non_null(told.released);
	assert_ptr_equal(told.released, told.acquired);
}

/* Neighbours in their process, and the same place in two processes. */
static void numbers_of_qps_have_addresses_of_their_own(void **state)
{
	enum { COUNT = 64 };
	const void *found[2 * COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		found[i] = vb_sync_at(0x1000 + i);
		found[COUNT + i] = vb_sync_at(0x2000 + i);
	}
	for (unsigned i = 0; i < 2 * COUNT; i++) {
		assert_int_equal((uintptr_t)found[i] % 8, 0);
		for (unsigned j = 0; j < i; j++)
			assert_ptr_not_equal(found[i], found[j]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_the_tools_are_found_nothing_is_told),
		cmocka_unit_test_setup(all_tools_are_found, begin),
		cmocka_unit_test_setup(a_result_is_defined_and_no_access, begin),
		cmocka_unit_test_setup(received_bytes_are_defined_and_a_write, begin),
		cmocka_unit_test_setup(received_bytes_in_freed_memory_are_reported, begin),
		cmocka_unit_test_setup(sent_bytes_are_a_read, begin),
		cmocka_unit_test_setup(bytes_without_a_value_may_be_sent, begin),
		cmocka_unit_test_setup(no_bytes_are_no_access, begin),
		cmocka_unit_test_setup(a_release_and_its_acquire_have_one_address, begin),
		cmocka_unit_test_setup(numbers_of_qps_have_addresses_of_their_own, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

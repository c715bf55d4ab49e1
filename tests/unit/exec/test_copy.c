/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of bytes, and moving them: within the process and through the kernel. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "exec/copy.h"

enum { ROOM = 32, BYTES = 4096 };

static uint8_t here[BYTES], there[BYTES];
static struct iovec here_at[ROOM], there_at[ROOM];
static struct vb_iov here_list, there_list;

static int lists(void **state)
{
	for (size_t i = 0; i < BYTES; i++) {
		here[i] = (uint8_t)(i * 7 + 1);
		there[i] = 0xee;
	}
	here_list = (struct vb_iov){ .at = here_at, .room = ROOM };
	there_list = (struct vb_iov){ .at = there_at, .room = ROOM };
	return 0;
}

/* --- slices --- */

static const struct ibv_sge sges[] = {
	{ 0x1000, 3 }, { 0x2000, 0 }, { 0x3000, 5 }, { 0x4000, 1 }, { 0x5000, 0 }, { 0x6000, 7 },
};
enum { SGES = sizeof(sges) / sizeof(*sges), TOTAL = 16 };

/* The address of a byte of the list, counted one by one. */
static uint64_t address_of(size_t n)
{
	for (int i = 0; i < SGES; i++) {
		if (n < sges[i].length)
			return sges[i].addr + n;
		n -= sges[i].length;
	}
	return 0;
}

static void a_slice_names_the_bytes_from_offset_to_limit(void **state)
{
	for (size_t offset = 0; offset <= TOTAL + 2; offset++) {
		for (size_t limit = 0; limit <= TOTAL + 2; limit++) {
			size_t left = offset < TOTAL ? TOTAL - offset : 0, n = offset;
			size_t expected = limit < left ? limit : left;

			lists(NULL);
			assert_int_equal(vb_iov_slice(&here_list, sges, SGES, offset, limit),
					 expected);
			assert_int_equal(here_list.bytes, expected);
			for (unsigned i = 0; i < here_list.count; i++) {
				assert_true(here_at[i].iov_len > 0);
				for (size_t b = 0; b < here_at[i].iov_len; b++)
					assert_int_equal((uintptr_t)here_at[i].iov_base + b,
							 address_of(n++));
			}
			assert_int_equal(n, offset + expected);
		}
	}
}

static void a_slice_takes_what_fits_into_the_list(void **state)
{
	here_list.room = 2;
	assert_int_equal(vb_iov_slice(&here_list, sges, SGES, 1, 100), 2 + 5);
	assert_int_equal(here_list.count, 2);
	assert_int_equal(vb_iov_slice(&here_list, sges, SGES, 8, 100), 0);
}

static void slices_append(void **state)
{
	assert_int_equal(vb_iov_slice(&here_list, sges, SGES, 0, 4), 4);
	assert_int_equal(vb_iov_slice(&here_list, sges, SGES, 4, 100), 12);
	assert_int_equal(here_list.count, 5);
	assert_int_equal(here_list.bytes, TOTAL);
}

static void nothing_takes_no_room(void **state)
{
	here_list.room = 0;
	assert_true(vb_iov_add(&here_list, here, 0));
	assert_false(vb_iov_add(&here_list, here, 1));
	assert_int_equal(here_list.count, 0);
}

/* --- the order of visibility --- */

static void the_tail_from_the_last_multiple_of_8_is_an_element_of_its_own(void **state)
{
	struct ibv_sge one = { 0x555000, 64, 0 };

	for (uint64_t address = 0x1000; address < 0x1010; address++) {
		for (size_t length = 1; length <= 40; length++) {
			uint64_t last = (address + length - 1) / 8 * 8, end = address + length;
			uint64_t tail = last < address ? address : last;

			lists(NULL);
			assert_int_equal(
				vb_iov_slice_ordered(&here_list, &one, 1, 3, length, address),
				length);
			assert_int_equal(here_list.bytes, length);
			assert_int_equal(here_list.count, tail == address ? 1 : 2);
			assert_int_equal((uintptr_t)here_at[0].iov_base, 0x555003);
			assert_int_equal(here_at[here_list.count - 1].iov_len, end - tail);
		}
	}
	assert_int_equal(vb_iov_slice_ordered(&here_list, &one, 1, 0, 0, 0x1000), 0);
}

static void what_continues_a_remote_element_makes_it_longer(void **state)
{
	assert_true(vb_iov_add_remote(&there_list, 0x1000, 8));
	assert_true(vb_iov_add_remote(&there_list, 0x1008, 24));
	assert_true(vb_iov_add_remote(&there_list, 0x1021, 1));
	assert_true(vb_iov_add_remote(&there_list, 0x1000, 8));
	assert_int_equal(there_list.count, 3);
	assert_int_equal(there_at[0].iov_len, 32);
	assert_int_equal(there_list.bytes, 41);
	there_list.room = 3;
	assert_false(vb_iov_add_remote(&there_list, 0x9000, 8));
	assert_true(vb_iov_add_remote(&there_list, 0x1008, 8));
}

/* --- copying --- */

static struct vb_peer own = { .self = true };

/* This process as the kernel's system calls reach it. */
static struct vb_peer *through_kernel(void)
{
	static struct vb_peer peer;

	peer.tid = getpid();
	return &peer;
}

/* Cuts size bytes from base into parts of the given lengths, over and over. */
static void cut(struct vb_iov *iov, uint8_t *base, size_t size, const size_t *parts)
{
	for (size_t i = 0, done = 0; done < size; i++) {
		size_t part = parts[i % 3] < size - done ? parts[i % 3] : size - done;

		assert_true(vb_iov_add(iov, base + done, part));
		done += part;
	}
}

static const struct {
	size_t size, here[3], there[3];
} cuts[] = {
	{ 0, { 1, 1, 1 }, { 1, 1, 1 } },
	{ 1, { 1, 1, 1 }, { 1, 1, 1 } },
	{ 17, { 1, 2, 3 }, { 17, 1, 1 } },
	{ 17, { 17, 1, 1 }, { 3, 2, 1 } },
	{ 100, { 7, 13, 1 }, { 8, 24, 3 } },
	{ 1000, { 333, 1, 66 }, { 64, 128, 9 } },
	{ 1000, { 500, 500, 1 }, { 500, 500, 1 } },
	{ 4095, { 4095, 1, 1 }, { 1024, 7, 4000 } },
};
enum { CUTS = sizeof(cuts) / sizeof(*cuts) };

static void assert_copies(struct vb_peer *target, enum vb_direction direction)
{
	for (int i = 0; i < CUTS; i++) {
		uint8_t *to = direction == VB_FROM_TARGET ? here : there, before[BYTES];

		lists(NULL);
		if (direction == VB_FROM_TARGET) {
			memcpy(there, here, BYTES);
			memset(here, 0xee, BYTES);
		}
		memcpy(before, direction == VB_FROM_TARGET ? there : here, BYTES);
		cut(&here_list, here, cuts[i].size, cuts[i].here);
		cut(&there_list, there, cuts[i].size, cuts[i].there);
		assert_int_equal(vb_copy(target, direction, &here_list, &there_list), cuts[i].size);
		assert_memory_equal(to, before, cuts[i].size);
		assert_int_equal(to[cuts[i].size], 0xee);
		assert_memory_equal(direction == VB_FROM_TARGET ? there : here, before, BYTES);
	}
}

static void within_the_process_bytes_arrive_however_the_lists_are_cut(void **state)
{
	assert_copies(&own, VB_TO_TARGET);
	assert_copies(&own, VB_FROM_TARGET);
}

static void through_the_kernel_bytes_arrive_however_the_lists_are_cut(void **state)
{
	assert_copies(through_kernel(), VB_TO_TARGET);
	assert_copies(through_kernel(), VB_TO_TARGET_IN_ORDER);
	assert_copies(through_kernel(), VB_FROM_TARGET);
}

static void the_shorter_list_ends_the_copy(void **state)
{
	vb_iov_add(&here_list, here, 100);
	vb_iov_add(&there_list, there, 60);
	assert_int_equal(vb_copy(&own, VB_TO_TARGET, &here_list, &there_list), 60);
	assert_int_equal(there[60], 0xee);
	lists(NULL);
	vb_iov_add(&here_list, here, 50);
	vb_iov_add(&there_list, there, 60);
	assert_int_equal(vb_copy(&own, VB_TO_TARGET, &here_list, &there_list), 50);
	assert_int_equal(there[50], 0xee);
}

static void source_and_sink_within_the_process_may_overlap(void **state)
{
	uint8_t expected[200];

	memcpy(expected, here, sizeof(expected));
	vb_iov_add(&here_list, here, 200);
	vb_iov_add(&there_list, here + 3, 200);
	assert_int_equal(vb_copy(&own, VB_TO_TARGET, &here_list, &there_list), 200);
	assert_memory_equal(here + 3, expected, 200);
}

static void memory_that_is_not_there_is_a_fault_and_what_came_before_is_counted(void **state)
{
	uint8_t *pages =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	munmap(pages + 4096, 4096);
	vb_iov_add(&here_list, here, 200);
	vb_iov_add(&there_list, pages + 4096, 200);
	assert_int_equal(vb_copy(through_kernel(), VB_TO_TARGET, &here_list, &there_list), -EFAULT);
	lists(NULL);
	vb_iov_add(&here_list, here, 200);
	vb_iov_add(&there_list, pages + 3996, 100);
	vb_iov_add(&there_list, pages + 4096, 100);
	assert_int_equal(vb_copy(through_kernel(), VB_TO_TARGET, &here_list, &there_list), 100);
	munmap(pages, 4096);
}

/* The order itself is that of fences; a test sees that nothing is lost, left out or repeated. */
static void element_by_element_bytes_arrive_and_a_fault_ends_the_copy(void **state)
{
	uint8_t *pages =
		mmap(NULL, 131072, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vb_iov none = { there_at, 0, 0, 0 };

	assert_true(pages != MAP_FAILED);
	munmap(pages + 65536, 65536);
	vb_iov_add(&here_list, here, 100);
	vb_iov_add(&here_list, here + 100, 7);
	vb_iov_add(&here_list, here + 107, 93);
	vb_iov_add(&there_list, pages, 50);
	vb_iov_add(&there_list, pages + 64, 57);
	vb_iov_add(&there_list, pages + 65536 - 43, 86);
	assert_int_equal(vb_copy_in_order(through_kernel(), &here_list, &there_list), 150);
	assert_memory_equal(pages, here, 50);
	assert_memory_equal(pages + 64, here + 50, 57);
	there_list.at[2].iov_base = pages + 1000;
	assert_int_equal(vb_copy_in_order(through_kernel(), &here_list, &there_list), 193);
	assert_memory_equal(pages + 1000, here + 107, 86);
	there_list.at[0].iov_base = pages + 65536;
	assert_int_equal(vb_copy_in_order(through_kernel(), &here_list, &there_list), -EFAULT);
	assert_int_equal(vb_copy_in_order(through_kernel(), &none, &there_list), 0);
	munmap(pages, 65536);
}

static void only_elements_in_order_may_need_a_call_each(void **state)
{
	vb_iov_add(&here_list, here, 8);
	vb_iov_add(&there_list, there, 16);
	assert_true(vb_copy_is_one_call(VB_TO_TARGET_IN_ORDER, &here_list, &there_list));
	vb_iov_add(&here_list, here, 8);
	assert_true(vb_copy_is_one_call(VB_TO_TARGET, &here_list, &there_list));
	assert_true(vb_copy_is_one_call(VB_FROM_TARGET, &here_list, &there_list));
	assert_int_equal(vb_copy_is_one_call(VB_TO_TARGET_IN_ORDER, &here_list, &there_list),
			 VB_STORES_IN_ORDER);
}

static void a_process_that_is_gone_is_told_apart(void **state)
{
	struct vb_peer gone = { .tid = fork() };

	if (!gone.tid)
		_exit(0);
	assert_int_equal(waitpid(gone.tid, NULL, 0), gone.tid);
	vb_iov_add(&here_list, here, 8);
	vb_iov_add(&there_list, there, 8);
	assert_int_equal(vb_copy(&gone, VB_TO_TARGET, &here_list, &there_list), -ESRCH);
	assert_int_equal(vb_copy(&gone, VB_FROM_TARGET, &here_list, &there_list), -ESRCH);
	assert_int_equal(vb_copy_in_order(&gone, &here_list, &there_list), -ESRCH);
}

#define TEST(name) cmocka_unit_test_setup(name, lists)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_slice_names_the_bytes_from_offset_to_limit),
		TEST(a_slice_takes_what_fits_into_the_list),
		TEST(slices_append),
		TEST(nothing_takes_no_room),
		TEST(the_tail_from_the_last_multiple_of_8_is_an_element_of_its_own),
		TEST(what_continues_a_remote_element_makes_it_longer),
		TEST(within_the_process_bytes_arrive_however_the_lists_are_cut),
		TEST(through_the_kernel_bytes_arrive_however_the_lists_are_cut),
		TEST(the_shorter_list_ends_the_copy),
		TEST(source_and_sink_within_the_process_may_overlap),
		TEST(memory_that_is_not_there_is_a_fault_and_what_came_before_is_counted),
		TEST(element_by_element_bytes_arrive_and_a_fault_ends_the_copy),
		TEST(only_elements_in_order_may_need_a_call_each),
		TEST(a_process_that_is_gone_is_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

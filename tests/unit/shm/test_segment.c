/* SPDX-License-Identifier: BSD-2-Clause */
/* The allocator in the shared segment, and how it behaves when the system says no. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../child.h"
#include "shm/segment.h"

enum { SLOT = 77 };

static struct vb_segment seg;

static int create(void **state)
{
	return vb_segment_create(&seg, SLOT);
}

static int destroy(void **state)
{
	vb_segment_destroy(&seg);
	return 0;
}

static bool is_zero(const uint8_t *at, size_t size)
{
	return !size || (!at[0] && !memcmp(at, at + 1, size - 1));
}

static uint64_t alloc_filled(size_t size)
{
	uint64_t offset = vb_segment_alloc(&seg, size);
	uint8_t *at = vb_segment_at(&seg, offset);

	assert_true(offset);
	assert_non_null(at);
	assert_int_equal(offset % VB_LINE, 0);
	assert_int_equal((uintptr_t)at % VB_LINE, 0);
	assert_true(is_zero(at, size));
	memset(at, 0xee, size);
	return offset;
}

/* clang-format off */
static const size_t sizes[] = {
	1, 8, 63, 64, 65, 80, 81, 96, 112, 113, 127, 128, 129, 160, 161, 192, 193, 255, 256, 257,
	1000, 4095, 4096, 4097, 10000, 16384, 65535, 65536, 65537, 100000,
};
/* clang-format on */
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

static void memory_is_zeroed_and_on_a_cache_line_for_every_size(void **state)
{
	for (int i = 0; i < SIZES; i++)
		alloc_filled(sizes[i]);
}

static void freed_memory_comes_back_zeroed_for_every_size(void **state)
{
	for (int i = 0; i < SIZES; i++) {
		uint64_t first = alloc_filled(sizes[i]);

		vb_segment_free(&seg, first, sizes[i]);
		assert_int_equal(alloc_filled(sizes[i]), first);
	}
}

static void blocks_do_not_overlap_before_and_after_reuse(void **state)
{
	uint64_t at[3 * SIZES];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3 * SIZES; i++)
			at[i] = alloc_filled(sizes[i % SIZES]);
		for (int i = 0; i < 3 * SIZES; i++)
			for (int j = 0; j < i; j++)
				assert_true(at[i] + sizes[i % SIZES] <= at[j] ||
					    at[j] + sizes[j % SIZES] <= at[i]);
		for (int i = 0; i < 3 * SIZES; i++)
			vb_segment_free(&seg, at[i], sizes[i % SIZES]);
	}
}

static void the_same_blocks_serve_for_ever(void **state)
{
	uint32_t extents;

	vb_segment_free(&seg, alloc_filled(100000), 100000);
	extents = atomic_load(&seg.head->extent_count);
	for (int i = 0; i < 1000; i++)
		vb_segment_free(&seg, alloc_filled(100000), 100000);
	assert_int_equal(atomic_load(&seg.head->extent_count), extents);
}

/* Kernels with such pages map no offset between two of them. */
static void extents_begin_and_end_at_pages_of_64_kb(void **state)
{
	for (int i = 0; i < SIZES; i++)
		alloc_filled(40 * sizes[i]);
	assert_true(atomic_load(&seg.head->extent_count) > 2);
	for (uint32_t i = 0; i < atomic_load(&seg.head->extent_count); i++) {
		assert_int_equal(seg.head->extents[i].offset % 65536, 0);
		assert_int_equal(seg.head->extents[i].size % 65536, 0);
	}
}

static uint64_t end_of(uint32_t extent)
{
	return seg.head->extents[extent].offset + seg.head->extents[extent].size;
}

static void it_grows_by_extents_and_what_was_there_stays(void **state)
{
	uint64_t at[64];
	struct stat st;
	uint32_t count;

	for (int i = 0; i < 64; i++) {
		at[i] = alloc_filled(100000);
		memset(vb_segment_at(&seg, at[i]), i + 1, 100000);
	}
	count = atomic_load(&seg.head->extent_count);
	assert_in_range(count, 3, 17);
	for (int i = 0; i < 64; i++) {
		const uint8_t *bytes = vb_segment_at(&seg, at[i]);

		assert_int_equal(bytes[0], i + 1);
		assert_int_equal(bytes[99999], i + 1);
	}
	/* Extents lie one behind the other and inside the file, for peers to map. */
	assert_int_equal(seg.head->extents[1].offset, VB_LENT);
	for (uint32_t i = 2; i < count; i++)
		assert_int_equal(seg.head->extents[i].offset, end_of(i == 2 ? 0 : i - 1));
	assert_int_equal(fstat(seg.shown_fd, &st), 0);
	assert_int_equal(st.st_size, end_of(count - 1));
}

static void a_block_larger_than_everything_so_far_gets_an_extent(void **state)
{
	alloc_filled(8 << 20);
	alloc_filled(64);
}

static void the_head_says_whose_it_is(void **state)
{
	assert_int_equal(seg.head->magic, VB_SEGMENT_MAGIC);
	assert_int_equal(seg.head->layout_version, VB_LAYOUT_VERSION);
	assert_int_equal(seg.head->slot, SLOT);
}

static void neither_part_can_become_shorter_or_be_sealed_by_a_peer(void **state)
{
	for (int i = 0; i < VB_PARTS; i++) {
		int fd = seg.parts[i].memfd;

		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		assert_true(vb_file_stays(fd));
		assert_true(ftruncate(fd, 4096) && errno == EPERM);
		assert_true(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) && errno == EPERM);
	}
}

/* Whatever a peer does with its descriptor: the one that it holds is all that it has. */
static void peers_can_only_read_what_is_shown(void **state)
{
	struct stat st;
	void *map;

	assert_int_equal(fcntl(seg.shown_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(seg.shown_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, seg.shown_fd, 0),
			 MAP_FAILED);
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, seg.shown_fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(*(uint64_t *)map, VB_SEGMENT_MAGIC);
	assert_true(mprotect(map, 4096, PROT_READ | PROT_WRITE) && errno == EACCES);
	assert_true(write(seg.shown_fd, "x", 1) < 0 && errno == EBADF);
	munmap(map, 4096);
	assert_int_equal(fstat(seg.shown_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, S_IRUSR | S_IWUSR);
}

static int opened_anew_by_another_user(const void *arg)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", *(const int *)arg);
	child_check(!setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534));
	child_check(open(path, O_RDWR) < 0 && errno == EACCES);
	child_check(fchmod(*(const int *)arg, 0666) && errno == EPERM);
	return 0;
}

static void a_peer_that_has_become_another_user_cannot_open_it_for_writing(void **state)
{
	if (geteuid()) {
		print_message("# SKIPPED: only root can become another user\n");
		skip();
	}
	assert_child_passes(opened_anew_by_another_user, &seg.shown_fd);
}

static void the_two_parts_have_memory_of_their_own(void **state)
{
	uint64_t lent = vb_segment_lend(&seg, 64), shown = vb_segment_alloc(&seg, 64);

	assert_true(lent & VB_LENT);
	assert_false(shown & VB_LENT);
	vb_segment_free(&seg, lent, 64);
	assert_false(vb_segment_alloc(&seg, 64) & VB_LENT);
	assert_int_equal(vb_segment_lend(&seg, 64), lent);
}

static void other_files_than_sealed_memfds_may_become_shorter(void **state)
{
	FILE *file = tmpfile();
	int memfd = memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipe_fds[2];

	assert_non_null(file);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_false(vb_file_stays(fileno(file)));
	assert_false(vb_file_stays(pipe_fds[0]));
	assert_false(vb_file_stays(-1));
	assert_false(vb_file_stays(memfd));
	assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_true(vb_file_stays(memfd));
	fclose(file);
	close(memfd);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void what_lies_outside_has_no_address(void **state)
{
	const struct vb_extent *first = &seg.head->extents[0];

	assert_null(vb_segment_at(&seg, first->offset + first->size));
	assert_null(vb_segment_at(&seg, UINT64_MAX));
	assert_ptr_equal(vb_segment_at(&seg, 0), seg.head);
}

static void more_than_any_extent_can_hold_is_out_of_memory(void **state)
{
	assert_int_equal(vb_segment_alloc(&seg, SIZE_MAX), 0);
	assert_int_equal(vb_segment_alloc(&seg, 1ull << 40), 0);
	vb_segment_free(&seg, 0, 64); /* what a failed allocation gave */
	alloc_filled(64);
}

/* --- limits, in children --- */

static bool signal_is_blocked_or_pending(int number)
{
	sigset_t blocked, pending;

	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	sigpending(&pending);
	return sigismember(&blocked, number) || sigismember(&pending, number);
}

static int limit_set(int which, rlim_t value)
{
	struct rlimit limit;

	if (getrlimit(which, &limit))
		return -1;
	limit.rlim_cur = value;
	return setrlimit(which, &limit);
}

static int created_above_the_file_limit(const void *arg)
{
	struct vb_segment mine;

	child_check(!limit_set(RLIMIT_FSIZE, 4096));
	child_check(vb_segment_create(&mine, SLOT) == -EFBIG);
	child_check(mine.shown_fd == -1 && mine.parts[VB_PART_SHOWN].memfd == -1);
	child_check(!signal_is_blocked_or_pending(SIGXFSZ));
	return 0;
}

static void a_file_size_limit_is_an_error_and_not_a_signal_at_creation(void **state)
{
	assert_child_passes(created_above_the_file_limit, NULL);
}

static int grown_above_the_file_limit(const void *arg)
{
	struct vb_segment mine;
	int count = 0;

	child_check(!limit_set(RLIMIT_FSIZE, 2 << 20));
	child_check(!vb_segment_create(&mine, SLOT));
	while (vb_segment_alloc(&mine, 64 << 10))
		child_check(++count < 32);
	child_check(count > 2 && !signal_is_blocked_or_pending(SIGXFSZ));
	child_check(!limit_set(RLIMIT_FSIZE, RLIM_INFINITY));
	child_check(vb_segment_alloc(&mine, 64 << 10));
	return 0;
}

static void a_file_size_limit_is_out_of_memory_at_growth_until_it_is_lifted(void **state)
{
	assert_child_passes(grown_above_the_file_limit, NULL);
}

static int application_blocks_the_signal(const void *arg)
{
	struct vb_segment mine;
	sigset_t xfsz, after;

	sigemptyset(&xfsz);
	sigaddset(&xfsz, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &xfsz, NULL);
	child_check(!limit_set(RLIMIT_FSIZE, 4096));
	child_check(vb_segment_create(&mine, SLOT) == -EFBIG);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	child_check(sigismember(&after, SIGXFSZ));
	return 0;
}

static void the_applications_signal_mask_is_as_before(void **state)
{
	assert_child_passes(application_blocks_the_signal, NULL);
}

/* Once a bug in segment.c, grow: a failed mmap leaves the file longer than the extents say. */
static int grows_after_a_failed_map(const void *arg)
{
	struct rlimit before;
	struct vb_segment mine;
	uint64_t huge;

	child_check(!vb_segment_create(&mine, SLOT));
	child_check(!getrlimit(RLIMIT_AS, &before));
	child_check(!limit_set(RLIMIT_AS, 1 << 20)); /* less than is mapped: no map succeeds */
	huge = vb_segment_alloc(&mine, 64 << 20);
	child_check(!limit_set(RLIMIT_AS, before.rlim_cur));
	child_check(!huge);
	child_check(vb_segment_alloc(&mine, 512 << 10));
	return 0;
}

static void after_an_extent_that_could_not_be_mapped_smaller_ones_still_can(void **state)
{
	assert_child_passes(grows_after_a_failed_map, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory_is_zeroed_and_on_a_cache_line_for_every_size),
		TEST(freed_memory_comes_back_zeroed_for_every_size),
		TEST(blocks_do_not_overlap_before_and_after_reuse),
		TEST(the_same_blocks_serve_for_ever),
		TEST(extents_begin_and_end_at_pages_of_64_kb),
		TEST(it_grows_by_extents_and_what_was_there_stays),
		TEST(a_block_larger_than_everything_so_far_gets_an_extent),
		TEST(the_head_says_whose_it_is),
		TEST(neither_part_can_become_shorter_or_be_sealed_by_a_peer),
		TEST(peers_can_only_read_what_is_shown),
		TEST(a_peer_that_has_become_another_user_cannot_open_it_for_writing),
		TEST(the_two_parts_have_memory_of_their_own),
		cmocka_unit_test(other_files_than_sealed_memfds_may_become_shorter),
		TEST(what_lies_outside_has_no_address),
		TEST(more_than_any_extent_can_hold_is_out_of_memory),
		cmocka_unit_test(a_file_size_limit_is_an_error_and_not_a_signal_at_creation),
		cmocka_unit_test(a_file_size_limit_is_out_of_memory_at_growth_until_it_is_lifted),
		cmocka_unit_test(the_applications_signal_mask_is_as_before),
		cmocka_unit_test(after_an_extent_that_could_not_be_mapped_smaller_ones_still_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

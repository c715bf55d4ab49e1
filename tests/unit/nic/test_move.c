/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that move into a file and back: no byte is lost, and the program finds its memory as it
 * was. Each rule of nic/move.h is shown twice: kept, and switched off, which must do harm.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>

#include <cmocka.h>

#include "nic/hold.h"
#include "nic/map.h"
#include "rig.h"

enum { PAGE = 4096, PAGES = 64, LENGTH = PAGES * PAGE, ROUNDS = 50, MOVES = 300 };

static struct rig rig;
static char *memory; /* LENGTH bytes, private and anonymous */

static int open_rig(void **state)
{
	rig_open(&rig);
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	memset(memory, 7, LENGTH);
	vb_move_rules_off = 0;
	return 0;
}

static int close_rig(void **state)
{
	munmap(memory, LENGTH);
	rig_close(&rig);
	return 0;
}

static struct vb_mr *mapped(void *at, size_t length)
{
	struct vb_mr *mr = rig_register(rig.pd, at, length);

	assert_null(vb_map_region(mr, false));
	return mr;
}

/* The permissions of the page in /proc/self/maps: "rw-s" in a file, "rw-p" private. */
static bool page_has(const void *at, const char *perms, bool in_file)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512], its[8];
	bool found = false;

	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx-%lx %7s", &start, &end, its) == 3 && (uintptr_t)at >= start &&
		    (uintptr_t)at < end)
			found = !strcmp(its, perms) && !!strstr(line, "verbena-region") == in_file;
	fclose(file);
	return found;
}

static bool any_file(void)
{
	for (int fd = 0; fd < 8192; fd++) {
		char path[40], to[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, to, sizeof(to) - 1) > 0 && strstr(to, "verbena-region"))
			return true;
	}
	return false;
}

static void bytes_move_out_and_back(void **state)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct vb_mr *mr = mapped(memory, LENGTH);

		if (!round)
			assert_true(page_has(memory, "rw-s", true));
		for (unsigned i = 0; i < PAGES; i++)
			assert_int_equal(memory[i * PAGE]++, (char)(7 + 2 * round));
		assert_int_equal(vb_mr_deregister(mr), 0);
		for (unsigned i = 0; i < PAGES; i++)
			assert_int_equal(memory[i * PAGE]++, (char)(8 + 2 * round));
	}
	assert_true(page_has(memory, "rw-p", false));
	assert_false(any_file());
}

static void a_region_may_change_in_place(void **state)
{
	struct vb_mr *mr = mapped(memory, LENGTH);
	const struct vb_mr_spec half = { (uintptr_t)memory, LENGTH / 2, (uintptr_t)memory,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ };

	assert_int_equal(vb_mr_reregister(mr, &half, NULL), 0);
	assert_true(page_has(memory, "rw-p", false));
	assert_null(vb_map_region(mr, false));
	assert_true(page_has(memory, "rw-s", true));
	assert_true(page_has(memory + LENGTH / 2, "rw-p", false));
	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_int_equal(memory[LENGTH - 1], 7);
}

/* A file for reading only: what a region does not grant, no peer can do. */
static void rights_are_those_of_the_region(void **state)
{
	struct vb_mr_spec spec = { (uintptr_t)memory, LENGTH, (uintptr_t)memory,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ };
	struct vb_mr *mr;
	const struct vb_map *map;
	int fd;

	assert_int_equal(vb_mr_register(rig.pd, &spec, &mr), 0);
	assert_null(vb_map_region(mr, false));
	map = &rig.nic->maps->at[atomic_load(&mr->entry->map) - 1];
	assert_int_equal(vb_map_give(rig.nic, 0, map->serial, map->proof + 1), -1);
	assert_int_equal(vb_map_give(rig.nic, 0, map->serial + 1, map->proof), -1);
	assert_int_equal(vb_map_give(rig.nic, VB_MAPS_MAX, map->serial, map->proof), -1);
	fd = vb_map_give(rig.nic, 0, map->serial, map->proof);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(vb_mr_deregister(mr), 0);
	spec.access = IBV_ACCESS_LOCAL_WRITE;
	assert_int_equal(vb_mr_register(rig.pd, &spec, &mr), 0);
	assert_non_null(vb_map_region(mr, false));
	assert_int_equal(vb_mr_deregister(mr), 0);
}

/* The byte that a child sees after its parent has written another one. */
static int byte_in_child(void)
{
	int go[2], status;
	char byte = 1;
	pid_t child;

	assert_int_equal(pipe(go), 0);
	memory[PAGE] = 1;
	child = fork();
	if (!child) {
		if (read(go[0], &byte, 1) != 1)
			_exit(99);
		memory[0] = 3; /* the parent does not see this */
		_exit(memory[PAGE]);
	}
	memory[PAGE] = 2;
	memory[0] = 5;
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	close(go[0]);
	close(go[1]);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* --- rule 1: pages --- */

/* Bytes beside the region share its first and last page. */
static void neighbours_stay(void **state)
{
	struct vb_mr *mr = mapped(memory + 100, LENGTH - 200);

	assert_true(page_has(memory, "rw-p", false));
	assert_true(page_has(memory + PAGE, "rw-s", true));
	assert_true(page_has(memory + LENGTH - PAGE, "rw-p", false));
	assert_int_equal(vb_mr_deregister(mr), 0);
	vb_move_rules_off = VB_RULE_PAGES;
	mr = mapped(memory + 100, LENGTH - 200);
	assert_true(page_has(memory, "rw-s", true)); /* peers could write the neighbours */
	assert_int_equal(vb_mr_deregister(mr), 0);
}

static void other_memory_stays(void **state)
{
	char small[2 * PAGE] = { 0 };
	struct vb_mr *mr;

	munmap(memory, LENGTH);
	memory = mmap(memory, LENGTH, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	mr = rig_register(rig.pd, memory, LENGTH);
	assert_non_null(vb_map_region(mr, false));
	assert_int_equal(vb_mr_deregister(mr), 0);
	mr = rig_register(rig.pd, small, sizeof(small)); /* a stack */
	assert_non_null(vb_map_region(mr, false));
	assert_int_equal(vb_mr_deregister(mr), 0);
}

/* --- rule 2: threads --- */

static _Atomic bool over;
static uint64_t written[PAGES];

static void *write_on(void *arg)
{
	for (unsigned i = 0; !atomic_load(&over); i = (i + 1) % PAGES) {
		volatile uint64_t *word = (void *)(memory + i * PAGE);

		(*word)++;
		__atomic_store_n(&written[i], written[i] + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* The writer counts a write after it. */
static bool any_lost(void)
{
	bool lost = false;

	for (unsigned i = 0; i < PAGES; i++) {
		uint64_t least = __atomic_load_n(&written[i], __ATOMIC_ACQUIRE);

		lost |= *(volatile uint64_t *)(memory + i * PAGE) < least;
	}
	return lost;
}

/* Moves while a thread writes; false: a write was lost. */
static bool moves_beside_a_writer(unsigned *moves)
{
	struct vb_mr *mr = rig_register(rig.pd, memory, LENGTH);
	pthread_t thread;
	bool whole = true;

	memset(memory, 0, LENGTH);
	memset(written, 0, sizeof(written));
	atomic_store(&over, false);
	pthread_create(&thread, NULL, write_on, NULL);
	for (*moves = 0; *moves < MOVES && !any_lost() && !vb_map_region(mr, false); ++*moves) {
		const struct vb_mr_spec same = { mr->addr, mr->length, mr->iova, mr->access };

		if (vb_mr_reregister(mr, &same, NULL))
			break;
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < PAGES; i++)
		whole &= *(uint64_t *)(memory + i * PAGE) == written[i];
	assert_int_equal(vb_mr_deregister(mr), 0);
	return whole;
}

/* An ordinary user may not hold pages while system calls wait. */
static void a_second_thread_keeps_pages_where_they_are(void **state)
{
	unsigned moves;

	assert_true(moves_beside_a_writer(&moves));
	assert_int_equal(moves, 0);
	vb_move_rules_off = VB_RULE_THREADS | VB_RULE_HOLD;
	assert_false(moves_beside_a_writer(&moves));
	assert_true(moves > 0);
}

static void *wait_for_end(void *arg)
{
	while (!atomic_load(&over))
		usleep(100);
	return NULL;
}

/* A region that ends beside a second thread leaves its pages in the file, until it is alone. */
static void pages_that_cannot_move_back_are_left(void **state)
{
	struct vb_mr *mr = mapped(memory, LENGTH / 2), *other;
	pthread_t thread;

	atomic_store(&over, false);
	pthread_create(&thread, NULL, wait_for_end, NULL);
	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_true(page_has(memory, "rw-s", true));
	memory[0] = 9;
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	other = mapped(memory + LENGTH / 2, LENGTH / 2);
	assert_int_equal(vb_mr_deregister(other), 0);
	assert_true(page_has(memory, "rw-p", false));
	assert_int_equal(memory[0], 9);
	assert_false(any_file());
}

/* Where the system permits it, they move back beside a second thread. */
static void pages_move_back_beside_a_second_thread(void **state)
{
	struct vb_mr *mr = mapped(memory, LENGTH);
	pthread_t thread;

	atomic_store(&over, false);
	pthread_create(&thread, NULL, wait_for_end, NULL);
	memory[PAGE] = 9;
	vb_move_rules_off = VB_RULE_ALONE;
	assert_int_equal(vb_mr_deregister(mr), 0);
	if (vb_hold_kind() == VB_HOLD_THREADS) {
		assert_true(page_has(memory, "rw-p", false));
		assert_false(any_file());
	}
	assert_int_equal(memory[PAGE], 9);
	assert_int_equal(byte_in_child(), 1);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
}

static void *sleep_on_futex(void *arg)
{
	syscall(SYS_futex, memory, FUTEX_WAIT, 0x07070707, NULL, NULL, 0);
	atomic_store(&over, true);
	return NULL;
}

static bool sleeps_on_futex(void)
{
	const struct vb_range range = { (uintptr_t)memory, LENGTH };

	return vb_move_calls_forbid(&range, false) != NULL;
}

/* The name of a futex that processes share tells its file. */
static void a_sleeper_is_woken(void **state)
{
	struct vb_mr *mr = rig_register(rig.pd, memory, LENGTH);
	pthread_t thread;

	atomic_store(&over, false);
	pthread_create(&thread, NULL, sleep_on_futex, NULL);
	while (!sleeps_on_futex())
		sched_yield();
	if (vb_hold_kind() == VB_HOLD_THREADS) {
		vb_move_rules_off = VB_RULE_ALONE;
		assert_non_null(vb_map_region(mr, false));
		assert_true(page_has(memory, "rw-p", false));
		assert_int_equal(memory[LENGTH - 1], 7);
		vb_move_rules_off = VB_RULE_ALONE | VB_RULE_CALLS;
		assert_null(vb_map_region(mr, false));
		assert_int_equal(syscall(SYS_futex, memory, FUTEX_WAKE, 1, NULL, NULL, 0), 0);
		vb_move_rules_off = VB_RULE_CALLS | VB_RULE_THREADS;
		assert_int_equal(vb_mr_deregister(mr), 0);
		vb_move_rules_off = 0;
	} else {
		assert_int_equal(vb_mr_deregister(mr), 0);
	}
	assert_int_equal(syscall(SYS_futex, memory, FUTEX_WAKE, 1, NULL, NULL, 0), 1);
	pthread_join(thread, NULL);
}

/* Where the system permits it, pages move beside a thread that writes, and nothing is lost. */
static void pages_move_beside_a_writer(void **state)
{
	unsigned moves;

	if (vb_hold_kind() != VB_HOLD_THREADS) {
		print_message("# SKIPPED: the system does not let this user move pages\n");
		skip();
	}
	vb_move_rules_off = VB_RULE_ALONE;
	assert_true(moves_beside_a_writer(&moves));
	assert_int_equal(moves, MOVES);
}

/* --- rule 3: pins --- */

static struct io_uring_params ring_params;

static int ring_make(void)
{
	struct iovec buffer = { memory, LENGTH };
	int ring;

	memset(&ring_params, 0, sizeof(ring_params));
	ring = (int)syscall(SYS_io_uring_setup, 4, &ring_params);

	if (ring >= 0 &&
	    syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1)) {
		close(ring);
		return -1;
	}
	return ring;
}

/* Reads one byte of a pipe into the first byte of the pinned buffer. */
static void ring_read(int ring, int from)
{
	const size_t size = PAGE;
	char *at;
	uint32_t *tail, *array;
	struct io_uring_sqe *sqe;

	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	sqe = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	assert_true(at != MAP_FAILED && sqe != MAP_FAILED);
	*sqe = (struct io_uring_sqe){ .opcode = IORING_OP_READ_FIXED,
				      .fd = from,
				      .off = -1ull,
				      .addr = (uintptr_t)memory,
				      .len = 1 };
	tail = (uint32_t *)(at + ring_params.sq_off.tail);
	array = (uint32_t *)(at + ring_params.sq_off.array);
	array[*tail & 3] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	assert_int_equal(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0),
			 1);
	munmap(at, size);
	munmap(sqe, size);
}

static void pinned_pages_stay(void **state)
{
	struct vb_mr *mr = rig_register(rig.pd, memory, LENGTH);
	int ring = ring_make(), ends[2];

	if (ring < 0) {
		assert_int_equal(vb_mr_deregister(mr), 0);
		print_message("# SKIPPED: there is no io_uring here\n");
		skip();
	}
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "ab", 2), 2);
	assert_non_null(vb_map_region(mr, false));
	ring_read(ring, ends[0]);
	assert_int_equal(memory[0], 'a');
	vb_move_rules_off = VB_RULE_PINS;
	if (vb_hold_kind() != VB_HOLD_NONE) /* the kernel knows of the pins */
		assert_non_null(vb_map_region(mr, false));
	vb_move_rules_off = VB_RULE_PINS | VB_RULE_HOLD;
	assert_null(vb_map_region(mr, false));
	ring_read(ring, ends[0]);
	assert_int_equal(memory[0], 'a'); /* the byte is lost: it is in the old page */
	assert_int_equal(vb_mr_deregister(mr), 0);
	close(ring);
	close(ends[0]);
	close(ends[1]);
	vb_move_rules_off = 0;
	while (vb_move_pins_forbid()) /* the kernel unpins a little later */
		sched_yield();
}

static void asynchronous_io_is_found(void **state)
{
	aio_context_t context = 0;
	int fd, one = 1;

	assert_null(vb_move_pins_forbid());
	assert_int_equal(syscall(SYS_io_setup, 1, &context), 0);
	assert_non_null(vb_move_pins_forbid());
	syscall(SYS_io_destroy, context);
	assert_null(vb_move_pins_forbid());
	fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_null(vb_move_pins_forbid());
	if (!setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		assert_non_null(vb_move_pins_forbid());
	close(fd);
	/* Sanitizers have functions of these names that do nothing. */
	if (!syscall(SYS_mlock, memory, PAGE))
		assert_non_null(vb_move_pins_forbid());
	syscall(SYS_munlock, memory, PAGE);
	assert_null(vb_move_pins_forbid());
}

/* --- rule 4: fork --- */

static void a_child_has_the_pages_as_they_were(void **state)
{
	struct vb_mr *mr = mapped(memory, LENGTH);

	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(byte_in_child(), 1);
		assert_int_equal(memory[0], 5);
	}
	assert_true(page_has(memory, "rw-s", true));
	vb_move_rules_off = VB_RULE_FORK;
	assert_int_equal(byte_in_child(), 2);
	assert_int_equal(memory[0], 3);
	vb_move_rules_off = 0;
	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_int_equal(byte_in_child(), 1);
}

/* Without the handlers the child has none of the pages, rather than those of its parent. */
static void a_bare_child_has_no_such_pages(void **state)
{
	struct vb_mr *mr = mapped(memory, LENGTH);
	int status;
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		memory[0] = 3;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert_int_equal(memory[0], 7);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

/* --- calls of the program on its memory --- */

static void memory_that_was_unmapped_is_not_touched(void **state)
{
	struct vb_mr *mr = mapped(memory, LENGTH);
	char *again;

	munmap(memory, LENGTH);
	again = mmap(memory, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(again, memory);
	memory[0] = 9;
	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_int_equal(memory[0], 9);
	assert_false(page_has(memory + PAGE, "rw-p", false));
	assert_false(any_file());
}

static void memory_may_move_and_grow(void **state)
{
	struct vb_mr *mr = mapped(memory, LENGTH);
	char *moved = mremap(memory, LENGTH, 2 * LENGTH, MREMAP_MAYMOVE);

	assert_true(moved != MAP_FAILED);
	assert_int_equal(moved[LENGTH - 1], 7);
	assert_int_equal(moved[2 * LENGTH - 1], 0);
	moved[LENGTH] = 4;
	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_true(page_has(moved, "rw-p", false));
	assert_int_equal(moved[LENGTH - 1], 7);
	assert_int_equal(moved[LENGTH], 4);
	assert_false(any_file());
	memory = mremap(moved, 2 * LENGTH, LENGTH, 0);
}

static void protections_stay(void **state)
{
	struct vb_mr *mr = mapped(memory, LENGTH);

	assert_int_equal(mprotect(memory + PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(mprotect(memory + 2 * PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_true(page_has(memory, "rw-p", false));
	assert_true(page_has(memory + PAGE, "r--p", false));
	assert_true(page_has(memory + 2 * PAGE, "---p", false));
	assert_int_equal(mprotect(memory, LENGTH, PROT_READ | PROT_WRITE), 0);
	for (unsigned i = 0; i < PAGES; i++)
		assert_int_equal(memory[i * PAGE], 7);
}

/* docs/DEVIATIONS.md: a mapped region keeps bytes that the program discards. */
static void discarded_memory_is_empty_once_the_region_has_ended(void **state)
{
	struct vb_mr *mr = mapped(memory, LENGTH);

	assert_int_equal(madvise(memory, LENGTH, MADV_DONTNEED), 0);
	assert_int_equal(memory[0], 7);
	assert_int_equal(vb_mr_deregister(mr), 0);
	assert_int_equal(memory[0], 7);
	assert_int_equal(madvise(memory, LENGTH, MADV_DONTNEED), 0);
	assert_int_equal(memory[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)
		CASE(bytes_move_out_and_back),
		CASE(a_region_may_change_in_place),
		CASE(rights_are_those_of_the_region),
		CASE(neighbours_stay),
		CASE(other_memory_stays),
		CASE(a_second_thread_keeps_pages_where_they_are),
		CASE(pages_move_beside_a_writer),
		CASE(pages_that_cannot_move_back_are_left),
		CASE(pages_move_back_beside_a_second_thread),
		CASE(a_sleeper_is_woken),
		CASE(pinned_pages_stay),
		CASE(asynchronous_io_is_found),
		CASE(a_child_has_the_pages_as_they_were),
		CASE(a_bare_child_has_no_such_pages),
		CASE(memory_that_was_unmapped_is_not_touched),
		CASE(memory_may_move_and_grow),
		CASE(protections_stay),
		CASE(discarded_memory_is_empty_once_the_region_has_ended),
	};

	setenv("VERBENA_MAP", "auto", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

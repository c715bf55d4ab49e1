/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel says about threads of a child that is stopped, copies or does something else. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "nic/stopped.h"

enum { SIZE = 1 << 20, TRIES = 200 };

static void copies(bool write)
{
	char *memory = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct iovec here = { memory, SIZE }, there = { memory + SIZE, SIZE };

	for (;;)
		syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, getpid(), &here, 1,
			&there, 1, 0);
}

static void writes(void)
{
	copies(true);
}

static void reads(void)
{
	copies(false);
}

static void computes(void)
{
	for (;;)
		;
}

static void sleeps(void)
{
	for (;;)
		usleep(100);
}

static pid_t start(void (*work)(void))
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	work();
	_exit(1);
}

static void stop_child(pid_t child)
{
	int status;

	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
}

static void end(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Stops it again and again, and counts how often it was behind a copy. */
static unsigned behind(pid_t child, unsigned tries)
{
	unsigned count = 0;

	for (unsigned i = 0; i < tries; i++) {
		stop_child(child);
		count += vb_stopped_behind_copy(child, child);
		assert_int_equal(kill(child, SIGCONT), 0);
		usleep(1000 + i % 7 * 100); /* into its work, at another place each time */
	}
	return count;
}

static void a_thread_that_copies_is_mostly_stopped_behind_it(void **state)
{
	void (*const work[])(void) = { writes, reads };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		pid_t child = start(work[i]);

		assert_int_not_equal(behind(child, TRIES), 0);
		end(child);
	}
}

static void one_that_does_something_else_never_is(void **state)
{
	void (*const work[])(void) = { computes, sleeps };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		pid_t child = start(work[i]);

		assert_int_equal(behind(child, TRIES / 4), 0);
		end(child);
	}
}

static void one_that_runs_or_is_gone_is_not_stopped(void **state)
{
	pid_t child = start(writes);

	(void)state;
	for (unsigned i = 0; i < TRIES; i++)
		assert_false(vb_stopped_behind_copy(child, child));
	end(child);
	assert_false(vb_stopped_behind_copy(child, child));
	assert_false(vb_stopped_behind_copy(0, child));
	assert_false(vb_stopped_behind_copy(getpid(), 0));
}

static void a_process_is_stopped_from_the_signal_until_it_goes_on(void **state)
{
	pid_t child = fork();
	int status;

	if (!child) {
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(vb_stopped_process(child));
	kill(child, SIGCONT);
	assert_int_equal(waitpid(child, &status, WCONTINUED), child);
	assert_false(vb_stopped_process(child));
	assert_false(vb_stopped_process(getpid()));
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	assert_false(vb_stopped_process(child));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_is_stopped_from_the_signal_until_it_goes_on),
		cmocka_unit_test(a_thread_that_copies_is_mostly_stopped_behind_it),
		cmocka_unit_test(one_that_does_something_else_never_is),
		cmocka_unit_test(one_that_runs_or_is_gone_is_not_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

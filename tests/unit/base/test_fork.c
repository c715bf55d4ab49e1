/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of what happens at fork. Each case is a process of its own: nothing unregisters. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../child.h"
#include "base/fork.h"

static char order[64];

static void note(char what)
{
	order[strlen(order)] = what;
}

static void before_gsi(void)
{
	note('g');
}
static void parent_gsi(void)
{
	note('G');
}
static void child_gsi(void)
{
	note('1');
}
static void before_nic(void)
{
	note('n');
}
static void parent_nic(void)
{
	note('N');
}
static void child_nic(void)
{
	note('2');
}
static void child_port(void)
{
	note('3');
}

static const struct vb_fork_handlers gsi = { before_gsi, parent_gsi, child_gsi };
static const struct vb_fork_handlers nic = { before_nic, parent_nic, child_nic };
static const struct vb_fork_handlers port = { .child = child_port };

/* Whether a fork leaves this in the child and that in the parent. */
static int fork_gives(const char *in_child, const char *in_parent)
{
	int status;
	pid_t child;

	memset(order, 0, sizeof(order));
	child = fork();
	if (!child)
		_exit(strcmp(order, in_child) ? 1 : 0);
	child_check(waitpid(child, &status, 0) == child && !status);
	child_check(!strcmp(order, in_parent));
	return 0;
}

static int stages_run_in_order(const void *unused)
{
	vb_fork_register(VB_FORK_GSI, &gsi);
	vb_fork_register(VB_FORK_PORT, &port);
	vb_fork_register(VB_FORK_NIC, &nic);
	vb_fork_register(VB_FORK_GSI, &gsi);
	return fork_gives("ng312", "ngGN") || fork_gives("ng312", "ngGN");
}

static void locks_are_taken_in_order_whoever_registers_first(void **state)
{
	assert_child_passes(stages_run_in_order, NULL);
}

static int a_child_alone(const void *unused)
{
	vb_fork_register(VB_FORK_PORT, &port);
	return fork_gives("3", "");
}

static void a_stage_may_be_about_the_child_alone(void **state)
{
	assert_child_passes(a_child_alone, NULL);
}

/* --- stages that are registered while a thread forks --- */

static void register_meanwhile(void)
{
	note('m');
	vb_fork_register(VB_FORK_NIC, &nic); /* its turn was before */
	vb_fork_register(VB_FORK_PORT, &port);
}

static int late_ones(const void *unused)
{
	static const struct vb_fork_handlers meanwhile = { .prepare = register_meanwhile };

	vb_fork_register(VB_FORK_GIVEN, &meanwhile);
	return fork_gives("m3", "m") || fork_gives("nm32", "nmN");
}

static void only_what_was_prepared_is_undone(void **state)
{
	assert_child_passes(late_ones, NULL);
}

/* --- libraries that call each other --- */

static void library_prepare(void)
{
	note('l');
}

static void library_child(void)
{
	note('4');
}

/* As librdmacm's handlers are to those of libibverbs: they stand on their own. */
static int library_above(const void *unused)
{
	vb_fork_register(VB_FORK_PORT, &port);
	pthread_atfork(library_prepare, NULL, library_child);
	vb_fork_register(VB_FORK_NIC, &nic);
	return fork_gives("nl324", "nlN");
}

static void the_first_stage_that_prepares_decides_between_libraries(void **state)
{
	assert_child_passes(library_above, NULL);
}

/* --- threads that fork at the same time --- */

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

static void lock_first(void)
{
	pthread_mutex_lock(&first);
}
static void unlock_first(void)
{
	pthread_mutex_unlock(&first);
}
static void lock_second(void)
{
	pthread_mutex_lock(&second);
}
static void unlock_second(void)
{
	pthread_mutex_unlock(&second);
}

static void use_both(void)
{
	lock_first();
	lock_second();
	unlock_second();
	unlock_first();
}

enum { FORKS = 50 };

static void *fork_often(void *failed)
{
	for (int i = 0; i < FORKS; i++) {
		int status = 1;
		pid_t child = fork();

		if (!child) {
			use_both();
			_exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			*(int *)failed = 1;
		use_both();
	}
	return NULL;
}

static int several_threads(const void *unused)
{
	static const struct vb_fork_handlers of_first = { lock_first, unlock_first, unlock_first };
	static const struct vb_fork_handlers of_second = { lock_second, unlock_second,
							   unlock_second };
	enum { THREADS = 3 };
	int failed[THREADS] = { 0 };
	pthread_t threads[THREADS];

	vb_fork_register(VB_FORK_NIC, &of_second);
	vb_fork_register(VB_FORK_EXPORTS, &of_first);
	for (int i = 0; i < THREADS; i++)
		child_check(!pthread_create(&threads[i], NULL, fork_often, &failed[i]));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	child_check(!failed[0] && !failed[1] && !failed[2]);
	return 0;
}

static void threads_that_fork_and_work_do_not_wait_for_each_other(void **state)
{
	assert_child_passes(several_threads, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_are_taken_in_order_whoever_registers_first),
		cmocka_unit_test(a_stage_may_be_about_the_child_alone),
		cmocka_unit_test(only_what_was_prepared_is_undone),
		cmocka_unit_test(the_first_stage_that_prepares_decides_between_libraries),
		cmocka_unit_test(threads_that_fork_and_work_do_not_wait_for_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

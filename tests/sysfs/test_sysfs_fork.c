/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork under `verbena run`, while threads read files of a device: the library of the files calls
 * libibverbs, and both hold locks while a process forks.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define GID "/sys/class/infiniband/verbena0/ports/1/gids/0"

enum { THREADS = 2, FORKS = 200, HANG_S = 40 };

static atomic_bool enough;

static bool is_readable(void)
{
	int fd = open(GID, O_RDONLY | O_CLOEXEC);
	char byte;
	bool read_it = fd >= 0 && read(fd, &byte, 1) == 1;

	if (fd >= 0)
		close(fd);
	return read_it;
}

static void *read_until_enough(void *failed)
{
	while (!atomic_load(&enough))
		if (!is_readable())
			*(int *)failed = 1;
	return NULL;
}

static int fork_once(void)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		alarm(HANG_S); /* not inherited */
		_exit(is_readable() ? 0 : 1);
	}
	return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

/* A device is open, so that a fork takes all locks of libibverbs. */
static void readers_and_a_fork_do_not_wait_for_each_other(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int failed[THREADS] = { 0 };
	pthread_t threads[THREADS];
	struct ibv_context *context;

	alarm(HANG_S);
	assert_true(is_readable()); /* first of all: whoever registers first, the order is one */
	assert_non_null(list);
	assert_non_null(context = ibv_open_device(list[0]));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_until_enough, &failed[i]),
				 0);
	for (int i = 0; i < FORKS; i++)
		assert_int_equal(fork_once(), 0);
	atomic_store(&enough, true);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_false(failed[i]);
	}
	ibv_close_device(context);
	ibv_free_device_list(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_and_a_fork_do_not_wait_for_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

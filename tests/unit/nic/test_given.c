/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of what the application was given, against a plain list of the same. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "nic/given.h"

enum { OBJECTS = 3000, ROUNDS = 60000 };

static struct ibv_context first, second;
static struct ibv_pd pds[OBJECTS];

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void objects_come_and_go(void **state)
{
	static bool here[OBJECTS];
	uint32_t seed = 7;

	for (int i = 0; i < OBJECTS; i++)
		pds[i] = (struct ibv_pd){ &first, (uint32_t)i };
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t at = next_random(&seed) % OBJECTS;

		assert_int_equal(vb_given_check(VB_GIVEN_PD, &pds[at], "test"),
				 here[at] ? 0 : -EINVAL);
		if (!here[at]) {
			assert_int_equal(vb_given_add(VB_GIVEN_PD, &pds[at]), 0);
		} else {
			assert_int_equal(vb_given_end(VB_GIVEN_PD, &pds[at], "test"), 0);
			vb_given_ended(VB_GIVEN_PD, &pds[at], 0);
		}
		here[at] = !here[at];
	}
	for (int i = 0; i < OBJECTS; i++) {
		assert_int_equal(vb_given_check(VB_GIVEN_PD, &pds[i], "test"),
				 here[i] ? 0 : -EINVAL);
		if (here[i] && !vb_given_end(VB_GIVEN_PD, &pds[i], "test"))
			vb_given_ended(VB_GIVEN_PD, &pds[i], 0);
	}
}

static void kinds_do_not_mix(void **state)
{
	struct ibv_mr mr = { .context = &first, .handle = 3 };

	assert_int_equal(vb_given_add(VB_GIVEN_MR, &mr), 0);
	assert_int_equal(vb_given_check(VB_GIVEN_MR, &mr, "test"), 0);
	assert_int_equal(vb_given_check(VB_GIVEN_PD, &mr, "test"), -EINVAL);
	assert_int_equal(vb_given_end(VB_GIVEN_QP, &mr, "test"), -ENOENT);
	mr.handle = 4;
	assert_int_equal(vb_given_check(VB_GIVEN_MR, &mr, "test"), -EINVAL);
	assert_int_equal(vb_given_end(VB_GIVEN_MR, &mr, "test"), -ENOENT);
	mr.handle = 3;
	mr.context = &second;
	assert_int_equal(vb_given_check(VB_GIVEN_MR, &mr, "test"), -EINVAL);
	mr.context = &first;
	assert_int_equal(vb_given_check_in(&first, VB_GIVEN_MR, &mr, "test"), 0);
	assert_int_equal(vb_given_check_in(&second, VB_GIVEN_MR, &mr, "test"), -EINVAL);
	assert_int_equal(vb_given_check_in(NULL, VB_GIVEN_MR, &mr, "test"), -EINVAL);
	assert_int_equal(vb_given_check(VB_GIVEN_MR, NULL, "test"), -EINVAL);
	assert_int_equal(vb_given_end(VB_GIVEN_MR, &mr, "test"), 0);
	vb_given_ended(VB_GIVEN_MR, &mr, 0);
}

/* One that ends is taken by no call; it comes back if it could not end. */
static void ending_has_two_steps(void **state)
{
	struct ibv_pd pd = { &first, 9 };

	assert_int_equal(vb_given_add(VB_GIVEN_PD, &pd), 0);
	assert_int_equal(vb_given_end(VB_GIVEN_PD, &pd, "test"), 0);
	assert_int_equal(vb_given_check(VB_GIVEN_PD, &pd, "test"), -EINVAL);
	assert_int_equal(vb_given_end(VB_GIVEN_PD, &pd, "test"), -ENOENT);
	assert_int_equal(vb_given_ended(VB_GIVEN_PD, &pd, -EBUSY), -EBUSY);
	assert_int_equal(vb_given_check(VB_GIVEN_PD, &pd, "test"), 0);
	/* Its memory is another object before the second step: that one stays. */
	assert_int_equal(vb_given_end(VB_GIVEN_PD, &pd, "test"), 0);
	pd.handle = 10;
	assert_int_equal(vb_given_add(VB_GIVEN_PD, &pd), 0);
	vb_given_ended(VB_GIVEN_PD, &pd, 0);
	assert_int_equal(vb_given_check(VB_GIVEN_PD, &pd, "test"), 0);
	assert_int_equal(vb_given_end(VB_GIVEN_PD, &pd, "test"), 0);
	vb_given_ended(VB_GIVEN_PD, &pd, 0);
}

static _Atomic bool stop;

static void *come_and_go(void *arg)
{
	struct ibv_pd pd = { &first, 1 };

	while (!stop) {
		vb_given_add(VB_GIVEN_PD, &pd);
		vb_given_end(VB_GIVEN_PD, &pd, "test");
		vb_given_ended(VB_GIVEN_PD, &pd, 0);
	}
	return arg;
}

/* Whatever another thread was about when it was forked. */
static void a_child_has_its_parents(void **state)
{
	struct ibv_pd pd = { &second, 5 };
	pthread_t thread;
	int status;

	stop = false;
	assert_int_equal(vb_given_add(VB_GIVEN_PD, &pd), 0);
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(20);
			_exit(vb_given_check(VB_GIVEN_PD, &pd, "test") ||
			      vb_given_end(VB_GIVEN_PD, &pd, "test"));
		}
		assert_true(child > 0 && waitpid(child, &status, 0) == child);
		assert_int_equal(status, 0);
	}
	stop = true;
	pthread_join(thread, NULL);
	assert_int_equal(vb_given_end(VB_GIVEN_PD, &pd, "test"), 0);
	vb_given_ended(VB_GIVEN_PD, &pd, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_come_and_go),
		cmocka_unit_test(kinds_do_not_mix),
		cmocka_unit_test(ending_has_two_steps),
		cmocka_unit_test(a_child_has_its_parents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

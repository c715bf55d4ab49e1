/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of send queues that wait: one per CQ, and the CQs that have one. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "nic/nic.h"
#include "nic/qp.h"
#include "nic/waiters.h"

enum { CQS = 2, QPS = 4 };

/* QPs 0 and 1 complete to CQ 0, the others to CQ 1. */
struct rig {
	struct vb_nic nic;
	struct vb_cq cq[CQS];
	struct vb_qp qp[QPS];
};

static struct rig *rig;

static int setup(void **state)
{
	(void)state;
	rig = aligned_alloc(64, (sizeof(*rig) + 63) & ~63ul);
	if (!rig)
		return -1;
	memset(rig, 0, sizeof(*rig));
	vb_list_init(&rig->nic.waiting_cqs);
	for (int i = 0; i < CQS; i++) {
		rig->cq[i].nic = &rig->nic;
		vb_waiters_init(&rig->cq[i].waiters);
	}
	for (int i = 0; i < QPS; i++) {
		rig->qp[i].nic = &rig->nic;
		rig->qp[i].send_cq = &rig->cq[i / 2];
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(rig);
	return 0;
}

static void wait_until(int qp, uint64_t wake_ns)
{
	atomic_store(&rig->qp[qp].pend.wake_ns, wake_ns);
	vb_waiters_add(&rig->qp[qp]);
}

/* The CQs of a whole walk, which lets empty ones leave. */
static int walk(bool leaves)
{
	int cqs = 0;

	for (struct vb_waiters *at = vb_waiters_walk(&rig->nic, NULL, false); at;
	     at = vb_waiters_walk(&rig->nic, at, leaves))
		cqs++;
	return cqs;
}

static void the_longest_waiting_comes_first(void **state)
{
	struct vb_waiters *waiters = &rig->cq[0].waiters;

	(void)state;
	wait_until(1, 5);
	wait_until(0, 3);
	wait_until(1, 4); /* it waits already, now for another time */
	assert_int_equal(atomic_load(&waiters->count), 2);
	assert_int_equal(vb_waiters_next_ns(waiters), 3);
	assert_ptr_equal(vb_waiters_pop(waiters), &rig->qp[1]);
	assert_ptr_equal(vb_waiters_pop(waiters), &rig->qp[0]);
	assert_null(vb_waiters_pop(waiters));
	assert_int_equal(vb_waiters_next_ns(waiters), VB_NEVER_NS);
}

static void a_qp_that_goes_is_in_no_list(void **state)
{
	(void)state;
	wait_until(0, 1);
	vb_waiters_remove(&rig->qp[0]);
	vb_waiters_remove(&rig->qp[0]);
	assert_int_equal(atomic_load(&rig->cq[0].waiters.count), 0);
	assert_null(vb_waiters_pop(&rig->cq[0].waiters));
}

static void lists_of_cqs_are_apart(void **state)
{
	(void)state;
	wait_until(0, 1);
	wait_until(2, 1);
	assert_ptr_equal(vb_waiters_pop(&rig->cq[1].waiters), &rig->qp[2]);
	assert_null(vb_waiters_pop(&rig->cq[1].waiters));
	assert_int_equal(atomic_load(&rig->cq[0].waiters.count), 1);
}

/* A CQ whose QPs wait again and again does not write what all threads read. */
static void a_cq_stays_in_the_list_for_a_while(void **state)
{
	(void)state;
	assert_int_equal(walk(true), 0);
	for (int i = 0; i < 3; i++) {
		wait_until(0, 1);
		assert_int_equal(atomic_load(&rig->nic.waiting), 1);
		vb_waiters_pop(&rig->cq[0].waiters);
	}
	assert_int_equal(walk(false), 1);
	assert_int_equal(atomic_load(&rig->nic.waiting), 1);
	assert_int_equal(walk(true), 1); /* this walk found it empty */
	assert_int_equal(walk(true), 0);
	assert_int_equal(atomic_load(&rig->nic.waiting), 0);
}

static void a_cq_with_a_waiting_qp_does_not_leave(void **state)
{
	(void)state;
	wait_until(0, 1);
	wait_until(3, 1);
	assert_int_equal(walk(true), 2);
	assert_int_equal(walk(true), 2);
	assert_int_equal(atomic_load(&rig->nic.waiting), 2);
}

static void *end_cq(void *done)
{
	vb_waiters_end(&rig->cq[0]);
	atomic_store((_Atomic bool *)done, true);
	return NULL;
}

static void a_cq_ends_after_the_walk_has_left_it(void **state)
{
	struct vb_waiters *at;
	_Atomic bool done = false;
	pthread_t thread;

	(void)state;
	wait_until(0, 1);
	wait_until(2, 1);
	vb_waiters_remove(&rig->qp[0]);
	at = vb_waiters_walk(&rig->nic, NULL, false);
	assert_ptr_equal(at, &rig->cq[0].waiters);
	assert_int_equal(pthread_create(&thread, NULL, end_cq, &done), 0);
	for (int i = 0; i < 100; i++)
		sched_yield();
	assert_false(atomic_load(&done));
	at = vb_waiters_walk(&rig->nic, at, false);
	pthread_join(thread, NULL);
	assert_ptr_equal(at, &rig->cq[1].waiters);
	assert_null(vb_waiters_walk(&rig->nic, at, false));
	assert_int_equal(walk(false), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_longest_waiting_comes_first),
		TEST(a_qp_that_goes_is_in_no_list),
		TEST(lists_of_cqs_are_apart),
		TEST(a_cq_stays_in_the_list_for_a_while),
		TEST(a_cq_with_a_waiting_qp_does_not_leave),
		TEST(a_cq_ends_after_the_walk_has_left_it),
	};

	return cmocka_run_group_tests_name("nic/waiters", tests, NULL, NULL);
}

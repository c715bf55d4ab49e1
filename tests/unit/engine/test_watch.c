/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that the service thread watches for others, and the hook for established QPs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/comm_est.h"
#include "engine/watch.h"

enum { PATIENCE_MS = 20000 };

static _Atomic unsigned calls;
static _Atomic(void *) seen_arg;
static _Atomic pthread_t seen_thread;

static void on_readable(int fd, void *arg)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		return;
	atomic_store(&seen_arg, arg);
	atomic_store(&seen_thread, pthread_self());
	atomic_fetch_add(&calls, 1);
}

static void await(const _Atomic unsigned *count, unsigned value)
{
	uint64_t end_ns = vb_now_ns() + PATIENCE_MS * 1000000ull;

	while (atomic_load(count) < value && vb_now_ns() < end_ns)
		usleep(100);
	assert_int_equal(atomic_load(count), value);
}

static void readable_descriptors_are_told_of(void **state)
{
	struct vb_nic *nic = vb_nic_get();
	int ends[2], mark;

	assert_non_null(nic);
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	atomic_store(&calls, 0);
	assert_int_equal(vb_watch(nic, ends[0], on_readable, &mark), 0);
	assert_int_equal(vb_watch(nic, ends[0], on_readable, &mark), -EEXIST);
	assert_int_equal(write(ends[1], "abc", 3), 3); /* as long as it is readable */
	await(&calls, 3);
	assert_ptr_equal(atomic_load(&seen_arg), &mark);
	assert_false(pthread_equal(atomic_load(&seen_thread), pthread_self()));
	vb_unwatch(nic, ends[0]);
	assert_int_equal(write(ends[1], "d", 1), 1);
	/* Another one, watched later, is told: the first was not. */
	assert_int_equal(vb_watch(nic, ends[0], on_readable, NULL), 0);
	await(&calls, 4);
	assert_null(atomic_load(&seen_arg));
	vb_unwatch(nic, ends[0]);
	vb_unwatch(nic, ends[0]);
	close(ends[0]);
	close(ends[1]);
}

static void what_cannot_be_watched_is_an_error(void **state)
{
	assert_int_equal(vb_watch(vb_nic_get(), -1, on_readable, NULL), -EBADF);
}

/* --- the hook --- */

static _Atomic unsigned established;
static _Atomic uint32_t last_qpn;

static void on_established(uint32_t qpn)
{
	atomic_store(&last_qpn, qpn);
	atomic_fetch_add(&established, 1);
}

static void established_qps_are_told_of_in_order(void **state)
{
	struct vb_nic *nic = vb_nic_get();
	void (*tell)(uint32_t qpn);

	assert_null(atomic_load(&vb_qp_established));
	assert_int_equal(vb_comm_est_watch(nic, on_established), 0);
	tell = atomic_load(&vb_qp_established);
	assert_non_null(tell);
	for (uint32_t i = 1; i <= 100; i++)
		tell(i);
	await(&established, 100);
	assert_int_equal(atomic_load(&last_qpn), 100);
	assert_int_equal(vb_comm_est_watch(nic, NULL), 0);
	assert_null(atomic_load(&vb_qp_established));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readable_descriptors_are_told_of),
		cmocka_unit_test(what_cannot_be_watched_is_an_error),
		cmocka_unit_test(established_qps_are_told_of_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots: the name of a process among the processes of a network namespace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "../child.h"
#include "nic/limits.h"
#include "nic/slot.h"

enum { MANY = 32 };

static void claims_differ_and_are_in_range(void **state)
{
	uint32_t slots[MANY];
	int fds[MANY];

	for (int i = 0; i < MANY; i++) {
		fds[i] = vb_slot_claim(&slots[i]);
		assert_true(fds[i] >= 0);
		assert_in_range(slots[i], VB_SLOT_MIN, VB_SLOT_MAX);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(slots[i], slots[j]);
	}
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
}

static void a_claimed_slot_can_be_connected_to(void **state)
{
	uint32_t slot;
	int listener = vb_slot_claim(&slot), there = vb_slot_connect(slot), here;
	char byte = 0;

	assert_true(listener >= 0 && there >= 0);
	here = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(here >= 0);
	assert_int_equal(write(there, "x", 1), 1);
	assert_int_equal(read(here, &byte, 1), 1);
	assert_int_equal(byte, 'x');
	close(here);
	close(there);
	close(listener);
}

static void the_sockets_end_with_an_exec_and_never_block(void **state)
{
	uint32_t slot;
	int fds[2];

	fds[0] = vb_slot_claim(&slot);
	fds[1] = vb_slot_connect(slot);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
		assert_true(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
	}
	for (int i = 0; i < 2; i++)
		close(fds[i]);
}

static void a_slot_is_free_once_its_listener_is_closed(void **state)
{
	uint32_t slot;
	int listener = vb_slot_claim(&slot);

	assert_true(listener >= 0);
	close(listener);
	assert_int_equal(vb_slot_connect(slot), -ECONNREFUSED);
}

static void a_slot_that_cannot_exist_is_refused(void **state)
{
	assert_int_equal(vb_slot_connect(VB_SLOT_MIN - 1), -ECONNREFUSED);
	assert_int_equal(vb_slot_connect(VB_SLOT_MAX + 1), -ECONNREFUSED);
}

static int claims_and_is_killed(const void *arg)
{
	uint32_t slot;

	child_check(vb_slot_claim(&slot) >= 0);
	child_check(vb_slot_connect(slot) >= 0);
	dprintf(STDERR_FILENO, "%u", slot);
	raise(SIGKILL);
	return 1;
}

static void a_slot_is_free_once_its_process_is_killed(void **state)
{
	char said[64];
	uint32_t slot;
	int status = child_run(claims_and_is_killed, NULL, said, sizeof(said));

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(sscanf(said, "%u", &slot), 1);
	assert_int_equal(vb_slot_connect(slot), -ECONNREFUSED);
}

static void failed_connects_leave_no_descriptor_behind(void **state)
{
	int before = dup(STDERR_FILENO), after;

	close(before);
	for (int i = 0; i < 100; i++)
		assert_int_equal(vb_slot_connect(VB_SLOT_MAX + 1), -ECONNREFUSED);
	after = dup(STDERR_FILENO);
	close(after);
	assert_int_equal(after, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_differ_and_are_in_range),
		cmocka_unit_test(a_claimed_slot_can_be_connected_to),
		cmocka_unit_test(the_sockets_end_with_an_exec_and_never_block),
		cmocka_unit_test(a_slot_is_free_once_its_listener_is_closed),
		cmocka_unit_test(a_slot_that_cannot_exist_is_refused),
		cmocka_unit_test(a_slot_is_free_once_its_process_is_killed),
		cmocka_unit_test(failed_connects_leave_no_descriptor_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

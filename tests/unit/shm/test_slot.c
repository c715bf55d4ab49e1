/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots: the name of a process among the processes of a network namespace. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "../child.h"
#include "base/limits.h"
#include "shm/slot.h"

enum { MANY = 32 };

static void claims_differ_and_are_in_range(void **state)
{
	struct vb_slot_claim claims[MANY];

	for (int i = 0; i < MANY; i++) {
		assert_int_equal(vb_slot_claim(&claims[i], i % 2), 0);
		assert_in_range(claims[i].slot, VB_SLOT_MIN, VB_SLOT_MAX);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(claims[i].slot, claims[j].slot);
	}
	for (int i = 0; i < MANY; i++)
		vb_slot_release(&claims[i]);
}

static void a_claimed_slot_can_be_connected_to(void **state)
{
	struct vb_slot_claim claim;
	char byte = 0;
	int there, here;

	assert_int_equal(vb_slot_claim(&claim, true), 0);
	there = vb_slot_connect(claim.slot);
	assert_true(there >= 0);
	here = accept4(claim.listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(here >= 0);
	assert_int_equal(write(there, "x", 1), 1);
	assert_int_equal(read(here, &byte, 1), 1);
	assert_int_equal(byte, 'x');
	close(here);
	close(there);
	vb_slot_release(&claim);
}

static void the_sockets_end_with_an_exec_and_never_block(void **state)
{
	struct vb_slot_claim claim;
	int fds[4];

	assert_int_equal(vb_slot_claim(&claim, true), 0);
	fds[0] = claim.listener;
	fds[1] = claim.cm;
	fds[2] = claim.life;
	fds[3] = vb_slot_connect(claim.slot);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
		assert_true(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
	}
	close(fds[3]);
	vb_slot_release(&claim);
}

static void a_slot_is_free_once_its_listener_is_closed(void **state)
{
	struct vb_slot_claim claim;

	assert_int_equal(vb_slot_claim(&claim, true), 0);
	vb_slot_release(&claim);
	assert_int_equal(vb_slot_connect(claim.slot), -ECONNREFUSED);
}

static void a_slot_that_cannot_exist_is_refused(void **state)
{
	assert_int_equal(vb_slot_connect(VB_SLOT_MIN - 1), -ECONNREFUSED);
	assert_int_equal(vb_slot_connect(VB_SLOT_MAX + 1), -ECONNREFUSED);
}

static int claims_and_is_killed(const void *arg)
{
	struct vb_slot_claim claim;

	child_check(!vb_slot_claim(&claim, true));
	child_check(vb_slot_connect(claim.slot) >= 0);
	dprintf(STDERR_FILENO, "%u", claim.slot);
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

static int claims_and_ends(const void *arg)
{
	struct vb_slot_claim claim;

	child_check(!vb_slot_claim(&claim, true));
	dprintf(STDERR_FILENO, "%u", claim.slot);
	return 0;
}

/* Its peers may not have noticed its end. */
static void the_slot_of_a_process_that_has_ended_is_not_used_again_soon(void **state)
{
	enum { PROCESSES = 1000 };
	uint32_t slot, before = 0;
	char said[64];

	for (int i = 0; i < PROCESSES; i++) {
		assert_int_equal(child_run(claims_and_ends, NULL, said, sizeof(said)), 0);
		assert_int_equal(sscanf(said, "%u", &slot), 1);
		assert_int_not_equal(slot, before);
		before = slot;
	}
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

/* Until its connection manager is used it is as if nobody were there. */
static void the_names_of_the_connection_manager_come_with_the_slot(void **state)
{
	struct vb_slot_claim claim;
	struct vb_slot_name name;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char byte;

	assert_int_equal(vb_slot_claim(&claim, true), 0);
	assert_int_equal(vb_slot_find(claim.slot, VB_SLOT_CM, &name), 0);
	assert_int_equal(bind(fd, (void *)&name.address, name.length), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(sendto(fd, "x", 1, 0, (void *)&name.address, name.length), -1);
	assert_int_equal(vb_slot_connect_for(claim.slot, VB_SLOT_LIFE), -ECONNREFUSED);

	assert_int_equal(vb_slot_open_cm(claim.cm), 0);
	assert_int_equal(sendto(fd, "x", 1, 0, (void *)&name.address, name.length), 1);
	assert_int_equal(recv(claim.cm, &byte, 1, 0), 1);
	assert_int_equal(listen(claim.life, 1), 0);
	close(fd);
	fd = vb_slot_connect_for(claim.slot, VB_SLOT_LIFE);
	assert_true(fd >= 0);
	close(fd);
	vb_slot_release(&claim);
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
		cmocka_unit_test(the_slot_of_a_process_that_has_ended_is_not_used_again_soon),
		cmocka_unit_test(failed_connects_leave_no_descriptor_behind),
		cmocka_unit_test(the_names_of_the_connection_manager_come_with_the_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Who connects to the slot socket; the test is the service thread. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "shm/slot.h"

enum { MANY = 100 };

static struct vb_nic *nic;
static struct vb_engine engine;
static uint32_t connect_to;
static int told[2];

static int set_up(void **state)
{
	nic = vb_nic_get();
	assert_non_null(nic);
	engine.epoll = epoll_create1(EPOLL_CLOEXEC);
	nic->engine = &engine;
	return engine.epoll < 0;
}

static unsigned count_peers(void)
{
	unsigned count = 0;

	vb_list_for(peer, &nic->peers, struct vb_peer, node)
		count += !peer->self;
	return count;
}

/* A tool asks, or a program looks to which process the slot belongs: neither has the segment. */
static void a_stranger_that_goes_leaves_nothing_to_look_for(void **state)
{
	int fd = vb_slot_connect(nic->slots[0].slot);
	struct vb_peer *stranger = NULL;

	assert_true(fd >= 0);
	atomic_store(&nic->seg.lent->attention, 0);
	vb_attach_accept(nic, nic->slots[0].listener);
	vb_list_for(peer, &nic->peers, struct vb_peer, node)
		stranger = peer->self ? stranger : peer;
	assert_non_null(stranger);
	close(fd);
	vb_attach_event(nic, stranger);
	assert_int_equal(count_peers(), 0);
	assert_int_equal(atomic_load(&nic->seg.lent->attention), 0);
}

static void those_who_come_all_the_time_leave_it_time_for_others(void **state)
{
	unsigned before;

	for (int i = 0; i < MANY; i++)
		assert_true(vb_slot_connect(nic->slots[0].slot) >= 0);
	vb_attach_accept(nic, nic->slots[0].listener);
	assert_in_range(count_peers(), 1, MANY / 4);
	do {
		before = count_peers();
		vb_attach_accept(nic, nic->slots[0].listener);
	} while (count_peers() > before);
	assert_int_equal(count_peers(), MANY);
}

/* As another user: is the connection kept? */
static int is_let_in_as(uid_t uid)
{
	pid_t child = fork();
	int status;

	if (!child) {
		int fd = setuid(uid) ? -1 : vb_slot_connect(connect_to);
		struct pollfd closed = { .fd = fd };

		_exit(fd < 0 || write(told[1], "", 1) != 1 || read(told[1], &(char){ 0 }, 1) != 1 ||
		      poll(&closed, 1, 0));
	}
	/* It has connected, and is looked at. */
	assert_int_equal(read(told[0], &(char){ 0 }, 1), 1);
	vb_attach_accept(nic, nic->slots[0].listener);
	assert_int_equal(write(told[0], "", 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void add_connections(unsigned count, uid_t first)
{
	for (unsigned i = 0; i < count; i++) {
		struct vb_peer *peer = vb_peer_new();

		assert_non_null(peer);
		peer->accepted = true;
		peer->uid = first + i;
		vb_list_append(&nic->peers, &peer->node);
	}
}

/* A user namespace has thousands of users. */
static void all_other_users_leave_us_descriptors(void **state)
{
	struct rlimit limit = { 600, 600 };

	if (geteuid()) {
		print_message("# SKIPPED: only root can be other users\n");
		skip();
	}
	connect_to = nic->slots[0].slot;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, told), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	add_connections(200, 200000);
	assert_true(is_let_in_as(64321));
	add_connections(200, 300000);
	assert_false(is_let_in_as(64321));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stranger_that_goes_leaves_nothing_to_look_for),
		cmocka_unit_test(those_who_come_all_the_time_leave_it_time_for_others),
		cmocka_unit_test(all_other_users_leave_us_descriptors),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* repoll_create, repoll_ctl, repoll_wait. */
#include <stdatomic.h>
#include <sys/wait.h>

#include "../asleep.h"
#include "abi/rdmacm.h"
#include "pair.h"

enum { WAIT_MS = 5000 };

static struct pair pair;
static int set;

static int setup(void **state)
{
	pair_open(&pair, NULL);
	set = repoll_create(0);
	return set < 0;
}

static int teardown(void **state)
{
	pair_close(&pair);
	return set >= 0 ? rclose(set) : 0;
}

static int control(int op, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = (uint64_t)fd << 32 | 5 };

	return repoll_ctl(set, op, fd, &event);
}

static void add(int fd, uint32_t events)
{
	assert_int_equal(control(EPOLL_CTL_ADD, fd, events), 0);
}

/* Waits for one event, which is this one. */
static void expect(int fd, uint32_t events)
{
	struct epoll_event event;

	assert_int_equal(repoll_wait(set, &event, 1, WAIT_MS), 1);
	assert_int_equal(event.data.u64, (uint64_t)fd << 32 | 5);
	assert_int_equal(event.events, events);
}

static void expect_nothing(int wait_ms)
{
	struct epoll_event event;

	assert_int_equal(repoll_wait(set, &event, 1, wait_ms), 0);
}

static void give_byte(int fd)
{
	assert_int_equal(rsend(fd, "x", 1, 0), 1);
}

static void take_byte(int fd)
{
	char byte;

	assert_int_equal(rrecv(fd, &byte, 1, 0), 1);
}

static void an_rsocket_is_reported_as_long_as_it_is_ready(void **state)
{
	add(pair.server, EPOLLIN);
	expect_nothing(0);
	expect_nothing(10);
	give_byte(pair.client);
	expect(pair.server, EPOLLIN);
	expect(pair.server, EPOLLIN);
	take_byte(pair.server);
	expect_nothing(0);
	add(pair.client, EPOLLOUT);
	expect(pair.client, EPOLLOUT);
}

static void ordinary_descriptors_are_members_too(void **state)
{
	struct epoll_event events[8];
	int ends[2], count;

	assert_int_equal(pipe(ends), 0);
	add(ends[0], EPOLLIN);
	add(pair.server, EPOLLIN);
	expect_nothing(0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	expect(ends[0], EPOLLIN);
	give_byte(pair.client);
	do {
		count = repoll_wait(set, events, 8, WAIT_MS);
	} while (count == 1);
	assert_int_equal(count, 2);
	/* With room for one, each has its turn. */
	for (int i = 0, pipes = 0; i < 6; i++) {
		assert_int_equal(repoll_wait(set, events, 1, WAIT_MS), 1);
		pipes += events[0].data.u64 >> 32 == (uint64_t)ends[0];
		if (i == 5)
			assert_true(pipes >= 2 && pipes <= 4);
	}
	close(ends[1]);
	close(ends[0]); /* and so it has left the set */
	expect(pair.server, EPOLLIN);
	expect(pair.server, EPOLLIN);
}

static void members_are_changed_and_removed(void **state)
{
	add(pair.server, EPOLLIN);
	assert_errno(control(EPOLL_CTL_ADD, pair.server, EPOLLIN), EEXIST);
	give_byte(pair.client);
	expect(pair.server, EPOLLIN);
	assert_int_equal(control(EPOLL_CTL_MOD, pair.server, EPOLLOUT), 0);
	expect(pair.server, EPOLLOUT);
	assert_int_equal(control(EPOLL_CTL_MOD, pair.server, EPOLLIN | EPOLLOUT), 0);
	expect(pair.server, EPOLLIN | EPOLLOUT);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_DEL, pair.server, NULL), 0);
	expect_nothing(0);
	assert_errno(repoll_ctl(set, EPOLL_CTL_DEL, pair.server, NULL), ENOENT);
	assert_errno(control(EPOLL_CTL_MOD, pair.server, EPOLLIN), ENOENT);
	add(pair.server, EPOLLIN);
	expect(pair.server, EPOLLIN);
}

static void a_closed_rsocket_leaves_the_set(void **state)
{
	add(pair.server, EPOLLOUT);
	add(pair.client, EPOLLIN);
	expect(pair.server, EPOLLOUT);
	assert_int_equal(rclose(pair.server), 0);
	pair.server = -1;
	expect(pair.client, EPOLLIN | EPOLLHUP);
	expect(pair.client, EPOLLIN | EPOLLHUP);
}

static void one_shot_fires_once(void **state)
{
	add(pair.server, EPOLLIN | EPOLLONESHOT);
	give_byte(pair.client);
	expect(pair.server, EPOLLIN);
	expect_nothing(0);
	assert_int_equal(control(EPOLL_CTL_MOD, pair.server, EPOLLIN | EPOLLONESHOT), 0);
	expect(pair.server, EPOLLIN);
	expect_nothing(0);
}

static void bad_arguments_are_refused(void **state)
{
	struct epoll_event event = { .events = EPOLLIN };
	int other = repoll_create(O_CLOEXEC), file = open("/proc/self/exe", O_RDONLY);

	assert_int_equal(fcntl(other, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(set, F_GETFD), 0);
	assert_errno(repoll_ctl(set, EPOLL_CTL_ADD, set, &event), EINVAL);
	assert_errno(repoll_ctl(set, EPOLL_CTL_ADD, other, &event), EINVAL);
	assert_errno(repoll_ctl(set, EPOLL_CTL_ADD, -1, &event), EBADF);
	assert_errno(repoll_ctl(set, EPOLL_CTL_ADD, file, &event), EPERM);
	assert_errno(repoll_ctl(set, EPOLL_CTL_ADD, pair.server, NULL), EFAULT);
	assert_errno(repoll_ctl(set, 99, pair.server, &event), EINVAL);
	assert_errno(repoll_ctl(pair.client, EPOLL_CTL_ADD, pair.server, &event), EBADF);
	assert_errno(repoll_wait(set, &event, 0, 0), EINVAL);
	assert_errno(repoll_wait(set, &event, -1, 0), EINVAL);
	assert_errno(repoll_wait(set, NULL, 1, 0), EFAULT);
	assert_errno(repoll_wait(pair.client, &event, 1, 0), EBADF);
	assert_errno(repoll_wait(-1, &event, 1, 0), EBADF);
	assert_int_equal(rclose(other), 0);
	assert_errno(rclose(other), EBADF);
	assert_errno(repoll_wait(other, &event, 1, 0), EBADF);
	assert_errno(rsend(set, "x", 1, 0), EBADF);
	close(file);
}

/* --- threads --- */

static _Atomic pid_t sleeper;

static void *wait_in_set(void *arg)
{
	struct epoll_event event;
	int count;

	sleeper = gettid();
	count = repoll_wait(set, &event, 1, -1);
	return (void *)(intptr_t)(count == 1 ? (int)(event.data.u64 >> 32) : -errno);
}

static void begin_to_wait(pthread_t *thread)
{
	sleeper = 0;
	assert_int_equal(pthread_create(thread, NULL, wait_in_set, NULL), 0);
	thread_await_sleep(&sleeper);
}

static int result_of(pthread_t thread)
{
	void *result;

	assert_int_equal(pthread_join(thread, &result), 0);
	return (int)(intptr_t)result;
}

static void a_sleeping_wait_wakes(void **state)
{
	pthread_t thread;

	add(pair.server, EPOLLIN);
	for (int i = 0; i < 20; i++) {
		begin_to_wait(&thread);
		give_byte(pair.client);
		assert_int_equal(result_of(thread), pair.server);
		take_byte(pair.server);
	}
}

static void a_new_member_wakes_a_sleeping_wait(void **state)
{
	int ends[2];
	pthread_t thread;

	begin_to_wait(&thread);
	add(pair.client, EPOLLOUT);
	assert_int_equal(result_of(thread), pair.client);
	assert_int_equal(control(EPOLL_CTL_MOD, pair.client, EPOLLIN), 0);
	begin_to_wait(&thread);
	assert_int_equal(control(EPOLL_CTL_MOD, pair.client, EPOLLOUT), 0);
	assert_int_equal(result_of(thread), pair.client);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_DEL, pair.client, NULL), 0);
	assert_int_equal(pipe(ends), 0);
	begin_to_wait(&thread);
	assert_int_equal(write(ends[1], "x", 1), 1);
	add(ends[0], EPOLLIN);
	assert_int_equal(result_of(thread), ends[0]);
	close(ends[0]);
	close(ends[1]);
}

static void a_closed_set_ends_the_wait(void **state)
{
	pthread_t thread;

	add(pair.server, EPOLLIN);
	begin_to_wait(&thread);
	assert_int_equal(rclose(set), 0);
	assert_int_equal(result_of(thread), -EBADF);
	set = -1;
}

static void a_listener_is_ready_when_a_connection_is(void **state)
{
	struct pair other;
	int fd;

	make_listener(&other, AF_INET, NULL);
	add(other.listener, EPOLLIN);
	expect_nothing(0);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rconnect(fd, (struct sockaddr *)&other.addr, other.addr_size), 0);
	expect(other.listener, EPOLLIN);
	rclose(fd);
	rclose(other.listener);
}

/* Many members and several threads, each event for one of them. */
static atomic_int taken;

static void *take_bytes(void *arg)
{
	struct epoll_event event;
	char byte;

	while (taken < 200) {
		if (repoll_wait(set, &event, 1, 20) != 1)
			continue;
		if (rrecv((int)(event.data.u64 >> 32), &byte, 1, MSG_DONTWAIT) == 1)
			taken++;
		assert_int_equal(
			control(EPOLL_CTL_MOD, (int)(event.data.u64 >> 32), EPOLLIN | EPOLLONESHOT),
			0);
	}
	return NULL;
}

static void threads_share_a_set(void **state)
{
	enum { THREADS = 3 };
	pthread_t threads[THREADS];

	taken = 0;
	add(pair.server, EPOLLIN | EPOLLONESHOT);
	add(pair.client, EPOLLIN | EPOLLONESHOT);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_bytes, NULL), 0);
	for (int i = 0; i < 100; i++) {
		give_byte(pair.client);
		give_byte(pair.server);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(taken, 200);
}

/* The set is the parent's; closing the copy does not touch it. */
static void a_child_of_fork_has_no_sets(void **state)
{
	struct epoll_event event;
	int status;
	pid_t child;

	add(pair.server, EPOLLIN);
	child = fork();
	if (!child) {
		bool right = repoll_wait(set, &event, 1, 0) == -1 && errno == EBADF;

		_exit(right && !rclose(set) ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	give_byte(pair.client);
	expect(pair.server, EPOLLIN);
}

static void a_cancelled_wait_leaves_nothing_behind(void **state)
{
	pthread_t thread;
	void *result;

	add(pair.server, EPOLLIN);
	begin_to_wait(&thread);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	give_byte(pair.client);
	expect(pair.server, EPOLLIN);
	assert_int_equal(control(EPOLL_CTL_DEL, pair.server, 0), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_rsocket_is_reported_as_long_as_it_is_ready),
		TEST(ordinary_descriptors_are_members_too),
		TEST(members_are_changed_and_removed),
		TEST(a_closed_rsocket_leaves_the_set),
		TEST(one_shot_fires_once),
		TEST(bad_arguments_are_refused),
		TEST(a_sleeping_wait_wakes),
		TEST(a_new_member_wakes_a_sleeping_wait),
		TEST(a_closed_set_ends_the_wait),
		TEST(a_cancelled_wait_leaves_nothing_behind),
		TEST(a_listener_is_ready_when_a_connection_is),
		TEST(threads_share_a_set),
		TEST(a_child_of_fork_has_no_sets),
	};

	return cmocka_run_group_tests_name("rsocket-repoll", tests, NULL, NULL);
}

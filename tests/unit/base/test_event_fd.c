/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that wait for events while their queue goes away. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../asleep.h"
#include "../child.h"
#include "base/event_fd.h"

static bool is_readable(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

/* A queue that tells who came; where it lacks an event, that has been withdrawn. */
struct queue {
	struct vb_event_fd *events;
	unsigned length;
};

static void *take(void *arg)
{
	struct queue *queue = arg;

	assert_int_equal(pthread_mutex_trylock(&queue->events->lock), EBUSY);
	if (!queue->length)
		return NULL;
	queue->length--;
	return queue;
}

static void it_is_readable_as_long_as_there_are_events(void **state)
{
	struct vb_event_fd *events;
	struct queue queue = { .length = 2 };
	void *event;

	assert_int_equal(vb_event_fd_open(&events), 0);
	queue.events = events;
	assert_int_equal(fcntl(events->fd, F_GETFD), FD_CLOEXEC);
	assert_false(is_readable(events->fd));
	vb_event_fd_uncount(events); /* there is none: does not wait */
	vb_event_fd_count(events, 3);
	vb_event_fd_uncount(events);
	for (int i = 0; i < 2; i++) {
		assert_true(is_readable(events->fd));
		assert_int_equal(vb_event_fd_take(events, take, &queue, &event), 0);
		assert_ptr_equal(event, &queue);
	}
	assert_false(is_readable(events->fd));
	assert_int_equal(fcntl(events->fd, F_SETFL, O_NONBLOCK), 0);
	vb_event_fd_count(events, 2); /* of events that are not there any more */
	assert_int_equal(vb_event_fd_take(events, take, &queue, &event), -EAGAIN);
	assert_null(event);
	assert_false(is_readable(events->fd));
	assert_int_equal(events->users, 1);
	assert_int_equal(pthread_mutex_trylock(&events->lock), 0);
	pthread_mutex_unlock(&events->lock);
	vb_event_fd_close(events);
	vb_event_fd_count(events, 1); /* its number may be somebody else's by now */
	vb_event_fd_uncount(events);
	vb_event_fd_put(events);
	(void)state;
}

struct waiter {
	struct vb_event_fd *events;
	_Atomic int result; /* 1: still in it */
	_Atomic pid_t thread_id;
	pthread_t thread;
};

static void *never_called(void *queue)
{
	fail_msg("an event of a queue that is gone");
	return queue;
}

static void *wait_for_one(void *arg)
{
	struct waiter *waiter = arg;
	void *event;

	waiter->thread_id = gettid();
	waiter->result = vb_event_fd_take(waiter->events, never_called, NULL, &event);
	return NULL;
}

/* A thread that waits, as far as that can be seen. */
static void waiter_start(struct waiter *waiter)
{
	assert_int_equal(vb_event_fd_open(&waiter->events), 0);
	waiter->result = 1;
	waiter->thread_id = 0;
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_for_one, waiter), 0);
	for (unsigned users = 1; users < 2; sched_yield()) {
		pthread_mutex_lock(&waiter->events->lock);
		users = waiter->events->users;
		pthread_mutex_unlock(&waiter->events->lock);
	}
}

/* The queue goes at the moment at which its event has woken the thread: it is at the lock. */
static void close_on_the_way(struct vb_event_fd *events, bool nonblocking)
{
	pthread_mutex_lock(&events->lock);
	vb_event_fd_count(events, 1);
	while (is_readable(events->fd))
		sched_yield();
	events->nonblocking = nonblocking;
	events->closed = true;
	close(events->fd);
	pthread_mutex_unlock(&events->lock);
	vb_event_fd_put(events);
}

static void do_nothing(int signal)
{
	(void)signal;
}

/* Whatever the thread is in, it goes on after a signal; until then it must not. */
static void expect_asleep_until_a_signal(struct waiter *waiter)
{
	const struct sigaction action = { .sa_handler = do_nothing };

	thread_await_sleep(&waiter->thread_id);
	assert_int_equal(waiter->result, 1);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	while (waiter->result == 1) {
		pthread_kill(waiter->thread, SIGUSR1);
		usleep(1000);
	}
	pthread_join(waiter->thread, NULL);
	assert_int_equal(waiter->result, -EINTR);
}

static void who_waits_is_not_woken_by_the_end(void **state)
{
	struct waiter waiter;

	waiter_start(&waiter);
	thread_await_sleep(&waiter.thread_id);
	vb_event_fd_close(waiter.events);
	vb_event_fd_put(waiter.events);
	expect_asleep_until_a_signal(&waiter);
	(void)state;
}

static void who_was_woken_by_what_is_gone_waits_on(void **state)
{
	struct waiter waiter;

	waiter_start(&waiter);
	close_on_the_way(waiter.events, false);
	expect_asleep_until_a_signal(&waiter);
	(void)state;
}

static void who_does_not_wait_is_told_so(void **state)
{
	struct waiter waiter;

	waiter_start(&waiter);
	close_on_the_way(waiter.events, true);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, -EAGAIN);
	(void)state;
}

static void who_is_cancelled_keeps_nothing(void **state)
{
	struct waiter waiter;

	waiter_start(&waiter);
	assert_int_equal(pthread_cancel(waiter.thread), 0);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(waiter.result, 1);
	assert_int_equal(waiter.events->users, 1);
	assert_int_equal(pthread_mutex_trylock(&waiter.events->lock), 0);
	pthread_mutex_unlock(&waiter.events->lock);
	vb_event_fd_close(waiter.events);
	vb_event_fd_put(waiter.events);
	(void)state;
}

static int destroy_inherited(const void *arg)
{
	struct vb_event_fd *events = *(struct vb_event_fd *const *)arg;
	int fd = events->fd;

	alarm(10);
	vb_event_fd_close(events);
	vb_event_fd_put(events);
	child_check(fcntl(fd, F_GETFD) < 0);
	return 0;
}

static void a_child_destroys_its_copy_although_the_lock_was_taken(void **state)
{
	struct vb_event_fd *events;
	char said[256];

	assert_int_equal(vb_event_fd_open(&events), 0);
	pthread_mutex_lock(&events->lock);
	assert_int_equal(child_run(destroy_inherited, &events, said, sizeof(said)), 0);
	pthread_mutex_unlock(&events->lock);
	vb_event_fd_count(events, 1);
	assert_true(is_readable(events->fd));
	vb_event_fd_close(events);
	vb_event_fd_put(events);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_readable_as_long_as_there_are_events),
		cmocka_unit_test(who_waits_is_not_woken_by_the_end),
		cmocka_unit_test(who_was_woken_by_what_is_gone_waits_on),
		cmocka_unit_test(who_does_not_wait_is_told_so),
		cmocka_unit_test(who_is_cancelled_keeps_nothing),
		cmocka_unit_test(a_child_destroys_its_copy_although_the_lock_was_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of an ordinary program that are cancelled in socket calls. A thread that blocks ends, and
 * all that it held is free again: other threads use the same sockets, and the peer sees the end of
 * a closed one.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../asleep.h"
#include "ends.h"

enum { ROUNDS = 150, WORKERS = 3, HANG_S = 100 };

static void wait_us(long us)
{
	const struct timespec wait = { 0, us * 1000 };

	nanosleep(&wait, NULL);
}

struct blocked {
	struct ends *ends;
	int set; /* an epoll descriptor with the server */
	_Atomic pid_t tid;
	void (*call)(struct blocked *blocked);
};

static void *run_blocked(void *arg)
{
	struct blocked *blocked = arg;

	atomic_store(&blocked->tid, gettid());
	for (;;)
		blocked->call(blocked);
	return NULL;
}

static void join_cancelled(pthread_t thread)
{
	void *result = NULL;

	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void block_read(struct blocked *blocked)
{
	char byte;

	(void)!read(blocked->ends->server, &byte, 1);
}

static void block_readv(struct blocked *blocked)
{
	char byte;
	struct iovec iov = { &byte, 1 };

	(void)!readv(blocked->ends->server, &iov, 1);
}

static void block_recv(struct blocked *blocked)
{
	char byte;

	recv(blocked->ends->server, &byte, 1, 0);
}

static void block_recvmsg(struct blocked *blocked)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	recvmsg(blocked->ends->server, &message, 0);
}

static void block_poll(struct blocked *blocked)
{
	struct pollfd fds[40];

	for (int i = 0; i < 40; i++) /* more than fit on the stack of the library */
		fds[i] = (struct pollfd){ .fd = blocked->ends->server, .events = POLLIN };
	poll(fds, 40, -1);
}

static void block_ppoll(struct blocked *blocked)
{
	struct pollfd fd = { .fd = blocked->ends->server, .events = POLLIN };

	ppoll(&fd, 1, NULL, NULL);
}

static void block_select(struct blocked *blocked)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(blocked->ends->server, &set);
	select(blocked->ends->server + 1, &set, NULL, NULL, NULL);
}

static void block_epoll(struct blocked *blocked)
{
	struct epoll_event events[200];

	epoll_wait(blocked->set, events, 200, -1);
}

static void block_accept(struct blocked *blocked)
{
	accept(blocked->ends->listener, NULL, NULL);
}

static void block_write(struct blocked *blocked)
{
	static const char bytes[65536];

	(void)!write(blocked->ends->client, bytes, sizeof(bytes));
}

static void block_sendfile(struct blocked *blocked)
{
	off_t offset = 0;
	const int from = open("/proc/self/exe", O_RDONLY);

	sendfile(blocked->ends->client, from, &offset, 65536);
	close(from);
}

static void drain(int fd)
{
	char bytes[65536];

	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void use_ends(struct ends *ends)
{
	drain(ends->server);
	assert_int_equal(send(ends->server, "there", 5, 0), 5);
	receive(ends->client, "there");
}

static void test_blocked(void **state)
{
	static void (*const calls[])(struct blocked *) = {
		block_read,   block_readv, block_recv,   block_recvmsg, block_poll,     block_ppoll,
		block_select, block_epoll, block_accept, block_write,   block_sendfile,
	};

	(void)state;
	/* sendfile of the C library is no cancellation point. */
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) - plain; i++) {
		struct ends ends;
		struct blocked blocked = { .ends = &ends, .call = calls[i] };
		pthread_t thread;

		open_ends(&ends);
		blocked.set = epoll_create1(0);
		epoll_add(blocked.set, ends.server, EPOLLIN);
		assert_int_equal(pthread_create(&thread, NULL, run_blocked, &blocked), 0);
		thread_await_sleep(&blocked.tid);
		join_cancelled(thread);
		use_ends(&ends);
		assert_int_equal(close(blocked.set), 0);
		assert_int_equal(close(ends.client), 0);
		/* No reference was lost: the peer sees the end. */
		while (read(ends.server, &(char[4096]){ 0 }, 4096) > 0)
			;
		ends.client = -1;
		close_ends(&ends);
	}
}

/* close of the C library may be cancelled before it closes the number. */
static void copy_and_close(int fd)
{
	int number, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	number = dup(fd);
	if (number >= 0)
		close(number);
	pthread_setcancelstate(state, NULL);
}

static void *exchange_bytes(void *arg)
{
	struct ends *ends = arg;
	struct pollfd fd = { .fd = ends->server, .events = POLLIN | POLLOUT };
	char bytes[3000] = { 0 };

	for (unsigned i = 0;; i++) {
		int number = 0;
		socklen_t size = sizeof(number);
		struct sockaddr_storage name;
		socklen_t name_size = sizeof(name);

		(void)!write(i & 1 ? ends->client : ends->server, bytes, sizeof(bytes));
		recv(i & 2 ? ends->client : ends->server, bytes, sizeof(bytes), MSG_DONTWAIT);
		(void)!read(i & 1 ? ends->server : ends->client, bytes, sizeof(bytes));
		poll(&fd, 1, 0);
		getsockopt(ends->server, SOL_SOCKET, SO_ERROR, &number, &size);
		getpeername(ends->client, (void *)&name, &name_size);
		copy_and_close(ends->client);
	}
	return NULL;
}

/* Sockets that many threads use, each of which is cancelled at another place. */
static void test_in_traffic(void **state)
{
	struct ends ends;

	(void)state;
	open_ends(&ends);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t threads[WORKERS];

		for (int i = 0; i < WORKERS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, exchange_bytes, &ends),
					 0);
		wait_us(round % 40 * 37);
		for (int i = 0; i < WORKERS; i++)
			join_cancelled(threads[i]);
		drain(ends.client);
		drain(ends.server);
	}
	close_now(&ends.client);
	while (read(ends.server, &(char[4096]){ 0 }, 4096) > 0)
		;
	close_ends(&ends);
}

static void *connect_and_close(void *arg)
{
	const struct ends *ends = arg;

	for (;;) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		connect(fd, (const void *)&ends->addr, sizeof(ends->addr));
		close(fd);
	}
	return NULL;
}

static void *accept_and_close(void *arg)
{
	const struct ends *ends = arg;

	for (;;) {
		const int fd = accept(ends->listener, NULL, NULL);

		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static void test_while_connecting(void **state)
{
	struct ends ends;

	(void)state;
	listen_somewhere(&ends);
	for (int round = 0; round < ROUNDS / 5; round++) {
		pthread_t threads[2];

		pthread_create(&threads[0], NULL, connect_and_close, &ends);
		pthread_create(&threads[1], NULL, accept_and_close, &ends);
		wait_us(round % 40 * 173);
		join_cancelled(threads[0]);
		join_cancelled(threads[1]);
	}
	close_ends(&ends);
	open_ends(&ends);
	use_ends(&ends);
	close_ends(&ends);
}

/* Calls that do not block are whole even if the thread may be cancelled at every instruction. */
static void *ask_all_the_time(void *arg)
{
	struct ends *ends = arg;
	struct pollfd fd = { .fd = ends->server, .events = POLLIN };
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	for (;;) {
		struct sockaddr_storage name;
		socklen_t size = sizeof(name);
		char byte = 1;

		getsockname(ends->server, (void *)&name, &size);
		send(ends->client, &byte, 1, MSG_DONTWAIT);
		recv(ends->server, &byte, 1, MSG_DONTWAIT);
		poll(&fd, 1, 0);
	}
	return NULL;
}

static void test_asynchronous(void **state)
{
	struct ends ends;

	(void)state;
	open_ends(&ends);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t thread;

		pthread_create(&thread, NULL, ask_all_the_time, &ends);
		wait_us(round % 40 * 37);
		join_cancelled(thread);
	}
	drain(ends.server);
	use_ends(&ends);
	close_ends(&ends);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_in_traffic),
		cmocka_unit_test(test_while_connecting),
		cmocka_unit_test(test_asynchronous),
	};

	alarm(HANG_S); /* ends a wait for a lock that no thread holds */
	return run_ends("cancelled threads", tests, argc, argv);
}

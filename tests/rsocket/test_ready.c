/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll, rselect, options, keepalive. */
#include <stdatomic.h>
#include <sys/time.h>

#include "../asleep.h"
#include "pair.h"

static void rsockets_and_ordinary_descriptors_are_waited_for_together(void **state)
{
	struct pair pair;
	int ends[2];

	pair_open(&pair, NULL);
	assert_int_equal(pipe(ends), 0);
	for (int i = 0; i < 4; i++) {
		struct pollfd fds[3] = { { .fd = ends[0], .events = POLLIN },
					 { .fd = pair.server, .events = POLLIN },
					 { .fd = -1, .events = POLLIN } };
		uint8_t byte;

		assert_int_equal(rpoll(fds, 3, 0), 0);
		if (i & 1)
			assert_int_equal(write(ends[1], "x", 1), 1);
		if (i & 2) {
			assert_int_equal(rsend(pair.client, "x", 1, 0), 1);
			assert_int_equal(rpoll(fds + 1, 1, 5000), 1); /* it has arrived */
		}
		assert_int_equal(rpoll(fds, 3, i ? 5000 : 20), (i & 1) + (i >> 1));
		assert_int_equal(fds[0].revents, i & 1 ? POLLIN : 0);
		assert_int_equal(fds[1].revents, i & 2 ? POLLIN : 0);
		if (i & 1)
			assert_int_equal(read(ends[0], &byte, 1), 1);
		if (i & 2)
			assert_int_equal(rrecv(pair.server, &byte, 1, 0), 1);
	}
	close(ends[0]);
	close(ends[1]);
	pair_close(&pair);
}

static _Atomic pid_t sleeper;

static void *send_to_the_sleeper(void *arg)
{
	struct pair *pair = arg;

	thread_await_sleep(&sleeper);
	return (void *)rsend(pair->client, "x", 1, 0);
}

static void a_sleeping_poll_wakes(void **state)
{
	struct pair pair;

	pair_open(&pair, NULL);
	for (int i = 0; i < 10; i++) {
		struct pollfd fd = { .fd = pair.server, .events = POLLIN };
		pthread_t thread;
		void *sent;
		uint8_t byte;

		sleeper = 0;
		pthread_create(&thread, NULL, send_to_the_sleeper, &pair);
		sleeper = gettid();
		assert_int_equal(rpoll(&fd, 1, 10000), 1);
		assert_int_equal(fd.revents, POLLIN);
		assert_int_equal(rrecv(pair.server, &byte, 1, 0), 1);
		pthread_join(thread, &sent);
		assert_int_equal((ssize_t)sent, 1);
	}
	pair_close(&pair);
}

/* One reads, one polls, one writes: nobody takes the wake-up of another. */
struct trio {
	struct pair pair;
	atomic_bool over;
	atomic_uint polls;
	_Atomic pid_t poller_id, reader_id;
	int failed; /* of the poller, which must not assert: cmocka wants that in one thread */
};

static void *poll_until_over(void *arg)
{
	struct trio *trio = arg;

	trio->poller_id = gettid();
	while (!atomic_load(&trio->over)) {
		struct pollfd fd = { .fd = trio->pair.server, .events = POLLIN };

		/* A lost wake-up takes ten seconds. */
		if (rpoll(&fd, 1, 10000) != 1) {
			trio->failed = errno ? errno : -1;
			break;
		}
		atomic_fetch_add(&trio->polls, 1);
	}
	return NULL;
}

static void *read_until_end(void *arg)
{
	struct trio *trio = arg;
	uint8_t bytes[100];
	size_t total = 0;
	ssize_t now;

	trio->reader_id = gettid();
	while ((now = rrecv(trio->pair.server, bytes, sizeof(bytes), 0)) > 0)
		total += (size_t)now;
	atomic_store(&trio->over, true);
	return (void *)total;
}

static void a_reader_and_a_poller_do_not_take_each_others_wakeups(void **state)
{
	static struct trio trio;
	pthread_t poller, reader;
	void *total;

	pair_open(&trio.pair, NULL);
	pthread_create(&poller, NULL, poll_until_over, &trio);
	pthread_create(&reader, NULL, read_until_end, &trio);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(rsend(trio.pair.client, "x", 1, 0), 1);
		if (i % 4 == 0) {
			thread_await_sleep(&trio.poller_id);
			thread_await_sleep(&trio.reader_id);
		}
	}
	assert_int_equal(rshutdown(trio.pair.client, SHUT_WR), 0);
	pthread_join(reader, &total);
	pthread_join(poller, NULL);
	assert_int_equal((size_t)total, 1000);
	assert_int_equal(trio.failed, 0);
	assert_true(trio.polls > 0);
	pair_close(&trio.pair);
}

static void listeners_become_readable(void **state)
{
	struct pollfd fd = { .events = POLLIN };
	struct pair pair;

	make_listener(&pair, AF_INET, NULL);
	set_nonblock(pair.listener, true);
	assert_errno(raccept(pair.listener, NULL, NULL), EAGAIN);
	fd.fd = pair.listener;
	assert_int_equal(rpoll(&fd, 1, 0), 0);
	pair.client = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_errno(rconnect(pair.client, (void *)&pair.addr, pair.addr_size), EINPROGRESS);
	assert_int_equal(rpoll(&fd, 1, 5000), 1);
	assert_int_equal(fd.revents, POLLIN);
	pair.server = raccept(pair.listener, NULL, NULL);
	assert_true(pair.server >= 0);
	fd = (struct pollfd){ .fd = pair.client, .events = POLLOUT };
	assert_int_equal(rpoll(&fd, 1, 5000), 1);
	assert_int_equal(fd.revents, POLLOUT);
	pair_close(&pair);
}

static void select_knows_readers_writers_and_bad_numbers(void **state)
{
	struct timeval none = { 0 }, second = { .tv_sec = 5 };
	fd_set read_set, write_set;
	struct pair pair;

	pair_open(&pair, NULL);
	FD_ZERO(&read_set);
	FD_ZERO(&write_set);
	FD_SET(pair.server, &read_set);
	FD_SET(pair.server, &write_set);
	assert_int_equal(rselect(pair.server + 1, &read_set, &write_set, NULL, &none), 1);
	assert_false(FD_ISSET(pair.server, &read_set));
	assert_true(FD_ISSET(pair.server, &write_set));
	FD_SET(pair.server, &read_set);
	assert_int_equal(rsend(pair.client, "x", 1, 0), 1);
	assert_int_equal(rselect(pair.server + 1, &read_set, NULL, NULL, &second), 1);
	assert_true(FD_ISSET(pair.server, &read_set));
	FD_ZERO(&read_set);
	FD_SET(FD_SETSIZE - 1, &read_set);
	assert_errno(rselect(FD_SETSIZE, &read_set, NULL, NULL, &none), EBADF);
	pair_close(&pair);
}

static int get_int(int fd, int level, int name)
{
	socklen_t size = sizeof(int);
	int value = -1;

	assert_int_equal(rgetsockopt(fd, level, name, &value, &size), 0);
	assert_int_equal(size, sizeof(int));
	return value;
}

static void options_can_be_read_back(void **state)
{
	static const struct {
		int level, name, set, get;
	} rows[] = {
		{ SOL_SOCKET, SO_REUSEADDR, 1, 1 },     { SOL_SOCKET, SO_KEEPALIVE, 1, 1 },
		{ SOL_SOCKET, SO_OOBINLINE, 1, 1 },     { SOL_SOCKET, SO_RCVBUF, 100000, 200000 },
		{ SOL_SOCKET, SO_SNDBUF, 5000, 10000 }, { IPPROTO_TCP, TCP_NODELAY, 1, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 77, 77 },  { IPPROTO_IPV6, IPV6_V6ONLY, 1, 1 },
		{ SOL_RDMA, RDMA_SQSIZE, 100, 100 },    { SOL_RDMA, RDMA_RQSIZE, 1, 16 },
		{ SOL_RDMA, RDMA_INLINE, 32, 32 },      { SOL_RDMA, RDMA_IOMAPSIZE, 300, 512 },
	};
	int fd = rsocket(AF_INET6, SOCK_STREAM, 0), value = 0;
	socklen_t size = sizeof(value);

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(
			rsetsockopt(fd, rows[i].level, rows[i].name, &rows[i].set, sizeof(int)), 0);
		assert_int_equal(get_int(fd, rows[i].level, rows[i].name), rows[i].get);
	}
	assert_true(get_int(fd, IPPROTO_TCP, TCP_MAXSEG) >= 256);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_ERROR), 0);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	assert_errno(rsetsockopt(fd, SOL_SOCKET, 9999, &value, sizeof(value)), ENOPROTOOPT);
	assert_errno(rgetsockopt(fd, 9999, 1, &value, &size), ENOPROTOOPT);
	assert_errno(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, 1), EINVAL);
	assert_errno(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof(value)), EINVAL);
	assert_int_equal(rclose(fd), 0);
	assert_errno(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof(value)), EBADF);
}

static void want_options(int fd)
{
	const int size = 300000, idle = 1, on = 1;

	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
	assert_int_equal(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)), 0);
}

static void accepted_connections_inherit_options(void **state)
{
	struct pair pair;

	pair_open(&pair, want_options);
	assert_int_equal(get_int(pair.server, SOL_SOCKET, SO_RCVBUF), 600000);
	assert_int_equal(get_int(pair.server, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(get_int(pair.server, IPPROTO_TCP, TCP_KEEPIDLE), 1);
	/* The size of queues is settled once there is a connection. */
	assert_errno(rsetsockopt(pair.server, SOL_RDMA, RDMA_SQSIZE, &(int){ 20 }, sizeof(int)),
		     EINVAL);
	send_all(pair.client, 550000); /* fits without anybody reading */
	receive_all(pair.server, 550000);
	pair_close(&pair);
}

static void keepalives_do_not_disturb_the_stream(void **state)
{
	struct timespec pause = { .tv_sec = 2, .tv_nsec = 500000000 };
	struct pair pair;

	pair_open(&pair, want_options); /* one per second, each way */
	nanosleep(&pause, NULL); /* two of them: what is tested, and nothing else shows them */
	send_all(pair.client, 1000);
	receive_all(pair.server, 1000);
	send_all(pair.server, 1000);
	receive_all(pair.client, 1000);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rsockets_and_ordinary_descriptors_are_waited_for_together),
		cmocka_unit_test(a_sleeping_poll_wakes),
		cmocka_unit_test(a_reader_and_a_poller_do_not_take_each_others_wakeups),
		cmocka_unit_test(listeners_become_readable),
		cmocka_unit_test(select_knows_readers_writers_and_bad_numbers),
		cmocka_unit_test(options_can_be_read_back),
		cmocka_unit_test(accepted_connections_inherit_options),
		cmocka_unit_test(keepalives_do_not_disturb_the_stream),
	};

	return cmocka_run_group_tests_name("rsocket readiness and options", tests, NULL, NULL);
}

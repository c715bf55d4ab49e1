/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections and listeners: what a program that knows TCP expects of them. */
#include <dirent.h>
#include <dlfcn.h>
#include <infiniband/ib.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "pair.h"

/* In place of the C library's: how often the name of the discard port is asked for. */
static atomic_uint asked;

static void look(const struct sockaddr *to, socklen_t size)
{
	static const char name[] = "verbena.cm.106.9.4";

	if (to && to->sa_family == AF_UNIX &&
	    size == offsetof(struct sockaddr_un, sun_path) + sizeof(name) &&
	    !memcmp(((const struct sockaddr_un *)to)->sun_path + 1, name, sizeof(name) - 1))
		asked++;
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
	static long (*_Atomic real)(long number, ...);
	long words[6];
	va_list args;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		words[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_sendto)
		look((const struct sockaddr *)words[4], (socklen_t)words[5]);
	return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

static void a_connection_comes_to_be_before_anybody_accepts(void **state)
{
	struct pair pair;
	uint8_t byte = 0;

	make_listener(&pair, AF_INET, NULL);
	pair.client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rconnect(pair.client, (void *)&pair.addr, pair.addr_size), 0);
	assert_int_equal(rsend(pair.client, "x", 1, 0), 1);
	pair.server = raccept(pair.listener, NULL, NULL);
	assert_int_equal(rrecv(pair.server, &byte, 1, 0), 1);
	assert_int_equal(byte, 'x');
	pair_close(&pair);
}

static void both_ends_know_each_others_names(void **state)
{
	const int families[] = { AF_INET, AF_INET6 };

	for (int i = 0; i < 2; i++) {
		struct sockaddr_storage client, server, accepted;
		socklen_t size = sizeof(client);
		struct pair pair;

		make_listener(&pair, families[i], NULL);
		pair.client = rsocket(families[i], SOCK_STREAM, 0);
		assert_errno(rgetpeername(pair.client, (void *)&server, &size), ENOTCONN);
		assert_int_equal(rconnect(pair.client, (void *)&pair.addr, pair.addr_size), 0);
		size = sizeof(accepted);
		pair.server = raccept(pair.listener, (void *)&accepted, &size);
		assert_true(pair.server >= 0);
		size = sizeof(client);
		assert_int_equal(rgetsockname(pair.client, (void *)&client, &size), 0);
		assert_int_equal(size, pair.addr_size);
		assert_memory_equal(&client, &accepted, size);
		size = sizeof(server);
		assert_int_equal(rgetpeername(pair.client, (void *)&server, &size), 0);
		assert_int_equal(((struct sockaddr_in *)&server)->sin_port,
				 ((struct sockaddr_in *)&pair.addr)->sin_port);
		size = sizeof(client);
		assert_int_equal(rgetpeername(pair.server, (void *)&client, &size), 0);
		assert_memory_equal(&client, &accepted, size);
		pair_close(&pair);
	}
}

/* An IPv6 rsocket takes both, and calls both by IPv6 addresses. */
static void an_ipv6_listener_without_an_address_takes_both(void **state)
{
	struct sockaddr_in6 name, to6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct sockaddr_in to = { .sin_family = AF_INET };
	int listener = rsocket(AF_INET6, SOCK_STREAM, 0);
	socklen_t size = sizeof(name);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(rlisten(listener, 2), 0);
	assert_int_equal(rgetsockname(listener, (struct sockaddr *)&name, &size), 0);
	assert_int_equal(name.sin6_family, AF_INET6);
	to.sin_port = to6.sin6_port = name.sin6_port;
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		int client = rsocket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0), server;

		assert_int_equal(rconnect(client, ipv6 ? (void *)&to6 : (void *)&to,
					  ipv6 ? sizeof(to6) : sizeof(to)),
				 0);
		size = sizeof(name);
		server = raccept(listener, (struct sockaddr *)&name, &size);
		assert_true(server >= 0);
		assert_int_equal(size, sizeof(name));
		assert_int_equal(name.sin6_family, AF_INET6);
		assert_int_equal(!IN6_IS_ADDR_V4MAPPED(&name.sin6_addr), ipv6);
		size = sizeof(name);
		assert_int_equal(rgetsockname(server, (struct sockaddr *)&name, &size), 0);
		assert_int_equal(name.sin6_port, to6.sin6_port);
		assert_int_equal(!IN6_IS_ADDR_V4MAPPED(&name.sin6_addr), ipv6);
		rclose(server);
		rclose(client);
	}
	rclose(listener);
	(void)state;
}

/* A GID and a service id are a name like others; nobody finds datagram QPs by it. */
static void infiniband_ports_are_names(void **state)
{
	const struct sockaddr_ib any = { .sib_family = AF_IB };
	struct sockaddr_ib name;
	socklen_t size = sizeof(name);
	struct pair pair;

	pair.listener = rsocket(AF_IB, SOCK_STREAM, 0);
	assert_true(pair.listener >= 0);
	assert_int_equal(rbind(pair.listener, (const void *)&any, sizeof(any)), 0);
	assert_int_equal(rlisten(pair.listener, 8), 0);
	pair.addr_size = sizeof(pair.addr);
	assert_int_equal(rgetsockname(pair.listener, (void *)&pair.addr, &pair.addr_size), 0);
	assert_int_equal(pair.addr_size, sizeof(struct sockaddr_ib));
	connect_pair(&pair, NULL);
	send_all(pair.client, 1000);
	receive_all(pair.server, 1000);
	assert_int_equal(rgetpeername(pair.client, (void *)&name, &size), 0);
	assert_int_equal(name.sib_family, AF_IB);
	assert_int_equal(name.sib_addr.sib_raw[0], 0xfe); /* fe80::, that of the port */
	pair_close(&pair);
	assert_errno(rsocket(AF_IB, SOCK_DGRAM, 0), EAFNOSUPPORT);
	(void)state;
}

static void errors_of_connecting_are_those_of_tcp(void **state)
{
	struct sockaddr_in nobody = { .sin_family = AF_INET,
				      .sin_port = htons(9),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pollfd ready = { .events = POLLOUT };
	socklen_t size = sizeof(int);
	int error = 0;

	ready.fd = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_errno(rsend(ready.fd, "x", 1, 0), ENOTCONN);
	assert_errno(raccept(ready.fd, NULL, NULL), EINVAL);
	asked = 0;
	assert_errno(rconnect(ready.fd, (void *)&nobody, sizeof(nobody)), ECONNREFUSED);
	assert_int_equal(asked, 1); /* TCP does not ask again either */
	assert_int_equal(rclose(ready.fd), 0);
	ready.fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_errno(rconnect(ready.fd, (void *)&nobody, sizeof(nobody)), EINPROGRESS);
	assert_int_equal(rpoll(&ready, 1, 5000), 1);
	assert_true(ready.revents & POLLERR);
	assert_int_equal(rgetsockopt(ready.fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
	assert_int_equal(error, ECONNREFUSED);
	assert_int_equal(rclose(ready.fd), 0);
	assert_errno(rclose(ready.fd), EBADF);
	assert_errno(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	assert_errno(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
}

static void a_connect_can_be_repeated_after_it_failed(void **state)
{
	struct sockaddr_in nobody = { .sin_family = AF_INET,
				      .sin_port = htons(9),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pair pair;

	make_listener(&pair, AF_INET, NULL);
	pair.client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_errno(rconnect(pair.client, (void *)&nobody, sizeof(nobody)), ECONNREFUSED);
	assert_int_equal(rconnect(pair.client, (void *)&pair.addr, pair.addr_size), 0);
	assert_errno(rconnect(pair.client, (void *)&pair.addr, pair.addr_size), EISCONN);
	pair.server = raccept(pair.listener, NULL, NULL);
	send_all(pair.client, 100);
	receive_all(pair.server, 100);
	pair_close(&pair);
}

static void a_port_is_taken_once_and_free_after_close(void **state)
{
	struct pair pair, again;
	int other = rsocket(AF_INET, SOCK_STREAM, 0);

	pair_open(&pair, NULL);
	assert_errno(rbind(other, (void *)&pair.addr, pair.addr_size), EADDRINUSE);
	assert_int_equal(rclose(pair.listener), 0);
	pair.listener = -1;
	/* The connection lives on; the port does not depend on it. */
	assert_int_equal(rbind(other, (void *)&pair.addr, pair.addr_size), 0);
	assert_int_equal(rlisten(other, 1), 0);
	again = pair;
	again.listener = other;
	connect_pair(&again, NULL);
	send_all(pair.client, 10);
	receive_all(pair.server, 10);
	pair_close(&pair);
	pair_close(&again);
}

static void a_waiting_listener_closes_its_queue(void **state)
{
	struct pair pair;
	int clients[4];
	uint8_t byte;

	make_listener(&pair, AF_INET, NULL);
	for (int i = 0; i < 4; i++) {
		clients[i] = rsocket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(rconnect(clients[i], (void *)&pair.addr, pair.addr_size), 0);
	}
	assert_int_equal(rclose(pair.listener), 0);
	/* A reset where the listener had not heard yet that the connection is there. */
	for (int i = 0; i < 4; i++) {
		ssize_t got = rrecv(clients[i], &byte, 1, 0);

		assert_true(!got || (got == -1 && errno == ECONNRESET));
		assert_int_equal(rclose(clients[i]), 0);
	}
}

static void *connect_one(void *arg)
{
	struct pair *pair = arg;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(rconnect(fd, (void *)&pair->addr, pair->addr_size), 0);
	assert_int_equal(rsend(fd, "x", 1, 0), 1);
	return (void *)(intptr_t)fd;
}

static void connects_beyond_the_backlog_wait_for_a_place(void **state)
{
	enum { COUNT = 12 };
	pthread_t threads[COUNT];
	struct pair pair;
	void *client;
	uint8_t byte;

	make_listener(&pair, AF_INET, NULL);
	assert_int_equal(rlisten(pair.listener, 2), 0);
	for (int i = 0; i < COUNT; i++)
		pthread_create(&threads[i], NULL, connect_one, &pair);
	for (int i = 0; i < COUNT; i++) {
		int fd = raccept(pair.listener, NULL, NULL);

		assert_true(fd >= 0);
		assert_int_equal(rrecv(fd, &byte, 1, 0), 1);
		assert_int_equal(rclose(fd), 0);
	}
	for (int i = 0; i < COUNT; i++) {
		pthread_join(threads[i], &client);
		assert_int_equal(rclose((int)(intptr_t)client), 0);
	}
	assert_int_equal(rclose(pair.listener), 0);
}

static int count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void connect_some(int count)
{
	struct pair pair;

	for (int i = 0; i < count; i++) {
		pair_open(&pair, NULL);
		assert_int_equal(rsend(pair.client, "x", 1, 0), 1);
		pair_close(&pair);
	}
}

static void connections_leave_no_descriptors_behind(void **state)
{
	uint64_t start_ms;
	int before;

	connect_some(50);
	before = count_descriptors();
	connect_some(100);
	/*
	 * The service thread may still be holding the last connections. The threads of the
	 * libraries open some descriptors once, a while after the first use.
	 */
	start_ms = now_ms();
	while (count_descriptors() >= before + 10) {
		assert_true(now_ms() - start_ms < 60000);
		sched_yield();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_comes_to_be_before_anybody_accepts),
		cmocka_unit_test(both_ends_know_each_others_names),
		cmocka_unit_test(an_ipv6_listener_without_an_address_takes_both),
		cmocka_unit_test(infiniband_ports_are_names),
		cmocka_unit_test(errors_of_connecting_are_those_of_tcp),
		cmocka_unit_test(a_connect_can_be_repeated_after_it_failed),
		cmocka_unit_test(a_port_is_taken_once_and_free_after_close),
		cmocka_unit_test(a_waiting_listener_closes_its_queue),
		cmocka_unit_test(connects_beyond_the_backlog_wait_for_a_place),
		cmocka_unit_test(connections_leave_no_descriptors_behind),
	};

	return cmocka_run_group_tests_name("rsocket connections", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram rsockets. */
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "pair.h"

/* In place of the C library's: what rsockets send through UDP themselves is counted. */
enum { ROCE_PORT = 4791 };
static atomic_uint through_udp;

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message,
						       int flags)
{
	const struct sockaddr_in *to = message->msg_name;

	if (to && to->sin_family == AF_INET && to->sin_port != htons(ROCE_PORT))
		through_udp++;
	return syscall(SYS_sendmsg, fd, message, flags);
}

static int bound(int family, struct sockaddr_storage *addr, socklen_t *size)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	int fd = rsocket(family, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(rbind(fd, family == AF_INET ? (void *)&in : (void *)&in6,
			       family == AF_INET ? sizeof(in) : sizeof(in6)),
			 0);
	*size = sizeof(*addr);
	assert_int_equal(rgetsockname(fd, (void *)addr, size), 0);
	return fd;
}

/* The first goes through UDP, later ones to the QP; no size is special. */
static void datagrams_of_all_sizes_arrive_with_their_source(void **state)
{
	const int families[] = { AF_INET, AF_INET6 };
	const size_t sizes[] = { 0, 1, 100, 1000, 1024, 2000, 5000, 20000 };
	static uint8_t in[20000], out[20001];

	for (int f = 0; f < 2; f++) {
		struct sockaddr_storage to, from, source;
		socklen_t to_size, from_size, source_size;
		int receiver = bound(families[f], &to, &to_size);
		int sender = bound(families[f], &from, &from_size);

		for (int round = 0; round < 3; round++) {
			for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
				fill_pattern(in, sizes[i], i);
				assert_int_equal(
					rsendto(sender, in, sizes[i], 0, (void *)&to, to_size),
					sizes[i]);
				source_size = sizeof(source);
				assert_int_equal(rrecvfrom(receiver, out, sizeof(out), 0,
							   (void *)&source, &source_size),
						 sizes[i]);
				assert_pattern(out, sizes[i], i);
				assert_int_equal(source_size, from_size);
				assert_memory_equal(&source, &from, 8);
			}
		}
		assert_int_equal(rclose(receiver), 0);
		assert_int_equal(rclose(sender), 0);
	}
}

static void a_connected_one_hears_its_peer_only(void **state)
{
	struct sockaddr_storage a_addr, b_addr, c_addr;
	socklen_t a_size, b_size, c_size;
	int a = bound(AF_INET, &a_addr, &a_size), b = bound(AF_INET, &b_addr, &b_size);
	int c = bound(AF_INET, &c_addr, &c_size);
	struct pollfd ready = { .fd = a, .events = POLLIN | POLLOUT };
	uint8_t bytes[10];

	assert_errno(rsend(a, "x", 1, 0), EDESTADDRREQ);
	assert_int_equal(rconnect(a, (void *)&b_addr, b_size), 0);
	assert_int_equal(rpoll(&ready, 1, 0), 1);
	assert_int_equal(ready.revents, POLLOUT);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rsend(a, "ping", 4, 0), 4);
		assert_int_equal(rrecv(b, bytes, sizeof(bytes), 0), 4);
		assert_int_equal(rsendto(c, "noise", 5, 0, (void *)&a_addr, a_size), 5);
		assert_int_equal(rsendto(b, "pong", 4, 0, (void *)&a_addr, a_size), 4);
		ready.events = POLLIN;
		assert_int_equal(rpoll(&ready, 1, 5000), 1);
		assert_int_equal(rrecv(a, bytes, sizeof(bytes), 0), 4);
		assert_memory_equal(bytes, "pong", 4);
	}
	assert_errno(rrecv(a, bytes, sizeof(bytes), MSG_DONTWAIT), EAGAIN);
	rclose(a);
	rclose(b);
	rclose(c);
}

static void what_does_not_fit_is_cut_and_said(void **state)
{
	struct sockaddr_storage addr, from;
	socklen_t size, from_size;
	int receiver = bound(AF_INET, &addr, &size), sender = bound(AF_INET, &from, &from_size);
	uint8_t bytes[100];
	struct iovec iov = { bytes, 30 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	for (int i = 0; i < 2; i++) {
		fill_pattern(bytes, sizeof(bytes), 0);
		assert_int_equal(rsendto(sender, bytes, 100, 0, (void *)&addr, size), 100);
		memset(bytes, 0, sizeof(bytes));
		assert_int_equal(rrecvmsg(receiver, &message, MSG_PEEK), 30);
		assert_int_equal(message.msg_flags & MSG_TRUNC, MSG_TRUNC);
		assert_int_equal(rrecvmsg(receiver, &message, 0), 30);
		assert_int_equal(message.msg_flags & MSG_TRUNC, MSG_TRUNC);
		assert_pattern(bytes, 30, 0);
		assert_errno(rrecv(receiver, bytes, 1, MSG_DONTWAIT), EAGAIN);
	}
	rclose(receiver);
	rclose(sender);
}

/* A peer that starts again under the same name is found again. */
static void a_name_can_change_its_qp(void **state)
{
	struct sockaddr_storage addr, from;
	socklen_t size, from_size;
	int receiver = bound(AF_INET, &addr, &size), sender = bound(AF_INET, &from, &from_size);
	const uint64_t start_ms = now_ms();
	struct pollfd ready = { .events = POLLIN };
	uint8_t byte;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(rsendto(sender, "x", 1, 0, (void *)&addr, size), 1);
		assert_int_equal(rrecv(receiver, &byte, 1, 0), 1);
	}
	assert_int_equal(rclose(receiver), 0);
	receiver = rsocket(AF_INET, SOCK_DGRAM, 0);
	while (rbind(receiver, (void *)&addr, size)) { /* closed by the service thread */
		assert_int_equal(errno, EADDRINUSE);
		assert_true(now_ms() - start_ms < 30000);
		sched_yield();
	}
	ready.fd = receiver;
	do {
		assert_int_equal(rsendto(sender, "x", 1, 0, (void *)&addr, size), 1);
		assert_true(now_ms() - start_ms < 30000);
	} while (rpoll(&ready, 1, 20) < 1);
	rclose(receiver);
	rclose(sender);
}

/* Also those that the library repeats now and then to find the QP again take nothing from a run. */
static void once_they_know_each_other_the_qps_carry_it(void **state)
{
	struct sockaddr_storage addr, from;
	socklen_t size, from_size;
	int receiver = bound(AF_INET, &addr, &size), sender = bound(AF_INET, &from, &from_size);
	const uint64_t start_ms = now_ms();
	unsigned before = through_udp, run = 0;
	char byte = 'x';

	assert_int_equal(rsendto(sender, &byte, 1, 0, (void *)&addr, size), 1);
	assert_int_equal(rrecv(receiver, &byte, 1, 0), 1);
	assert_int_not_equal(through_udp, before); /* the first asks, so the count counts */
	while (run < 50) {
		before = through_udp;
		assert_int_equal(rsendto(sender, &byte, 1, 0, (void *)&addr, size), 1);
		assert_int_equal(rrecv(receiver, &byte, 1, 0), 1);
		run = through_udp == before ? run + 1 : 0;
		assert_true(now_ms() - start_ms < 30000);
	}
	rclose(receiver);
	rclose(sender);
}

static void a_direction_can_be_ended(void **state)
{
	struct sockaddr_storage a_addr, b_addr;
	socklen_t a_size, b_size;
	int a = bound(AF_INET, &a_addr, &a_size), b = bound(AF_INET, &b_addr, &b_size);
	char byte;

	assert_errno(rshutdown(a, SHUT_WR), ENOTCONN);
	assert_int_equal(rconnect(a, (void *)&b_addr, b_size), 0);
	assert_int_equal(rsend(a, "x", 1, 0), 1);
	assert_int_equal(rrecv(b, &byte, 1, 0), 1);
	assert_errno(rrecv(b, &byte, 1, MSG_ERRQUEUE), EAGAIN);
	assert_int_equal(rshutdown(a, SHUT_WR), 0);
	assert_errno(rsend(a, "x", 1, MSG_NOSIGNAL), EPIPE);
	assert_int_equal(rshutdown(a, SHUT_RD), 0);
	assert_int_equal(rrecv(a, &byte, 1, 0), 0);
	assert_int_equal(rclose(a), 0);
	assert_int_equal(rclose(b), 0);
}

static void limit_descriptors(rlim_t soft)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = soft;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t first_free_descriptor(void)
{
	int fd = dup(0);

	assert_true(fd >= 0);
	close(fd);
	return (rlim_t)fd;
}

/* Wherever the QP's making ends for want of a descriptor: the datagram goes through UDP. */
static void a_datagram_goes_where_no_qp_can_be_made(void **state)
{
	struct sockaddr_storage to, from;
	socklen_t to_size, from_size;
	int receiver = bound(AF_INET, &to, &to_size);
	struct rlimit before;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (rlim_t room = 0; room < 8; room++) {
		int sender = bound(AF_INET, &from, &from_size);
		char byte = (char)room;

		limit_descriptors(first_free_descriptor() + room);
		assert_int_equal(rsendto(sender, &byte, 1, 0, (void *)&to, to_size), 1);
		limit_descriptors(before.rlim_cur);
		assert_int_equal(rrecvfrom(receiver, &byte, 1, 0, NULL, NULL), 1);
		assert_int_equal(byte, (char)room);
		assert_int_equal(rclose(sender), 0);
	}
	assert_int_equal(rclose(receiver), 0);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagrams_of_all_sizes_arrive_with_their_source),
		cmocka_unit_test(a_connected_one_hears_its_peer_only),
		cmocka_unit_test(what_does_not_fit_is_cut_and_said),
		cmocka_unit_test(a_name_can_change_its_qp),
		cmocka_unit_test(a_direction_can_be_ended),
		cmocka_unit_test(once_they_know_each_other_the_qps_carry_it),
		cmocka_unit_test(a_datagram_goes_where_no_qp_can_be_made),
	};

	return cmocka_run_group_tests_name("rsocket datagrams", tests, NULL, NULL);
}

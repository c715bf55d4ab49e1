/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ordinary socket program: what TCP would show it, connected and waiting. Raw system calls make
 * the peers that know nothing of RDMA.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ends.h"

static void connections_go_by_rdma(void **state)
{
	struct ends ends;
	struct sockaddr_in name;
	socklen_t size = sizeof(name);

	open_ends(&ends);
	assert_int_equal(kernel_has_connection(&ends.addr), plain);
	assert_int_equal(getpeername(ends.client, (void *)&name, &size), 0);
	assert_int_equal(name.sin_port, ends.addr.sin_port);
	assert_int_equal(getsockname(ends.server, (void *)&name, &size), 0);
	assert_int_equal(name.sin_port, ends.addr.sin_port);
	close_ends(&ends);
}

static void all_calls_that_move_data_move_it(void **state)
{
	struct iovec iov[2] = { { "ab", 2 }, { "cd", 2 } };
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
	char bytes[10] = { 0 };
	struct iovec into[2] = { { bytes, 1 }, { bytes + 1, 9 } };
	FILE *file = tmpfile();
	struct ends ends;
	off_t offset = 1;
	int size = 0;

	open_ends(&ends);
	assert_int_equal(write(ends.client, "1", 1), 1);
	assert_int_equal(send(ends.client, "2", 1, 0), 1);
	assert_int_equal(sendto(ends.client, "3", 1, 0, NULL, 0), 1);
	assert_int_equal(writev(ends.client, iov, 2), 4);
	assert_int_equal(sendmsg(ends.client, &message, 0), 4);
	receive(ends.server, "123abcdabcd");
	assert_int_equal(write(ends.client, "hello", 5), 5);
	assert_int_equal(recv(ends.server, bytes, 5, MSG_PEEK | MSG_WAITALL), 5);
	assert_int_equal(ioctl(ends.server, FIONREAD, &size), 0);
	assert_int_equal(size, 5);
	assert_int_equal(readv(ends.server, into, 2), 5);
	assert_memory_equal(bytes, "hello", 5);
	assert_int_equal(write(ends.client, "again", 5), 5);
	message.msg_iov = into;
	into[1].iov_len = 4;
	assert_int_equal(recvmsg(ends.server, &message, MSG_WAITALL), 5);
	assert_memory_equal(bytes, "again", 5);
	close_ends(&ends);
	open_ends(&ends);
	fputs("0123456789", file);
	fflush(file);
	assert_int_equal(sendfile(ends.client, fileno(file), &offset, 5), 5);
	assert_int_equal(offset, 6);
	receive(ends.server, "12345");
	fclose(file);
	close_ends(&ends);
}

static int raw_listener(struct sockaddr_in *addr)
{
	socklen_t size = sizeof(*addr);
	int raw = raw_socket();

	*addr = (struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(syscall(SYS_bind, raw, addr, sizeof(*addr)), 0);
	assert_int_equal(syscall(SYS_listen, raw, 4), 0);
	assert_int_equal(syscall(SYS_getsockname, raw, addr, &size), 0);
	return raw;
}

static void a_client_without_rdma_is_served(void **state)
{
	struct ends ends;
	char byte;
	int raw = raw_socket();

	listen_somewhere(&ends);
	assert_int_equal(syscall(SYS_connect, raw, &ends.addr, sizeof(ends.addr)), 0);
	ends.server = accept4(ends.listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(ends.server >= 0);
	assert_int_equal(syscall(SYS_write, raw, "x", 1), 1);
	assert_int_equal(read(ends.server, &byte, 1), 1);
	assert_int_equal(byte, 'x');
	syscall(SYS_close, raw);
	assert_int_equal(read(ends.server, &byte, 1), 0);
	close_ends(&ends);
}

static void a_server_without_rdma_is_reached(void **state)
{
	struct sockaddr_in addr;
	int raw = raw_listener(&addr);
	char byte;

	for (int nonblock = 0; nonblock < 2; nonblock++) {
		int fd = socket(AF_INET, SOCK_STREAM | (nonblock ? SOCK_NONBLOCK : 0), 0), server;
		struct pollfd ready = { .fd = fd, .events = POLLOUT };
		socklen_t size = sizeof(int);
		int error = -1;

		if (nonblock) {
			assert_errno(connect(fd, (void *)&addr, sizeof(addr)), EINPROGRESS);
			assert_int_equal(poll(&ready, 1, 5000), 1);
			assert_int_equal(ready.revents, POLLOUT);
			assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
			assert_int_equal(error, 0);
		} else {
			assert_int_equal(connect(fd, (void *)&addr, sizeof(addr)), 0);
		}
		server = (int)syscall(SYS_accept, raw, NULL, NULL);
		assert_int_equal(write(fd, "x", 1), 1);
		assert_int_equal(syscall(SYS_read, server, &byte, 1), 1);
		assert_int_equal(close(fd), 0);
		assert_int_equal(syscall(SYS_read, server, &byte, 1), 0);
		syscall(SYS_close, server);
	}
	syscall(SYS_close, raw);
}

static void nobody_is_nobody(void **state)
{
	struct sockaddr_in addr;
	struct epoll_event event = { .events = EPOLLOUT };
	socklen_t size = sizeof(int);
	int raw = raw_listener(&addr), fd, error = 0, set = epoll_create1(0);

	syscall(SYS_close, raw);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_errno(connect(fd, (void *)&addr, sizeof(addr)), ECONNREFUSED);
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (connect(fd, (void *)&addr, sizeof(addr)) && errno != ECONNREFUSED) {
		assert_int_equal(errno, EINPROGRESS);
		assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
		assert_int_equal(epoll_wait(set, &event, 1, 5000), 1);
		assert_true(event.events & (EPOLLERR | EPOLLHUP));
		assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
		assert_int_equal(error, ECONNREFUSED);
	}
	close(fd);
	close(set);
}

static void *accept_one(void *fd)
{
	int accepted = accept(*(int *)fd, NULL, NULL);

	return (void *)(intptr_t)accepted;
}

static void a_blocking_accept_waits_for_either_kind(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		struct ends ends;
		pthread_t thread;
		void *fd;

		listen_somewhere(&ends);
		pthread_create(&thread, NULL, accept_one, &ends.listener);
		ends.client = kind ? raw_socket() : socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(connect(ends.client, (void *)&ends.addr, sizeof(ends.addr)), 0);
		pthread_join(thread, &fd);
		ends.server = (int)(intptr_t)fd;
		assert_true(ends.server >= 0);
		assert_int_equal(write(ends.server, "x", 1), 1);
		receive(ends.client, "x");
		close_ends(&ends);
	}
}

static void poll_and_select_know_them(void **state)
{
	struct timespec time = { .tv_sec = 5 };
	struct timeval short_time = { .tv_usec = 1000 };
	struct ends ends;
	struct pollfd fds[2];
	fd_set set;
	char byte;

	open_ends(&ends);
	fds[0] = (struct pollfd){ .fd = ends.server, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = ends.listener, .events = POLLIN };
	assert_int_equal(poll(fds, 2, 0), 0);
	assert_int_equal(write(ends.client, "x", 1), 1);
	assert_int_equal(ppoll(fds, 2, &time, NULL), 1);
	assert_int_equal(fds[0].revents, POLLIN);
	assert_int_equal(fds[1].revents, 0);
	FD_ZERO(&set);
	FD_SET(ends.server, &set);
	assert_int_equal(pselect(ends.server + 1, &set, NULL, NULL, &time, NULL), 1);
	assert_int_equal(read(ends.server, &byte, 1), 1);
	assert_int_equal(select(ends.server + 1, &set, NULL, NULL, &short_time), 0);
	assert_false(FD_ISSET(ends.server, &set));
	close_ends(&ends);
}

static void epoll_tells_levels_edges_and_single_shots(void **state)
{
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event, events[8];
	struct ends ends;
	char byte;

	open_ends(&ends);
	epoll_add(set, ends.server, EPOLLIN);
	assert_errno(epoll_ctl(set, EPOLL_CTL_ADD, ends.server, &(struct epoll_event){ 0 }),
		     EEXIST);
	assert_int_equal(epoll_wait(set, events, 8, 0), 0);
	assert_int_equal(write(ends.client, "12", 2), 2);
	for (int i = 0; i < 3; i++) { /* a level stays */
		assert_int_equal(epoll_wait(set, events, 8, 5000), 1);
		assert_int_equal(events[0].data.u64, ends.server);
		assert_int_equal(events[0].events, EPOLLIN);
	}
	event = (struct epoll_event){ .events = EPOLLIN | EPOLLET, .data.u64 = 7 };
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_MOD, ends.server, &event), 0);
	assert_int_equal(epoll_wait(set, events, 8, 5000), 1);
	assert_int_equal(events[0].data.u64, 7);
	assert_int_equal(epoll_wait(set, events, 8, 20), 0); /* an edge is told once */
	assert_int_equal(write(ends.client, "3", 1), 1);
	assert_int_equal(epoll_wait(set, events, 8, 5000), 1);
	event.events = EPOLLIN | EPOLLONESHOT;
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_MOD, ends.server, &event), 0);
	assert_int_equal(epoll_wait(set, events, 8, 5000), 1);
	assert_int_equal(epoll_wait(set, events, 8, 20), 0);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_MOD, ends.server, &event), 0);
	assert_int_equal(epoll_wait(set, events, 8, 5000), 1);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, ends.server, NULL), 0);
	assert_errno(epoll_ctl(set, EPOLL_CTL_DEL, ends.server, NULL), ENOENT);
	assert_int_equal(epoll_wait(set, events, 8, 0), 0);
	while (recv(ends.server, &byte, 1, MSG_DONTWAIT) == 1)
		;
	epoll_add(set, ends.server, EPOLLIN | EPOLLRDHUP);
	assert_int_equal(close(ends.client), 0);
	ends.client = -1;
	assert_int_equal(epoll_wait(set, events, 8, 5000), 1);
	assert_int_equal(events[0].events & (EPOLLIN | EPOLLRDHUP), EPOLLIN | EPOLLRDHUP);
	assert_int_equal(close(ends.server), 0); /* leaves the set by itself */
	ends.server = -1;
	assert_int_equal(epoll_wait(set, events, 8, 0), 0);
	close_ends(&ends);
	close(set);
}

static void epoll_mixes_with_ordinary_descriptors(void **state)
{
	int set = epoll_create1(0), pipe_ends[2];
	struct epoll_event events[4];
	unsigned seen = 0;
	struct ends ends;

	assert_int_equal(pipe(pipe_ends), 0);
	open_ends(&ends);
	epoll_add(set, pipe_ends[0], EPOLLIN);
	epoll_add(set, ends.server, EPOLLIN);
	epoll_add(set, ends.listener, EPOLLIN);
	assert_int_equal(epoll_wait(set, events, 4, 0), 0);
	assert_int_equal(write(pipe_ends[1], "x", 1), 1);
	assert_int_equal(epoll_wait(set, events, 4, 5000), 1);
	assert_int_equal(events[0].data.u64, pipe_ends[0]);
	assert_int_equal(write(ends.client, "x", 1), 1);
	for (int i = 0; i < 100 && seen != 3; i++) { /* room for one only: both get a turn */
		assert_int_equal(epoll_wait(set, events, 2, 5000) > 0, 1);
		seen |= events[0].data.u64 == (uint64_t)pipe_ends[0] ? 1 : 2;
		seen |= events[1].data.u64 == (uint64_t)pipe_ends[0] ? 1 : 2;
	}
	assert_int_equal(seen, 3);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	close_ends(&ends);
	close(set);
}

static void a_server_in_one_thread_serves_many(void **state)
{
	enum { COUNT = 20 };
	int set = epoll_create1(0), clients[COUNT], served = 0;
	struct epoll_event events[8];
	struct ends ends;
	char byte;

	listen_somewhere(&ends);
	assert_int_equal(fcntl(ends.listener, F_SETFL, O_NONBLOCK), 0);
	epoll_add(set, ends.listener, EPOLLIN);
	for (int i = 0; i < COUNT; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		assert_errno(connect(clients[i], (void *)&ends.addr, sizeof(ends.addr)),
			     EINPROGRESS);
		epoll_add(set, clients[i], EPOLLOUT);
	}
	while (served < COUNT) {
		int count = epoll_wait(set, events, 8, 5000);

		assert_true(count > 0);
		for (int i = 0; i < count; i++) {
			int fd = (int)events[i].data.u64;

			if (fd == ends.listener) {
				fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
				if (fd >= 0)
					epoll_add(set, fd, EPOLLIN);
			} else if (events[i].events & EPOLLOUT) {
				assert_int_equal(write(fd, "x", 1), 1);
				assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL), 0);
			} else {
				assert_int_equal(read(fd, &byte, 1), 1);
				assert_int_equal(close(fd), 0);
				served++;
			}
		}
	}
	for (int i = 0; i < COUNT; i++)
		close(clients[i]);
	close_ends(&ends);
	close(set);
}

static void an_idle_wait_uses_no_cpu(void **state)
{
	int set = epoll_create1(0);
	struct rusage before, after;
	struct epoll_event event;
	struct ends ends;
	long used_us;

	open_ends(&ends);
	epoll_add(set, ends.server, EPOLLIN);
	getrusage(RUSAGE_SELF, &before);
	assert_int_equal(epoll_wait(set, &event, 1, 500), 0);
	getrusage(RUSAGE_SELF, &after);
	used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
		   before.ru_stime.tv_sec) *
			  1000000 +
		  (after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
		   before.ru_stime.tv_usec);
	assert_true(used_us < 100000);
	close_ends(&ends);
	close(set);
}

/* Programs that know that fd_set is an array of bits. */
static void select_takes_numbers_above_its_usual_limit(void **state)
{
	enum { HIGH = 3000, COUNT = 1 << 20 };
	static unsigned long bits[COUNT / 64];
	struct timeval soon = { .tv_sec = 10 };
	struct rlimit limit;
	struct ends ends;
	int high;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur <= HIGH)
		skip();
	open_ends(&ends);
	high = fcntl(ends.server, F_DUPFD, HIGH);
	assert_in_range(high, HIGH, 4095);
	bits[high / 64] |= 1ul << high % 64;
	assert_int_equal(write(ends.client, "up", 2), 2);
	assert_int_equal(select(high + 1, (fd_set *)bits, NULL, NULL, &soon), 1);
	assert_true(bits[high / 64] & 1ul << high % 64);
	receive(high, "up");
	/* More than a process can have: what is beyond is not looked at. */
	bits[high / 64] = 0;
	bits[0] = 1ul << ends.server;
	bits[COUNT / 64 - 1] = 1;
	soon = (struct timeval){ 0 };
	assert_int_equal(select(COUNT, (fd_set *)bits, NULL, NULL, &soon), 0);
	close(high);
	close_ends(&ends);
}

static void several_messages_go_with_one_call(void **state)
{
	char in[3][4] = { 0 };
	struct iovec from[3] = { { "one", 3 }, { "two", 3 }, { "six", 3 } };
	struct iovec into[3] = { { in[0], 3 }, { in[1], 3 }, { in[2], 3 } };
	struct mmsghdr messages[3] = { 0 };
	struct timespec no_time = { 0 };
	struct ends ends;

	open_ends(&ends);
	for (int i = 0; i < 3; i++)
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &from[i], .msg_iovlen = 1 };
	assert_int_equal(sendmmsg(ends.client, messages, 3, 0), 3);
	assert_int_equal(messages[2].msg_len, 3);
	for (int i = 0; i < 3; i++)
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &into[i], .msg_iovlen = 1 };
	assert_int_equal(recvmmsg(ends.server, messages, 2, MSG_WAITALL, NULL), 2);
	assert_int_equal(recvmmsg(ends.server, messages + 2, 1, MSG_WAITFORONE, &no_time), 1);
	assert_int_equal(messages[2].msg_len, 3);
	assert_string_equal(in[0], "one");
	assert_string_equal(in[1], "two");
	assert_string_equal(in[2], "six");
	assert_errno(recvmmsg(ends.server, messages, 2, MSG_DONTWAIT, NULL), EAGAIN);
	close_ends(&ends);
}

/* Zero copy would be reported there; nothing of what arrived is lost by asking. */
static void the_error_queue_is_empty(void **state)
{
	char byte, control[100];
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct ends ends;

	open_ends(&ends);
	assert_int_equal(write(ends.client, "data", 4), 4);
	assert_int_equal(recv(ends.server, &byte, 1, MSG_PEEK), 1);
	assert_errno(recvmsg(ends.server, &message, MSG_ERRQUEUE), EAGAIN);
	receive(ends.server, "data");
	close_ends(&ends);
}

static void what_rdma_does_not_have_is_refused(void **state)
{
	const int on = 1;
	struct ends ends;
	char kept[4];
	int ways[2];

	open_ends(&ends);
	assert_int_equal(pipe(ways), 0);
	assert_int_equal(write(ways[1], "kept", 4), 4);
	if (plain) {
		close(ways[0]);
		close(ways[1]);
		close_ends(&ends);
		return;
	}
	assert_errno(splice(ways[0], NULL, ends.client, NULL, 4, 0), EINVAL);
	assert_errno(splice(ends.client, NULL, ways[1], NULL, 4, 0), EINVAL);
	assert_int_equal(read(ways[0], kept, 4), 4);
	assert_memory_equal(kept, "kept", 4);
	assert_errno(setsockopt(ends.client, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), EOPNOTSUPP);
	close(ways[0]);
	close(ways[1]);
	close_ends(&ends);
}

static void wrong_arguments_are_refused(void **state)
{
	static struct iovec iov[1025];
	volatile int negative = -1;
	struct ends ends;

	open_ends(&ends);
	assert_errno(writev(ends.client, iov, negative), EINVAL);
	assert_errno(readv(ends.client, iov, 1025), EINVAL);
	assert_errno(listen(ends.client, 1), EINVAL);
	assert_errno(listen(ends.server, 1), EINVAL);
	close_ends(&ends);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_go_by_rdma),
		cmocka_unit_test(all_calls_that_move_data_move_it),
		cmocka_unit_test(a_client_without_rdma_is_served),
		cmocka_unit_test(a_server_without_rdma_is_reached),
		cmocka_unit_test(nobody_is_nobody),
		cmocka_unit_test(a_blocking_accept_waits_for_either_kind),
		cmocka_unit_test(poll_and_select_know_them),
		cmocka_unit_test(epoll_tells_levels_edges_and_single_shots),
		cmocka_unit_test(epoll_mixes_with_ordinary_descriptors),
		cmocka_unit_test(a_server_in_one_thread_serves_many),
		cmocka_unit_test(an_idle_wait_uses_no_cpu),
		cmocka_unit_test(select_takes_numbers_above_its_usual_limit),
		cmocka_unit_test(several_messages_go_with_one_call),
		cmocka_unit_test(the_error_queue_is_empty),
		cmocka_unit_test(what_rdma_does_not_have_is_refused),
		cmocka_unit_test(wrong_arguments_are_refused),
	};

	return run_ends("ordinary sockets", tests, argc, argv);
}

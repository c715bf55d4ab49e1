/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An ordinary socket program. Run with the preload library in front its connections go by RDMA;
 * what it sees is what TCP would show it. Raw system calls make the peers that know nothing of
 * it. Without the library (argument "plain") the same tests hold for the kernel's TCP.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static bool plain;

struct ends {
	int listener, client, server;
	struct sockaddr_in addr;
};

#define assert_errno(call, expected)                   \
	do {                                           \
		errno = 0;                             \
		assert_int_equal((ssize_t)(call), -1); \
		assert_int_equal(errno, expected);     \
	} while (0)

static void listen_somewhere(struct ends *ends)
{
	socklen_t size = sizeof(ends->addr);
	const int on = 1;

	ends->client = ends->server = -1;
	ends->listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(ends->listener >= 0);
	assert_int_equal(setsockopt(ends->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	ends->addr = (struct sockaddr_in){ .sin_family = AF_INET,
					   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(ends->listener, (void *)&ends->addr, sizeof(ends->addr)), 0);
	assert_int_equal(listen(ends->listener, 16), 0);
	assert_int_equal(getsockname(ends->listener, (void *)&ends->addr, &size), 0);
}

static void open_ends(struct ends *ends)
{
	listen_somewhere(ends);
	ends->client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(ends->client, (void *)&ends->addr, sizeof(ends->addr)), 0);
	ends->server = accept(ends->listener, NULL, NULL);
	assert_true(ends->server >= 0);
}

static void close_ends(struct ends *ends)
{
	const int fds[] = { ends->client, ends->server, ends->listener };

	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0)
			assert_int_equal(close(fds[i]), 0);
	}
}

/* Whether the kernel knows of a TCP connection at this port. */
static bool kernel_has_connection(const struct sockaddr_in *addr)
{
	FILE *file = fopen("/proc/self/net/tcp", "r");
	char line[300];
	bool found = false;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		unsigned local_port, remote_port, state;

		if (sscanf(line, "%*d: %*x:%x %*x:%x %x", &local_port, &remote_port, &state) != 3)
			continue;
		if (state == TCP_ESTABLISHED &&
		    (local_port == ntohs(addr->sin_port) || remote_port == ntohs(addr->sin_port)))
			found = true;
	}
	fclose(file);
	return found;
}

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

static void receive(int fd, const char *expected)
{
	char bytes[100];

	assert_int_equal(recv(fd, bytes, strlen(expected), MSG_WAITALL), strlen(expected));
	assert_memory_equal(bytes, expected, strlen(expected));
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

/* --- peers that are no RDMA programs --- */

static int raw_socket(void)
{
	return (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
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

/* --- waiting --- */

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

static void epoll_add(int set, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = (uint64_t)fd };

	assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
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

/* --- descriptors --- */

static void copies_name_the_same_connection(void **state)
{
	struct ends ends;
	int copy, other;
	char byte;

	open_ends(&ends);
	copy = dup(ends.client);
	assert_true(copy >= 0);
	other = fcntl(ends.client, F_DUPFD_CLOEXEC, 100);
	assert_true(other >= 100);
	assert_int_equal(dup2(copy, copy), copy);
	assert_int_equal(close(ends.client), 0);
	assert_int_equal(write(copy, "1", 1), 1);
	assert_int_equal(dup2(copy, 200), 200);
	assert_int_equal(close(copy), 0);
	assert_int_equal(write(200, "2", 1), 1);
	assert_int_equal(write(other, "3", 1), 1);
	receive(ends.server, "123");
	assert_int_equal(dup3(other, 200, O_CLOEXEC), 200);
	assert_int_equal(close(other), 0);
	assert_int_equal(recv(ends.server, &byte, 1, MSG_DONTWAIT), -1); /* still open */
	ends.client = -1;
	assert_int_equal(close(200), 0);
	assert_int_equal(read(ends.server, &byte, 1), 0); /* the last one ends it */
	close_ends(&ends);
}

static void flags_are_as_they_were_set(void **state)
{
	struct ends ends;
	int on = 1;
	char byte;

	open_ends(&ends);
	assert_int_equal(fcntl(ends.server, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(fcntl(ends.listener, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(ioctl(ends.server, FIONBIO, &on), 0);
	assert_int_equal(fcntl(ends.server, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_errno(read(ends.server, &byte, 1), EAGAIN);
	assert_int_equal(fcntl(ends.listener, F_SETFL, O_NONBLOCK), 0);
	assert_errno(accept(ends.listener, NULL, NULL), EAGAIN);
	assert_int_equal(fcntl(ends.listener, F_SETFD, FD_CLOEXEC), 0);
	assert_int_equal(fcntl(ends.listener, F_GETFD), FD_CLOEXEC);
	close_ends(&ends);
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

static atomic_int pipes;

static void on_pipe(int number)
{
	atomic_fetch_add(&pipes, 1);
}

static void writing_after_shutdown_is_a_broken_pipe(void **state)
{
	struct ends ends;
	char byte;

	signal(SIGPIPE, on_pipe);
	open_ends(&ends);
	assert_int_equal(shutdown(ends.client, SHUT_WR), 0);
	assert_errno(send(ends.client, "x", 1, MSG_NOSIGNAL), EPIPE);
	assert_int_equal(pipes, 0);
	assert_errno(write(ends.client, "x", 1), EPIPE);
	assert_int_equal(pipes, 1);
	assert_int_equal(read(ends.server, &byte, 1), 0);
	assert_int_equal(write(ends.server, "back", 4), 4);
	receive(ends.client, "back");
	signal(SIGPIPE, SIG_DFL);
	close_ends(&ends);
}

static void a_child_of_fork_leaves_the_connection_alone(void **state)
{
	struct ends ends;
	int status = 0;
	pid_t child;

	open_ends(&ends);
	child = fork();
	if (!child) {
		close(ends.client);
		close(ends.server);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(write(ends.client, "still", 5), 5);
	receive(ends.server, "still");
	/* The child's listener is the kernel's: it serves those who come by TCP. */
	child = fork();
	if (!child) {
		int fd = accept(ends.listener, NULL, NULL);
		char byte;

		_exit(fd < 0 || read(fd, &byte, 1) != 1 || byte != 'c');
	}
	status = raw_socket();
	assert_int_equal(syscall(SYS_connect, status, &ends.addr, sizeof(ends.addr)), 0);
	assert_int_equal(syscall(SYS_write, status, "c", 1), 1);
	syscall(SYS_close, status);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close_ends(&ends);
}

/* Runs work in a child; the parent goes on at once. */
static pid_t in_a_child(int (*work)(struct ends *ends), struct ends *ends)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child)
		_exit(work(ends));
	return child;
}

static void assert_success(pid_t child)
{
	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void close_now(int *fd)
{
	assert_int_equal(close(*fd), 0);
	*fd = -1;
}

/* Sends back all that comes; the status is the line where something was not as it should be. */
static int echo(struct ends *ends)
{
	static char bytes[10000];
	struct sockaddr_in name;
	socklen_t size = sizeof(name);
	const int on = 1;
	ssize_t count;

	close(ends->listener);
	close(ends->client);
	if (getpeername(ends->server, (void *)&name, &size) || name.sin_family != AF_INET)
		return 1;
	if (getsockname(ends->server, (void *)&name, &size) || name.sin_port != ends->addr.sin_port)
		return 2;
	if (setsockopt(ends->server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		return 3;
	while ((count = read(ends->server, bytes, sizeof(bytes))) > 0) {
		if (send(ends->server, bytes, (size_t)count, 0) != count)
			return 4;
	}
	return count ? 5 : 0;
}

static void a_server_may_leave_the_connection_to_a_child(void **state)
{
	enum { SIZE = 3000000 };
	uint8_t *sent = malloc(SIZE), *received = malloc(SIZE);
	struct pollfd ready;
	struct ends ends;
	size_t out = 0, in = 0;
	pid_t child;

	open_ends(&ends);
	assert_int_equal(kernel_has_connection(&ends.addr), plain);
	child = in_a_child(echo, &ends);
	close_now(&ends.server);
	for (int i = 0; i < SIZE; i++)
		sent[i] = (uint8_t)(i * 7 + i / 251);
	ready = (struct pollfd){ .fd = ends.client };
	while (in < SIZE) {
		ssize_t count;

		ready.events = (short)(POLLIN | (out < SIZE ? POLLOUT : 0));
		assert_int_equal(poll(&ready, 1, -1), 1);
		if (out < SIZE && ready.revents & POLLOUT) {
			count = send(ends.client, sent + out, SIZE - out, MSG_DONTWAIT);
			assert_true(count > 0 || errno == EAGAIN);
			out += count > 0 ? (size_t)count : 0;
		}
		if (ready.revents & POLLIN) {
			count = read(ends.client, received + in, SIZE - in);
			assert_true(count > 0);
			in += (size_t)count;
		}
	}
	assert_memory_equal(sent, received, SIZE);
	assert_int_equal(shutdown(ends.client, SHUT_WR), 0);
	assert_int_equal(read(ends.client, received, 1), 0);
	assert_success(child);
	close_ends(&ends);
	free(sent);
	free(received);
}

static int write_a_word(struct ends *ends)
{
	return write(ends->server, "child", 5) != 5;
}

static void a_child_and_its_parent_write_to_one_connection(void **state)
{
	struct ends ends;
	char byte;

	open_ends(&ends);
	assert_success(in_a_child(write_a_word, &ends));
	receive(ends.client, "child");
	assert_int_equal(write(ends.server, "parent", 6), 6);
	receive(ends.client, "parent");
	assert_int_equal(write(ends.client, "answer", 6), 6);
	receive(ends.server, "answer");
	/* What a child that is gone wrote last comes before the end. */
	assert_success(in_a_child(write_a_word, &ends));
	close_now(&ends.server);
	receive(ends.client, "child");
	assert_int_equal(read(ends.client, &byte, 1), 0);
	close_ends(&ends);
}

static int accept_and_greet(struct ends *ends)
{
	int fd = accept(ends->listener, NULL, NULL);

	return fd < 0 || write(fd, "welcome", 7) != 7;
}

static void children_may_accept_what_the_parent_only_listens_for(void **state)
{
	struct ends ends;
	pid_t child;

	listen_somewhere(&ends);
	child = in_a_child(accept_and_greet, &ends);
	ends.client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(ends.client, (void *)&ends.addr, sizeof(ends.addr)), 0);
	receive(ends.client, "welcome");
	assert_success(child);
	close_now(&ends.client);
	/* Who accepts by himself has RDMA again; not blocking, to see that this is still so. */
	assert_int_equal(fcntl(ends.listener, F_SETFL, O_NONBLOCK), 0);
	assert_errno(accept(ends.listener, NULL, NULL), EAGAIN);
	ends.client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(ends.client, (void *)&ends.addr, sizeof(ends.addr)), 0);
	assert_int_equal(kernel_has_connection(&ends.addr), plain);
	close_ends(&ends);
}

/* What a child of vfork does to its numbers happens in the memory of its parent. */
static void a_child_of_vfork_closes_its_own_numbers(void **state)
{
	struct ends ends;
	int set = epoll_create1(0), copy;
	struct epoll_event event;
	pid_t child;

	open_ends(&ends);
	copy = open("/dev/null", O_WRONLY);
	epoll_add(set, ends.server, EPOLLIN);
	child = vfork();
	if (!child) {
		dup2(ends.client, copy);
		close(ends.client);
		close(ends.server);
		close(set);
		_exit(0);
	}
	assert_success(child);
	assert_int_equal(write(copy, "lost", 4), 4);
	assert_int_equal(write(ends.client, "found", 5), 5);
	assert_int_equal(epoll_wait(set, &event, 1, -1), 1);
	receive(ends.server, "found");
	close(copy);
	close(set);
	close_ends(&ends);
}

static void a_range_of_numbers_is_closed(void **state)
{
	struct ends ends;
	char byte;

	open_ends(&ends);
	assert_int_equal(close_range((unsigned)ends.server, (unsigned)ends.server, 0), 0);
	assert_int_equal(read(ends.client, &byte, 1), 0);
	assert_errno(fcntl(ends.server, F_GETFD), EBADF);
	ends.server = -1;
	close_ends(&ends);
	open_ends(&ends);
	assert_int_equal(
		close_range((unsigned)ends.server, (unsigned)ends.server, CLOSE_RANGE_CLOEXEC), 0);
	assert_int_equal(fcntl(ends.server, F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(ends.server, "here", 4), 4);
	receive(ends.client, "here");
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

static int take_and_greet(struct ends *ends)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int fd;

	if (recvmsg(ends->listener, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		return 1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return read(fd, &byte, 1) != 1 || byte != '?' || write(fd, "welcome", 7) != 7;
}

/* The child has been there before the connection. */
static void a_connection_can_be_sent_to_another_process(void **state)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { "!", 1 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct ends ends;
	pid_t child;
	int ways[2];
	char byte;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ways), 0);
	ends.listener = ways[1];
	child = in_a_child(take_and_greet, &ends);
	open_ends(&ends);
	memcpy(CMSG_DATA(&control.header), &ends.server, sizeof(int));
	assert_int_equal(sendmsg(ways[0], &message, 0), 1);
	close_now(&ends.server);
	assert_int_equal(write(ends.client, "?", 1), 1);
	receive(ends.client, "welcome");
	assert_success(child);
	assert_int_equal(read(ends.client, &byte, 1), 0);
	close(ways[0]);
	close(ways[1]);
	close_ends(&ends);
}

static short events_of(int fd, short events)
{
	struct pollfd ready = { .fd = fd, .events = events };

	assert_int_equal(poll(&ready, 1, -1), 1);
	return ready.revents;
}

static void an_abort_is_not_taken_for_an_end(void **state)
{
	const struct linger at_once = { .l_onoff = 1 };
	struct ends ends;
	char byte;

	open_ends(&ends);
	assert_int_equal(setsockopt(ends.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
			 0);
	close_now(&ends.client);
	assert_int_equal(events_of(ends.server, POLLIN | POLLRDHUP),
			 POLLIN | POLLRDHUP | POLLHUP | POLLERR);
	assert_errno(read(ends.server, &byte, 1), ECONNRESET);
	assert_int_equal(read(ends.server, &byte, 1), 0);
	assert_errno(send(ends.server, "x", 1, MSG_NOSIGNAL), EPIPE);
	close_ends(&ends);
}

static int connect_and_die(struct ends *ends)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (void *)&ends->addr, sizeof(ends->addr)) || write(fd, "last", 4) != 4)
		return 1;
	pause();
	return 0;
}

/* The kernel closes for the dead; here nobody can say that this was all. */
static void who_is_killed_has_not_closed(void **state)
{
	struct ends ends;
	pid_t child;
	char byte;

	listen_somewhere(&ends);
	assert_int_equal(fcntl(ends.listener, F_SETFL, O_NONBLOCK), 0);
	assert_errno(accept(ends.listener, NULL, NULL), EAGAIN);
	child = in_a_child(connect_and_die, &ends);
	assert_true(events_of(ends.listener, POLLIN) & POLLIN);
	ends.server = accept(ends.listener, NULL, NULL);
	assert_true(ends.server >= 0);
	assert_int_equal(kernel_has_connection(&ends.addr), plain);
	assert_int_equal(events_of(ends.server, POLLIN), POLLIN);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(events_of(ends.server, POLLRDHUP) & POLLRDHUP);
	receive(ends.server, "last");
	if (plain)
		assert_int_equal(read(ends.server, &byte, 1), 0);
	else
		assert_errno(read(ends.server, &byte, 1), ECONNRESET);
	close_ends(&ends);
}

static void who_writes_to_nobody_gets_a_broken_pipe(void **state)
{
	struct ends ends;
	char byte;

	open_ends(&ends);
	close_now(&ends.client);
	assert_int_equal(read(ends.server, &byte, 1), 0);
	while (send(ends.server, "x", 1, MSG_NOSIGNAL) == 1 || errno == ECONNRESET)
		;
	assert_int_equal(errno, EPIPE);
	close_ends(&ends);
}

static void both_directions_ended_is_a_hang_up(void **state)
{
	struct ends ends;
	char byte;

	open_ends(&ends);
	assert_int_equal(shutdown(ends.client, SHUT_WR), 0);
	assert_int_equal(read(ends.server, &byte, 1), 0);
	assert_int_equal(events_of(ends.server, POLLIN | POLLOUT), POLLIN | POLLOUT);
	assert_int_equal(shutdown(ends.server, SHUT_WR), 0);
	assert_int_equal(events_of(ends.server, 0), POLLHUP);
	assert_int_equal(read(ends.client, &byte, 1), 0);
	assert_int_equal(events_of(ends.client, 0), POLLHUP);
	close_ends(&ends);
}

/* Each ends its direction before it has seen that the other one did. */
static void ends_that_cross_arrive(void **state)
{
	struct ends ends;
	char byte;

	open_ends(&ends);
	assert_int_equal(write(ends.server, "data", 4), 4);
	assert_int_equal(shutdown(ends.client, SHUT_WR), 0);
	assert_int_equal(shutdown(ends.server, SHUT_WR), 0);
	receive(ends.client, "data");
	assert_int_equal(read(ends.client, &byte, 1), 0);
	assert_int_equal(read(ends.server, &byte, 1), 0);
	close_ends(&ends);
	open_ends(&ends);
	assert_int_equal(shutdown(ends.client, SHUT_WR), 0);
	close_now(&ends.server);
	assert_int_equal(read(ends.client, &byte, 1), 0);
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
		cmocka_unit_test(poll_and_select_know_them),
		cmocka_unit_test(epoll_tells_levels_edges_and_single_shots),
		cmocka_unit_test(epoll_mixes_with_ordinary_descriptors),
		cmocka_unit_test(a_server_in_one_thread_serves_many),
		cmocka_unit_test(an_idle_wait_uses_no_cpu),
		cmocka_unit_test(copies_name_the_same_connection),
		cmocka_unit_test(flags_are_as_they_were_set),
		cmocka_unit_test(a_blocking_accept_waits_for_either_kind),
		cmocka_unit_test(writing_after_shutdown_is_a_broken_pipe),
		cmocka_unit_test(a_child_of_fork_leaves_the_connection_alone),
		cmocka_unit_test(a_server_may_leave_the_connection_to_a_child),
		cmocka_unit_test(a_child_and_its_parent_write_to_one_connection),
		cmocka_unit_test(children_may_accept_what_the_parent_only_listens_for),
		cmocka_unit_test(a_child_of_vfork_closes_its_own_numbers),
		cmocka_unit_test(a_range_of_numbers_is_closed),
		cmocka_unit_test(several_messages_go_with_one_call),
		cmocka_unit_test(the_error_queue_is_empty),
		cmocka_unit_test(what_rdma_does_not_have_is_refused),
		cmocka_unit_test(select_takes_numbers_above_its_usual_limit),
		cmocka_unit_test(a_connection_can_be_sent_to_another_process),
		cmocka_unit_test(an_abort_is_not_taken_for_an_end),
		cmocka_unit_test(who_is_killed_has_not_closed),
		cmocka_unit_test(who_writes_to_nobody_gets_a_broken_pipe),
		cmocka_unit_test(both_directions_ended_is_a_hang_up),
		cmocka_unit_test(ends_that_cross_arrive),
		cmocka_unit_test(wrong_arguments_are_refused),
	};

	plain = argc > 1 && !strcmp(argv[1], "plain");
	return cmocka_run_group_tests_name("ordinary sockets", tests, NULL, NULL);
}

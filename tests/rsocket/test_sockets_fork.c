/* SPDX-License-Identifier: BSD-2-Clause */
/* An ordinary socket program: copies of descriptors, and what children do with them. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/close_range.h>

#include "ends.h"

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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_name_the_same_connection),
		cmocka_unit_test(flags_are_as_they_were_set),
		cmocka_unit_test(a_range_of_numbers_is_closed),
		cmocka_unit_test(a_child_of_fork_leaves_the_connection_alone),
		cmocka_unit_test(a_server_may_leave_the_connection_to_a_child),
		cmocka_unit_test(a_child_and_its_parent_write_to_one_connection),
		cmocka_unit_test(children_may_accept_what_the_parent_only_listens_for),
		cmocka_unit_test(a_child_of_vfork_closes_its_own_numbers),
		cmocka_unit_test(a_connection_can_be_sent_to_another_process),
	};

	return run_ends("ordinary sockets, descriptors and children", tests, argc, argv);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "ends.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

bool plain;

void listen_somewhere(struct ends *ends)
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

void open_ends(struct ends *ends)
{
	listen_somewhere(ends);
	ends->client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(ends->client, (void *)&ends->addr, sizeof(ends->addr)), 0);
	ends->server = accept(ends->listener, NULL, NULL);
	assert_true(ends->server >= 0);
}

void close_ends(struct ends *ends)
{
	const int fds[] = { ends->client, ends->server, ends->listener };

	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0)
			assert_int_equal(close(fds[i]), 0);
	}
}

void close_now(int *fd)
{
	assert_int_equal(close(*fd), 0);
	*fd = -1;
}

bool kernel_has_connection(const struct sockaddr_in *addr)
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

void receive(int fd, const char *expected)
{
	char bytes[100];

	assert_int_equal(recv(fd, bytes, strlen(expected), MSG_WAITALL), strlen(expected));
	assert_memory_equal(bytes, expected, strlen(expected));
}

int raw_socket(void)
{
	return (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

void epoll_add(int set, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = (uint64_t)fd };

	assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
}

short events_of(int fd, short events)
{
	struct pollfd ready = { .fd = fd, .events = events };

	assert_int_equal(poll(&ready, 1, -1), 1);
	return ready.revents;
}

pid_t in_a_child(int (*work)(struct ends *ends), struct ends *ends)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child)
		_exit(work(ends));
	return child;
}

void assert_success(pid_t child)
{
	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP connections a second (connect.h). One byte of the server tells that it has accepted. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench.h"
#include "connect.h"

enum { EVENTS = 64 };

static void watch(int epoll, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		bench_die(errno, "epoll_ctl");
}

/* --- the server --- */

static void take(int epoll, int listener)
{
	char byte = 1;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1)
			bench_die(errno, "send");
		watch(epoll, fd, EPOLLIN);
	}
}

static void serve(const struct connect_options *options)
{
	int listener = connect_control_listen(options), epoll = epoll_create1(EPOLL_CLOEXEC);
	int control = connect_control_accept(listener);
	struct epoll_event events[EVENTS];

	fcntl(listener, F_SETFL, O_NONBLOCK);
	watch(epoll, listener, EPOLLIN);
	watch(epoll, control, EPOLLIN);
	for (;;) {
		int count = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < count; i++) {
			if (events[i].data.fd == control)
				return;
			if (events[i].data.fd == listener)
				take(epoll, listener);
			else
				close(events[i].data.fd); /* the client's end is the only event */
		}
	}
}

/* --- the client --- */

static int start(const struct connect_options *options, int flags)
{
	int fd = socket(options->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

	if (fd < 0 ||
	    (connect(fd, (const struct sockaddr *)&options->address, options->address_length) &&
	     errno != EINPROGRESS))
		bench_die(errno, "connect");
	return fd;
}

static void await_byte(int fd)
{
	char byte;

	if (recv(fd, &byte, 1, 0) != 1)
		bench_die(errno, "the server hung up");
}

static void one(const struct connect_options *options)
{
	int fd = start(options, 0);

	await_byte(fd);
	close(fd);
}

static double many(const struct connect_options *options)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), done = 0;
	struct epoll_event events[EVENTS];
	double start_ns = bench_now_ns(), end_ns;

	for (int i = 0; i < options->concurrent; i++)
		watch(epoll, start(options, SOCK_NONBLOCK), EPOLLIN);
	while (done < options->concurrent) {
		int count = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < count; i++) {
			await_byte(events[i].data.fd);
			epoll_ctl(epoll, EPOLL_CTL_DEL, events[i].data.fd, NULL);
		}
		done += count;
	}
	end_ns = bench_now_ns();
	close(epoll);
	return end_ns - start_ns; /* the sockets close with the program */
}

int main(int argc, char **argv)
{
	static const struct connect_shape shape = { "connect_tcp", serve, one, many };

	return connect_main(argc, argv, &shape);
}

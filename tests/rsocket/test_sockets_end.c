/* SPDX-License-Identifier: BSD-2-Clause */
/* An ordinary socket program: how a connection ends. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writing_after_shutdown_is_a_broken_pipe),
		cmocka_unit_test(an_abort_is_not_taken_for_an_end),
		cmocka_unit_test(who_is_killed_has_not_closed),
		cmocka_unit_test(who_writes_to_nobody_gets_a_broken_pipe),
		cmocka_unit_test(both_directions_ended_is_a_hang_up),
		cmocka_unit_test(ends_that_cross_arrive),
	};

	return run_ends("ordinary sockets, their end", tests, argc, argv);
}

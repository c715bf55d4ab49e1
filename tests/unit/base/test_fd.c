/* SPDX-License-Identifier: BSD-2-Clause */
/* Our descriptors stay out of the way of the program's, under every limit. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../child.h"
#include "base/fd.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int limit_set(rlim_t files)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return -1;
	limit.rlim_cur = files;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

static void an_eventfd_is_known_from_everything_else(void **state)
{
	int event = eventfd(0, EFD_CLOEXEC), ends[2], null = open("/dev/null", O_WRONLY);

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_true(vb_fd_is_eventfd(event));
	assert_false(vb_fd_is_eventfd(ends[1]));
	assert_false(vb_fd_is_eventfd(null));
	assert_false(vb_fd_is_eventfd(-1));
	close(event);
	close(ends[0]);
	close(ends[1]);
	close(null);
}

struct high_row {
	rlim_t limit;
	int lowest;
};

static int moves_high(const void *arg)
{
	const struct high_row *row = arg;
	struct stat before, after;
	int fd = open("/dev/null", O_RDONLY), high;

	child_check(!limit_set(row->limit));
	child_check(fd >= 0 && !fstat(fd, &before));
	high = vb_fd_high(fd);
	child_check(high >= row->lowest && high < row->lowest + 16);
	child_check(!is_open(fd));
	child_check(fcntl(high, F_GETFD) == FD_CLOEXEC);
	child_check(!fstat(high, &after) && before.st_rdev == after.st_rdev);
	return 0;
}

static void a_descriptor_moves_to_the_upper_half_and_is_closed_at_exec(void **state)
{
	static const struct high_row rows[] = {
		{ 64, 32 }, { 256, 128 }, { 1024, 512 }, { 8192, 4096 }, { 16384, 4096 },
	};
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].limit <= limit.rlim_max)
			assert_child_passes(moves_high, &rows[i]);
}

static int stays_when_full(const void *arg)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	child_check(fd >= 0 && fd < 32 && !limit_set(64));
	for (int i = 32; i < 64; i++)
		child_check(dup2(fd, i) == i);
	child_check(vb_fd_high(fd) == fd && is_open(fd));
	return 0;
}

static void a_descriptor_stays_where_it_is_when_there_is_no_room_above(void **state)
{
	assert_child_passes(stays_when_full, NULL);
}

static void no_descriptor_stays_none_with_its_errno(void **state)
{
	errno = EMFILE;
	assert_int_equal(vb_fd_high(-1), -1);
	assert_int_equal(errno, EMFILE);
}

static void closing_forgets_the_descriptor_so_that_twice_is_harmless(void **state)
{
	int fd = open("/dev/null", O_RDONLY), closed = fd;

	assert_true(is_open(fd));
	vb_fd_close(&fd);
	assert_int_equal(fd, -1);
	assert_false(is_open(closed));
	vb_fd_close(&fd);
	assert_int_equal(fd, -1);
}

/* A message with two descriptors, which none of our senders makes. */
static void send_two(int socket, const int fds[2])
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(2 * sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { "two", 4 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.head), fds, 2 * sizeof(int));
	assert_int_equal(sendmsg(socket, &msg, 0), 4);
}

/* How many of the first numbers are open. */
static int count_open(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += is_open(fd);
	return count;
}

static void a_message_brings_one_descriptor_at_most(void **state)
{
	int pair[2], fds[2] = { eventfd(0, 0), eventfd(0, 0) }, got, before;
	char text[8];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_true(vb_fd_send(pair[0], "none", 5, -1));
	assert_int_equal(vb_fd_receive(pair[1], text, sizeof(text), 0, &got), 5);
	assert_int_equal(got, -1);
	send_two(pair[0], fds);
	before = count_open();
	assert_int_equal(vb_fd_receive(pair[1], text, sizeof(text), 0, &got), 4);
	assert_true(vb_fd_is_eventfd(got));
	assert_int_equal(count_open(), before + 1);
	close(got);
	assert_int_equal(vb_fd_receive(pair[1], text, sizeof(text), MSG_DONTWAIT, &got), -EAGAIN);
	assert_int_equal(got, -1);
	close(pair[0]);
	close(pair[1]);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_eventfd_is_known_from_everything_else),
		cmocka_unit_test(a_descriptor_moves_to_the_upper_half_and_is_closed_at_exec),
		cmocka_unit_test(a_descriptor_stays_where_it_is_when_there_is_no_room_above),
		cmocka_unit_test(no_descriptor_stays_none_with_its_errno),
		cmocka_unit_test(closing_forgets_the_descriptor_so_that_twice_is_harmless),
		cmocka_unit_test(a_message_brings_one_descriptor_at_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

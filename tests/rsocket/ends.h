/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends of a connection, as an ordinary socket program has them. Run with the preload library in
 * front it goes by RDMA; without ("plain") by the kernel's TCP, and the same tests hold.
 */
#ifndef TESTS_RSOCKET_ENDS_H
#define TESTS_RSOCKET_ENDS_H

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

extern bool plain; /* without the library */

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

void listen_somewhere(struct ends *ends);
void open_ends(struct ends *ends);
void close_ends(struct ends *ends);
void close_now(int *fd);
/* Whether the kernel knows of a TCP connection at this port. */
bool kernel_has_connection(const struct sockaddr_in *addr);
/* Exactly these bytes. */
void receive(int fd, const char *expected);
/* By system calls: of a peer that is no RDMA program. */
int raw_socket(void);
void epoll_add(int set, int fd, uint32_t events);
/* Waits for one of them. */
short events_of(int fd, short events);
/* Runs work in a child; the parent goes on at once. */
pid_t in_a_child(int (*work)(struct ends *ends), struct ends *ends);
/* The child ends, and has found nothing wrong. */
void assert_success(pid_t child);
/* The main function of all these programs. */
#define run_ends(name, tests, argc, argv)                   \
	(plain = (argc) > 1 && !strcmp((argv)[1], "plain"), \
	 cmocka_run_group_tests_name(name, tests, NULL, NULL))

#endif

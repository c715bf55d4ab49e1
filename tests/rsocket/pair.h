/* SPDX-License-Identifier: BSD-2-Clause */
/* Two rsockets that are connected to each other, for tests in one process. */
#ifndef VB_TEST_PAIR_H
#define VB_TEST_PAIR_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
	int listener, client, server;
	struct sockaddr_storage addr; /* of the listener */
	socklen_t addr_size;
};

/* What the rsockets have before they listen and connect; may be NULL. */
typedef void pair_prepare(int fd);

int make_listener(struct pair *pair, int family, pair_prepare *prepare);
void connect_pair(struct pair *pair, pair_prepare *prepare);
/* IPv4 loopback. */
void pair_open(struct pair *pair, pair_prepare *prepare);
void pair_close(struct pair *pair);

void set_nonblock(int fd, bool nonblock);
void fill_pattern(uint8_t *bytes, size_t size, size_t offset);
void assert_pattern(const uint8_t *bytes, size_t size, size_t offset);
void send_all(int fd, size_t size);
void receive_all(int fd, size_t size);
uint64_t now_ms(void);

#define assert_errno(call, expected)                   \
	do {                                           \
		errno = 0;                             \
		assert_int_equal((ssize_t)(call), -1); \
		assert_int_equal(errno, expected);     \
	} while (0)

#endif

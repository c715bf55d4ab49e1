/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

int make_listener(struct pair *pair, int family, pair_prepare *prepare)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	const bool v4 = family == AF_INET;

	pair->client = pair->server = -1;
	pair->listener = rsocket(family, SOCK_STREAM, 0);
	assert_true(pair->listener >= 0);
	if (prepare)
		prepare(pair->listener);
	assert_int_equal(rbind(pair->listener, v4 ? (void *)&in : (void *)&in6,
			       v4 ? sizeof(in) : sizeof(in6)),
			 0);
	assert_int_equal(rlisten(pair->listener, 8), 0);
	pair->addr_size = sizeof(pair->addr);
	assert_int_equal(rgetsockname(pair->listener, (void *)&pair->addr, &pair->addr_size), 0);
	return pair->listener;
}

void connect_pair(struct pair *pair, pair_prepare *prepare)
{
	pair->client = rsocket(pair->addr.ss_family, SOCK_STREAM, 0);
	assert_true(pair->client >= 0);
	if (prepare)
		prepare(pair->client);
	/* The listener accepts by itself, as TCP does: nobody has to be in raccept. */
	assert_int_equal(rconnect(pair->client, (void *)&pair->addr, pair->addr_size), 0);
	pair->server = raccept(pair->listener, NULL, NULL);
	assert_true(pair->server >= 0);
}

void pair_open(struct pair *pair, pair_prepare *prepare)
{
	make_listener(pair, AF_INET, prepare);
	connect_pair(pair, prepare);
}

void pair_close(struct pair *pair)
{
	int fds[] = { pair->client, pair->server, pair->listener };

	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0)
			assert_int_equal(rclose(fds[i]), 0);
	}
}

void set_nonblock(int fd, bool nonblock)
{
	assert_int_equal(rfcntl(fd, F_SETFL, nonblock ? O_NONBLOCK : 0), 0);
}

static uint8_t pattern(size_t offset)
{
	return (uint8_t)(offset * 7 + offset / 251);
}

void fill_pattern(uint8_t *bytes, size_t size, size_t offset)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = pattern(offset + i);
}

void assert_pattern(const uint8_t *bytes, size_t size, size_t offset)
{
	for (size_t i = 0; i < size; i++)
		assert_int_equal(bytes[i], pattern(offset + i));
}

void send_all(int fd, size_t size)
{
	uint8_t *bytes = malloc(size);

	fill_pattern(bytes, size, 0);
	assert_int_equal(rsend(fd, bytes, size, 0), size);
	free(bytes);
}

void receive_all(int fd, size_t size)
{
	uint8_t *bytes = malloc(size);

	assert_int_equal(rrecv(fd, bytes, size, MSG_WAITALL), size);
	assert_pattern(bytes, size, 0);
	free(bytes);
}

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

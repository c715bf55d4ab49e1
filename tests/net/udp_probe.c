/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain numbered UDP datagrams across an impaired link, to see what arrives.
 *
 *   udp_probe receive PORT QUIET_MS      prints the numbers in the order of arrival, one a line;
 *                                        "bad" for one with a wrong byte; ends when it is quiet
 *                                        after SIGUSR1, which says that all were sent
 *   udp_probe send ADDRESS PORT COUNT GAP_US
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 512, BUFFER_SIZE = 8 << 20, PATIENCE_MS = 20000 };

static volatile sig_atomic_t all_sent;

static void on_sent(int number)
{
	(void)number;
	all_sent = 1;
}

static void fill(unsigned char *bytes, unsigned number)
{
	for (unsigned i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(number * 31 + i);
	memcpy(bytes, &number, sizeof(number));
}

/* A datagram is there. A sender that gets no CPU for a while is not quiet. */
static bool comes(int sock, int quiet_ms)
{
	struct pollfd fd = { .fd = sock, .events = POLLIN };
	int count;

	do
		count = poll(&fd, 1, all_sent ? quiet_ms : PATIENCE_MS);
	while (count < 0 && errno == EINTR);
	return count > 0;
}

static int receive(const char *port, int quiet_ms)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(atoi(port)) };
	int sock = socket(AF_INET6, SOCK_DGRAM, 0), size = BUFFER_SIZE;
	unsigned char bytes[SIZE], wanted[SIZE];
	unsigned number;

	signal(SIGUSR1, on_sent);
	setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	if (bind(sock, (struct sockaddr *)&any, sizeof(any))) {
		perror("bind");
		return 1;
	}
	while (comes(sock, quiet_ms)) {
		if (recv(sock, bytes, sizeof(bytes), 0) != SIZE)
			return 1;
		memcpy(&number, bytes, sizeof(number));
		fill(wanted, number);
		if (memcmp(bytes, wanted, SIZE))
			puts("bad");
		else
			printf("%u\n", number);
	}
	return 0;
}

static int send_all(const char *address, const char *port, unsigned count, long gap_us)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *found;
	struct timespec gap = { .tv_nsec = gap_us * 1000 };
	unsigned char bytes[SIZE];

	if (getaddrinfo(address, port, &hints, &found))
		return 1;
	int sock = socket(found->ai_family, SOCK_DGRAM, 0);

	for (unsigned number = 0; number < count; number++) {
		fill(bytes, number);
		if (sendto(sock, bytes, SIZE, 0, found->ai_addr, found->ai_addrlen) != SIZE) {
			perror("sendto");
			return 1;
		}
		if (gap_us)
			nanosleep(&gap, NULL);
	}
	freeaddrinfo(found);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "receive"))
		return receive(argv[2], atoi(argv[3]));
	if (argc == 6 && !strcmp(argv[1], "send"))
		return send_all(argv[2], argv[3], (unsigned)atoi(argv[4]), atol(argv[5]));
	fprintf(stderr,
		"usage: udp_probe receive PORT QUIET_MS | send ADDRESS PORT COUNT GAP_US\n");
	return 2;
}
